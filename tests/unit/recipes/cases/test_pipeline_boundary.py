"""Messages between pipeline stages."""

from __future__ import annotations

import pytest

from recipes.cases.case import case_of_row
from recipes.cases.resolved import resolve
from recipes.predict.breakdowns import TimeBreakdown
from recipes.predict.speed.collectives import Group, collective_time_s
from recipes.predict.speed.step import step_time


def exposed_s(**changes: str) -> float:
    row = {
        "model": "llama-2-13b",
        "gpu": "A100-SXM-80GB",
        "n_gpus": "2",
        "gpus_per_node": "2",
        "pp": "2",
        "micro_batch": "4",
    }
    case = resolve(case_of_row({**row, "global_batch": "32", "task": "sft", **changes}))
    time = step_time(case.job)
    assert isinstance(time, TimeBreakdown)
    assert isinstance(time.exposed_communication, float)
    return time.exposed_communication


def test_stages_pass_the_tokens_that_samples_have_and_not_the_length_at_which_they_are_cut() -> None:
    short, long = (exposed_s(stack="litgpt", seq_len=str(length)) for length in (2048, 4096))
    assert long == pytest.approx(short, rel=0.05)
    filled, longer = (exposed_s(stack="megatron-core", seq_len=str(length)) for length in (2048, 4096))
    assert longer > 1.5 * filled


def test_only_a_boundary_between_nodes_uses_the_network_and_it_hides_beside_the_computation() -> None:
    layout = {
        "gpu": "RTX 4090",
        "stack": "megatron-core",
        "n_gpus": "8",
        "pp": "4",
        "tp": "1",
        "cp": "1",
        "interconnect_inter": "25GbE",
    }
    # With four stages on two nodes, one of three boundaries lies between the nodes; with two stages, the
    # only boundary does.
    of_four, of_two = ({**layout, "gpus_per_node": "4"}, {**layout, "gpus_per_node": "4", "pp": "2"})
    alone = {**layout, "gpus_per_node": "8"}

    def passing_s(of: dict[str, str]) -> float:
        few, many = (exposed_s(**{**of, "global_batch": str(batch)}) for batch in (256, 512))
        return many - few

    assert passing_s(alone) < passing_s(of_four) < 0.9 * passing_s(of_two)


def test_layers_that_wait_for_each_other_pass_each_micro_batch_over_each_boundary_once() -> None:
    row = {
        "stack": "hf-trainer",
        "sharding": "device_map",
        "gpus_per_node": "2",
        "grad_accum": "1",
        "global_batch": "",
    }
    case = resolve(
        case_of_row(
            {"model": "llama-2-13b", "gpu": "A100-SXM-80GB", "n_gpus": "2", "micro_batch": "4", **row}
        )
    )
    assert case.candidate.schedule == "layers"
    job = case.job
    message_s = collective_time_s("all_gather", 4.0 * job.tokens * 5120, Group(ranks=2, nodes=1), job.cluster)
    time = step_time(job)
    assert isinstance(message_s, float)
    assert isinstance(time, TimeBreakdown)
    assert time.exposed_communication == pytest.approx(2 * case.candidate.grad_accum * message_s)
