"""Test that each strategy is recommended only where it wins, with numbers of the job and the machine."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.pages.training.strategies_page import strategies_page
from probes.base.errors import NoFeasiblePlanError, UsageError
from probes.base.record import Unknown
from probes.facts import MachineFacts
from recipes.constants import constant
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.planning.planner import make_plan
from recipes.planning.programs import load_programs
from recipes.strategies.compression import low_rank_share
from recipes.strategies.strategy_table import load_strategies, strategy_named
from recipes.strategies.verdicts import Situation, StrategyAnswers, Verdict, on_all_ranks
from recipes.strategies.why_not import experiments, verdict, why_not
from tests.support.clusters import case, cpu_cluster
from tests.support.strategy_cases import (
    DDP,
    FAST,
    RECOMMENDED,
    REFUSED,
    SLOW,
    judged,
    model_of_tables,
    situation,
)

EXCHANGES = ("compression", "low-rank", "local-steps", "hierarchical", "fusion")
"""Kinds of strategies that only shorten communication."""


def number(value: float | Unknown) -> float:
    assert isinstance(value, float), value
    return value


def test_every_strategy_has_both_cases() -> None:
    assert set(load_strategies()) - {"data-parallel"} == set(RECOMMENDED)
    assert set(load_strategies()) == set(REFUSED)


@pytest.mark.parametrize("name", RECOMMENDED)
def test_each_strategy_is_recommended_for_its_job(name: str) -> None:
    answer = judged(name, **RECOMMENDED[name])
    assert answer.status in ("chosen", "recommended"), answer.because
    assert any(character.isdigit() for character in " ".join(answer.because))
    if answer.status == "recommended":
        assert number(answer.gain) >= constant("strategy_worth")


@pytest.mark.parametrize("name", REFUSED)
def test_where_a_strategy_does_not_win(name: str) -> None:
    here, words = REFUSED[name]
    answer = judged(name, **here)
    assert answer.status in ("not-worth", "not-applicable")
    assert words in " | ".join(answer.because)


@pytest.mark.parametrize("model", ["gpt2", "llama-3.2-1b", "llama-3-8b"])
@pytest.mark.parametrize("name", load_strategies())
def test_nothing_is_recommended_on_a_healthy_node(name: str, model: str) -> None:
    assert judged(name, model).status != "recommended"


@pytest.mark.parametrize("model", ["gpt2", "llama-3-8b"])
@pytest.mark.parametrize("nodes", [1, 4])
def test_plan_on_fast_links_suggests_no_experiment(model: str, nodes: int) -> None:
    here = situation(model, nodes=nodes)
    assert experiments(here, here.plan) == ()


@settings(max_examples=40, deadline=None)
@given(
    model=st.sampled_from(["gpt2", "smollm-360m", "llama-3.2-1b", "llama-3-8b"]),
    nodes=st.sampled_from([1, 2, 8]),
    rate=st.sampled_from([1, 10, 40, 100, 400, 3200]),
    plain=st.booleans(),
    program=st.sampled_from(["own", "deepspeed", "horovod"]),
)
def test_gain_is_at_most_the_exposed_communication(
    model: str, nodes: int, rate: int, plain: bool, program: str
) -> None:
    try:
        here = situation(
            model,
            nodes=nodes,
            network=f"{rate} Gb/s Ethernet",
            program=program,
            pins=DDP if plain else Pins(),
            precision="fp16" if program == "horovod" else "bf16",
        )
    except (NoFeasiblePlanError, UsageError):
        return  # the model does not fit
    share = here.exposed_s / number(here.total_s)
    for row in load_strategies().values():
        if row.kind in EXCHANGES:
            answer = verdict(row, here)
            if isinstance(answer.gain, float):
                assert answer.gain <= share + 1e-12, row.id


def test_half_of_the_bytes_halves_slow_communication() -> None:
    """All exposed communication between two nodes at 10 Gb/s is gradients, whose bytes fp16 halves."""
    here = situation("llama-3.2-1b", nodes=2, network=SLOW, pins=DDP)
    answer = verdict(strategy_named("fp16-compression"), here)
    share = here.exposed_s / number(here.total_s)
    assert 0.45 * share < number(answer.gain) <= 0.52 * share
    assert number(answer.step_time_s) == pytest.approx(number(here.total_s) * (1 - number(answer.gain)))


def test_averages_are_paid_once_per_period() -> None:
    """A tree over two nodes sends the averaged 4 bytes per weight once over each link."""
    here = situation("llama-3.2-1b", nodes=2, network=SLOW, pins=DDP)
    answer = verdict(strategy_named("local-sgd"), here)
    size, rate = 4 * 1.236e9, 10e9 / 8 * constant("tcp_fraction")
    saved = here.exposed_s - size / rate / 4
    assert number(answer.gain) == pytest.approx(saved / number(here.total_s), rel=0.01)


def test_rank_1_sends_less_than_a_thousandth_of_the_gradients() -> None:
    """A rank-1 approximation of an n x m matrix has n + m of its n m elements."""
    model = find_model("llama-3.2-1b")
    one, four = low_rank_share(model, 1, 2), low_rank_share(model, 4, 2)
    assert 0.0005 < one < 0.001
    assert four == pytest.approx(4 * one, rel=0.2)
    assert low_rank_share(model, 1, 1e9) == 1.0


def test_gradients_that_have_16_bits_are_not_compressed() -> None:
    answer = judged("bf16", "llama-3-8b", program="megatron", nodes=2, network=SLOW)
    assert answer.because == ("gradients already travel with 2 bytes each",)


def test_error_of_powersgd_needs_memory() -> None:
    answer = judged("powersgd", "llama-3-8b", program="horovod", precision="fp16", gpu="B300", pins=DDP)
    assert answer.status == "not-applicable"
    here = situation("llama-3.2-1b", nodes=2, network=SLOW, pins=DDP, gpu="A100-40GB", sequence_length=4096)
    answer = verdict(strategy_named("powersgd"), here)
    assert any("error that it keeps needs 4.6 GiB" in reason for reason in answer.because)


def test_sparse_tables_suit_servers_of_single_ranks() -> None:
    here: dict[str, Any] = {"nodes": 4, "per_node": 1, "network": SLOW, "pins": DDP, "global_batch": 8}
    sparse = judged("ps", model_of_tables(), sequence_length=128, **here)
    assert sparse.status == "recommended"
    assert "a rank uses up to 0.0256 % of its rows" in sparse.because[2]
    dense = judged("ps", "llama-3.2-1b", **here)
    assert number(dense.gain) < number(sparse.gain)


def test_waiting_is_the_difference_between_slowest_and_mean() -> None:
    """Half A100 (312 TFLOP/s) and half H100 (989.5): the mean rank waits 1 - 312 / 650.75 of the step."""
    answer = judged("async", **RECOMMENDED["async-sgd"])
    assert "waits 52.1 % of the step" in answer.because[0]
    assert number(answer.gain) == pytest.approx(1 - 312 / ((312 + 989.5) / 2), abs=0.01)


def test_speeds_of_unknown_gpus_are_unknown() -> None:
    here = situation("gpt2")
    unnamed = msgspec.structs.replace(here.plan.cluster, gpu="")
    blind = here._replace(plan=msgspec.structs.replace(here.plan, cluster=unnamed))
    answer = verdict(strategy_named("async"), blind)
    assert (answer.status, answer.because) == ("unknown", ("nothing shows which GPUs there are",))


def test_slow_network_suggests_an_experiment() -> None:
    """On two nodes at 10 Gb/s, a job has two suggestions, even if its plan uses only one node."""
    here = situation("llama-3-8b", nodes=2, network=SLOW)
    best, second = experiments(here, here.plan)
    assert (best.strategy, second.strategy) == ("diloco", "bf16-compression")
    assert best.saved_share == pytest.approx(0.506, abs=0.01)
    assert second.saved_share == pytest.approx(0.262, abs=0.01)
    alone = situation("llama-3-8b", nodes=1)
    wide = on_all_ranks(alone, here.cluster)
    assert wide.cluster.world_size == 16
    assert [row.ranks for row in experiments(wide, alone.plan)] == [16, 16]


def test_experiment_must_beat_the_plan_that_the_user_gets() -> None:
    here = situation("llama-3-8b", nodes=2, network=SLOW)
    fast = situation("llama-3-8b", nodes=4, network=FAST).plan
    assert experiments(here, fast) == ()


def test_layout_that_the_program_lacks_is_predicted_for_another() -> None:
    answer = judged("tp", "llama-3-8b", nodes=2, network=SLOW)
    assert answer.status == "not-applicable"
    assert "in a torch program that divides layers too" in answer.because[1]


def test_partition_is_a_seventh_of_the_gpu() -> None:
    answer = judged("mig", **RECOMMENDED["mig"])
    assert "7 jobs like this one" in answer.because[0]
    large = judged("mig", "llama-3.2-1b", per_node=1)
    assert "an instance has at most 38.9 GiB" in large.because[0]
    assert judged("mig", "gpt2", per_node=1, gpu="L40S").status == "not-applicable"


def test_unknown_step_time_yields_no_verdict() -> None:
    blind = cpu_cluster(flops_per_s={})
    workload, _ = case(find_model("rigtune-mini"), ranks=2, micro_batch=8, precision="fp32")
    here = Situation(make_plan(workload, blind, MachineFacts(), DDP), MachineFacts(), DDP)
    answer = verdict(strategy_named("local-sgd"), here)
    assert answer.status == "unknown"
    assert isinstance(answer.gain, Unknown)
    assert "unproven" in answer.gain.detail
    assert experiments(here, here.plan) == ()


@pytest.mark.parametrize("row", load_strategies().values(), ids=lambda row: row.id)
def test_rows(row: Any) -> None:
    assert set(row.settings) <= set(load_programs())
    assert row.source
    assert row.date
    assert all(text.endswith(".") for text in (row.how, row.chosen_when, row.not_when))
    assert strategy_named(row.id.upper().replace("-", " ")) is row


def test_unknown_name_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="fp61-compression") as refused:
        strategy_named("fp61-compression")
    assert "did you mean fp16-compression" in str(refused.value.hint)


def test_answers_are_in_the_order_of_the_question() -> None:
    answers = why_not(("mig", "bf16", "MIG"), situation("gpt2"))
    assert [row.strategy for row in answers.verdicts] == ["mig", "bf16-compression"]
    assert all(isinstance(row, Verdict) for row in answers.verdicts)


def test_an_embedding_that_is_shared_with_the_head_is_not_described_as_empty() -> None:
    answer = judged("async-sgd", "gpt2")
    assert "the embedding has 0 %" not in " | ".join(answer.because)
    assert "every weight has dense gradients" in " | ".join(answer.because)


def test_a_difference_that_nobody_notices_is_not_shown_as_two_equal_times() -> None:
    tiny = msgspec.structs.replace(
        judged("powersgd", "gpt2"), status="not-worth", gain=-0.0005, step_time_s=3.392
    )
    answers = StrategyAnswers(
        layout="DDP over 2 GPUs", step_time_s=3.39, exposed_communication_s=0.004, verdicts=(tiny,)
    )
    assert "the step changes by less than 0.2 %" in str(strategies_page(answers)[0].title)
