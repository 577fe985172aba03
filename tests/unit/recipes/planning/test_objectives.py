"""Test which part of a machine is chosen for an objective."""

from __future__ import annotations

import pytest

from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.objectives import Objective, Size, best_size, smaller_sizes
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.settings.setting import NOTHING_STATED, Stated
from tests.support.clusters import figure, h100_cluster


def planned(
    model: str,
    nodes: int,
    objective: Objective,
    *,
    network: float = 360e9,
    batch: int | None = None,
    stated: Stated = NOTHING_STATED,
) -> Plan:
    def plan_at(size: Size) -> Plan:
        cluster = h100_cluster(
            nodes=size.nodes, ranks=size.ranks_per_node, inter_bus_bandwidth_bytes_per_s=figure(network)
        )
        workload = default_workload(find_model(model), cluster, global_batch=batch)
        return make_plan(workload, cluster, MachineFacts(), Pins(), stated=stated)

    return best_size(plan_at, Size(nodes, 8), objective)


def gpu_seconds_per_token(plan: Plan) -> float:
    total = plan.chosen.predicted.step_time_s.total
    assert isinstance(total, float)
    return total * plan.cluster.world_size / plan.workload.tokens_per_step


def test_sizes_are_parts_in_descending_order() -> None:
    sizes = smaller_sizes(Size(7, 8))
    assert [(size.nodes, size.ranks_per_node) for size in sizes] == [
        (6, 8), (4, 8), (3, 8), (2, 8), (1, 8), (1, 4), (1, 2), (1, 1),
    ]  # fmt: skip


def test_all_gpus_are_used_where_they_help() -> None:
    plan = planned("llama-3-8b", 4, "throughput")
    assert plan.cluster.world_size == 32
    assert not any("uses" in text for text in plan.warnings)


def test_one_node_is_chosen_if_the_network_is_very_slow() -> None:
    plan = planned("llama-3-8b", 4, "throughput", network=1e6)
    assert plan.cluster.nodes == 1
    assert plan.warnings[0] == "uses 8 of 32 GPUs, which are faster than all of them"


def test_nodes_that_fail_often_make_fewer_of_them_cheaper() -> None:
    flaky = Stated(node_mtbf_hours=2.0, write_s=60.0)
    sure, unsure = (planned("qwen2.5-32b", 4, "cost", stated=stated) for stated in (NOTHING_STATED, flaky))
    assert (sure.cluster.nodes, unsure.cluster.nodes) == (4, 2)


def test_batch_below_the_ranks_uses_fewer_gpus() -> None:
    plan = planned("llama-3-8b", 1, "throughput", batch=4)
    assert plan.cluster.world_size == 4
    assert "global batch 4 cannot be shared by 8 ranks" in plan.warnings[0]


def test_odd_batch_leaves_one_gpu_idle() -> None:
    assert planned("llama-3-8b", 1, "throughput", batch=7).cluster.world_size == 7


def test_fewest_gpus_is_the_smallest_size_with_a_plan() -> None:
    plan = planned("llama-3-8b", 4, "fewest-gpus")
    assert plan.cluster.world_size < 8
    for ranks in range(1, plan.cluster.world_size):
        cluster = h100_cluster(ranks=ranks)
        with pytest.raises((NoFeasiblePlanError, UsageError)):
            make_plan(default_workload(find_model("llama-3-8b"), cluster), cluster, MachineFacts(), Pins())


def test_cost_needs_no_more_gpu_hours_than_all_gpus() -> None:
    cheapest, fastest = (
        planned("llama-3-8b", 4, objective, network=1e9) for objective in ("cost", "throughput")
    )
    assert gpu_seconds_per_token(cheapest) <= gpu_seconds_per_token(fastest)


@pytest.mark.parametrize("objective", ["throughput", "time", "cost", "fewest-gpus"])
def test_error_of_the_whole_machine_is_raised_if_nothing_fits(objective: Objective) -> None:
    with pytest.raises(NoFeasiblePlanError, match="llama-3-70b does not fit"):
        planned("llama-3-70b", 1, objective)


def test_time_counts_the_loss_to_failures() -> None:
    assert planned("llama-3-8b", 2, "time").cluster.world_size == 16
