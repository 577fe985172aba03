"""Test plans of last resort, and the changes that the refusal of an infeasible request names."""

import re

import msgspec
import pytest

from probes.base.errors import NoFeasiblePlanError
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.host_facts import Memory
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.planning.changes import Asked
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload
from recipes.planning.programs import program_named
from recipes.planning.resorts import best_plan


def asked_of(model: str, gpu: str, gpus: int, nodes: int = 1, program: str = "own", **job: object) -> Asked:
    cluster = cluster_from_words(
        MachineWords(gpu=gpu, gpus=gpus * nodes, gpus_per_node=gpus), load_catalogue()
    )
    row = program_named(program)
    workload = default_workload(find_model(model), cluster, program=row, **job)  # type: ignore[arg-type]
    return Asked(workload, cluster, Pins(), row, None)


def plan_of(asked: Asked, *, named: bool, facts: MachineFacts = MachineFacts()) -> Plan:  # noqa: B008 - frozen
    program = asked.program if named else None
    return best_plan(asked.workload, asked.cluster, facts, asked.pins, program=program)


def refusal_of(asked: Asked) -> NoFeasiblePlanError:
    with pytest.raises(NoFeasiblePlanError) as caught:
        plan_of(asked, named=True)
    return caught.value


def test_another_program_is_named_if_the_users_own_cannot_divide_the_model() -> None:
    plan = plan_of(asked_of("llama-3-405b", "H100-SXM-80GB", 8, 128, global_batch=512), named=False)
    assert plan.chosen.program in ("megatron", "torchtitan")
    assert any("has none" in warning for warning in plan.warnings)
    assert plan.cluster.world_size == 1024


def test_fewer_gpus_are_used_if_the_batch_cannot_be_shared() -> None:
    plan = plan_of(asked_of("llama-3.2-1b", "H100-SXM-80GB", 8, 4, global_batch=24), named=True)
    assert (plan.cluster.nodes, plan.cluster.ranks_per_node) == (3, 8)
    assert any("the plan uses only 24 of 32 GPUs" in warning for warning in plan.warnings)
    assert plan.workload.global_batch == 24


def test_offloaded_states_must_fit_in_the_hosts_memory() -> None:
    """70B under AdamW needs about 1 TiB of states, more than one node of 8 GPUs has."""
    asked = asked_of("llama-3-70b", "A100-SXM-80GB", 8, program="deepspeed", sequence_length=2048)
    plan = plan_of(asked, named=True)
    assert plan.chosen.offload
    assert 500 * GIB < plan.chosen.host_bytes_per_node < 1638 * GIB
    small = MachineFacts(memory=Memory(total_bytes=int(256 * GIB)))
    with pytest.raises(NoFeasiblePlanError):
        plan_of(asked, named=True, facts=small)


def test_the_named_number_of_nodes_is_the_smallest_that_fits() -> None:
    asked = asked_of("llama-3-70b", "H100-SXM-80GB", 8, program="megatron", global_batch=1024)
    error = refusal_of(asked)
    numbers = re.search(r"(\d+) nodes", error.hint or "")
    assert numbers
    nodes = int(numbers[1])
    assert asked.with_nodes(nodes).fits
    assert not any(asked.with_nodes(few).fits for few in range(1, nodes))


def test_the_named_sequence_is_the_longest_half_that_fits() -> None:
    asked = asked_of("llama-3-8b", "RTX4090", 8, program="megatron", sequence_length=131072, global_batch=8)
    assert not asked.fits
    hint = refusal_of(asked).hint or ""
    lengths = re.search(r"--sequence-length (\d+)", hint)
    assert lengths, hint
    length = int(lengths[1])

    def fits(tokens: int) -> bool:
        workload = msgspec.structs.replace(asked.workload, sequence_length=tokens)
        return asked._replace(workload=workload).fits

    assert fits(length)
    assert not fits(2 * length)


def test_a_pin_that_prevents_every_layout_is_named() -> None:
    asked = asked_of("llama-3-8b", "H100-SXM-80GB", 8)._replace(pins=Pins(strategy="ddp"))
    hint = refusal_of(asked).hint or ""
    assert "let FSDP share the states" in hint
    asked = asked_of("llama-3-8b", "H100-SXM-80GB", 8, sequence_length=32768, global_batch=8)
    hint = refusal_of(asked._replace(pins=Pins(activation_checkpointing="none"))).hint or ""
    assert "allow activation checkpointing" in hint


def test_two_changes_are_combined_if_none_helps_alone() -> None:
    hint = refusal_of(asked_of("llama-3-405b", "H100-SXM-80GB", 8)).hint or ""
    assert "--tuning qlora) and sequences of" in hint
    assert "--tuning lora) and" in hint
    assert "smaller" not in hint


@pytest.mark.parametrize(
    ("model", "gpu", "gpus", "program"),
    [("llama-3-70b", "RTX4090", 2, "own"), ("mixtral-8x7b", "A100-SXM-40GB", 4, "megatron")],
)
def test_no_refusal_asks_for_a_smaller_model(model: str, gpu: str, gpus: int, program: str) -> None:
    error = refusal_of(asked_of(model, gpu, gpus, program=program))
    assert "needs" in str(error)
    assert error.hint
    assert "smaller" not in error.hint
