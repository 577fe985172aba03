"""Checkpoint interval by Young and Daly, the size and time of a checkpoint, and the time-outs."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.facts.measurements import Measurement
from recipes.constants import constant
from recipes.machine.measured_rates import measured_writes
from recipes.planning.run_cost import run_cost
from recipes.settings.checkpointing import (
    checkpoint_bytes,
    checkpoints_of,
    daly_interval,
    loading_warning,
    young_interval,
)
from recipes.settings.setting import NOTHING_STATED, Stated
from recipes.settings.timeouts import load_timeouts, timeout_settings
from tests.support.clusters import cpu_cluster, figure, h100_cluster
from tests.unit.recipes.settings.test_published_cases import images, text

HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("write_s", "mtbf_s", "young", "daly"),
    [
        # 5 minutes to write and a failure each day: sqrt(2 x 300 x 86400) = 7200
        (300.0, DAY, 7200.0, 7001.39),
        (50.0, 100 * HOUR, 6000.0, 5966.71),
        # writing takes half of the mean time between failures
        (30 * 60.0, HOUR, 3600.0, 2500.0),
    ],
)
def test_young_and_daly(write_s: float, mtbf_s: float, young: float, daly: float) -> None:
    """Daly 2006, equation 37, by hand: sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / (18 M)) - d."""
    assert young_interval(write_s, mtbf_s) == pytest.approx(young)
    assert daly_interval(write_s, mtbf_s) == pytest.approx(daly, rel=1e-5)


@given(st.floats(1, 1e4), st.floats(1e3, 1e8))
def test_the_interval_loses_hardly_more_than_any_other(write_s: float, mtbf_s: float) -> None:
    """Daly's model of the whole time, equation 20, without restarts: M (e^((t + d) / M) - 1) / t."""
    best = daly_interval(write_s, mtbf_s)

    def loss(interval: float) -> float:
        return mtbf_s * math.expm1((interval + write_s) / mtbf_s) / interval

    if write_s < 0.5 * mtbf_s:
        assert loss(best) <= 1.002 * min(loss(best * factor) for factor in (0.5, 0.8, 1.25, 2.0))


STATED = st.floats(1e-12, 1e12)
"""Numbers that the command line accepts."""


@given(STATED, STATED, STATED)
def test_rarer_failures_never_shorten_the_interval(write_s: float, mtbf_s: float, more: float) -> None:
    interval = daly_interval(write_s, mtbf_s)
    assert 0 < interval <= daly_interval(write_s, mtbf_s * (1 + more)) * (1 + 1e-9) < math.inf
    assert 0 < young_interval(write_s, mtbf_s) < young_interval(write_s * 2, mtbf_s * 2) < math.inf


@given(st.none() | STATED, st.none() | STATED, st.none() | st.floats(1e-3, 1e21), st.floats(1e-9, 1e9))
def test_every_statement_gives_finite_checkpoints(
    hours: float | None, write_s: float | None, rate: float | None, step_s: float
) -> None:
    stated = Stated(node_mtbf_hours=hours, write_s=write_s, write_bytes_per_s=rate)
    plan, decisions = checkpoints_of(text("gpt2", 8), h100_cluster(), stated, step_s)
    figures = (plan.write_s, plan.mtbf_s, plan.interval_s, plan.every_steps)
    assert all(isinstance(each, Unknown) or 0 < each < math.inf for each in figures)
    assert all(math.isfinite(each.value) and "inf " not in each.because for each in decisions)


def test_a_write_longer_than_twice_the_mtbf_has_the_mtbf_as_interval() -> None:
    assert daly_interval(3 * HOUR, HOUR) == HOUR


def test_a_checkpoint_holds_weights_and_states_of_what_is_trained() -> None:
    """Llama 3 8B: 8.03 G parameters x (4 + 8) bytes of fp32 weights and Adam's moments."""
    assert checkpoint_bytes(text("llama-3-8b", 8)) == pytest.approx(8.03e9 * 12, rel=0.001)
    assert checkpoint_bytes(text("llama-3-8b", 8, optimizer="lion")) == pytest.approx(8.03e9 * 8, rel=0.001)
    assert checkpoint_bytes(images("resnet50", 8)) == pytest.approx(25.6e6 * 8, rel=0.01)
    # LoRA of rank 16 over every linear layer: 35.7 M parameters, with query, key and value as one product and
    # gate and up as one, as the model of memory counts them (peft has 41.9 M in separate products).
    lora = text("llama-3-8b", 8, tuning="lora", adapter_rank=16)
    assert checkpoint_bytes(lora) == pytest.approx(35.65e6 * 12, rel=0.01)


def test_a_stated_rate_of_writing_and_of_failures_gives_steps() -> None:
    stated = Stated(node_mtbf_hours=1000, write_bytes_per_s=2e9)
    workload, cluster = text("llama-3-8b", 512), h100_cluster(nodes=10)
    plan, settings = checkpoints_of(workload, cluster, stated, 10.0)
    assert plan.mtbf_s == 100 * HOUR
    assert plan.write_s == pytest.approx(plan.bytes / 2e9)
    assert isinstance(plan.write_s, float)
    assert plan.interval_s == pytest.approx(daly_interval(plan.write_s, 100 * HOUR))
    assert isinstance(plan.interval_s, float)
    assert plan.every_steps == round(plan.interval_s / 10)
    assert settings[0].text.startswith(f"{plan.every_steps} steps")
    assert "1000 hours between failures of a node, as you stated" in settings[0].because


def test_failures_of_gpus_are_published_and_twice_the_nodes_fail_twice_as_often() -> None:
    stated = Stated(write_s=60.0)
    one, two = (checkpoints_of(text("gpt2", 8), h100_cluster(nodes=n), stated, 1.0)[0] for n in (1, 2))
    assert one.mtbf_s == pytest.approx(3600 / (8 * constant("interruptions_per_gpu_hour")))
    assert isinstance(two.mtbf_s, float)
    assert two.mtbf_s * 2 == pytest.approx(one.mtbf_s)


def test_an_unknown_time_to_write_gives_an_assumed_interval_a_range_and_what_to_give() -> None:
    plan, settings = checkpoints_of(text("llama-3-8b", 8), h100_cluster(), NOTHING_STATED, 1.0)
    assert isinstance(plan.write_s, Unknown)
    assert isinstance(plan.interval_s, Unknown)
    # 96.4 GB take 96 s at 1 GB/s, with a failure every 264 days.
    assert plan.every_steps == pytest.approx(18.4 * HOUR, rel=0.01)
    assert settings[0].text.startswith(f"{plan.every_steps} steps (18 h 23 min)")
    assert "assumed for a storage of 1 GB/s" in settings[0].because
    assert "assumed" in settings[0].warning
    assert "--write-bandwidth" in settings[0].warning
    assert "--write-bandwidth" in settings[0].because
    shown = ": 18 h 23 min at 1 GB/s, 5 h 49 min at 10 GB/s, 1 h 50 min at 100 GB/s; give"
    assert shown in settings[0].because


def test_a_run_shorter_than_any_interval_is_saved_at_its_end() -> None:
    # gpt2's 1.4 GiB take 15 ms at 100 GB/s; with a failure every 264 days, the interval is 14 minutes.
    short, long = (
        checkpoints_of(text("gpt2", 8, steps=steps), h100_cluster(), NOTHING_STATED, 1.0)[1][0]
        for steps in (700, 1000)
    )
    assert short.text == "end of run"
    assert short.warning == ""
    assert "assumed" in long.because
    assert "a failure every 264 days" in short.because


@pytest.mark.parametrize(("step_s", "is_warned"), [(1.0, False), (2.0, True)])
def test_a_cpu_has_no_published_failure_rate(step_s: float, is_warned: bool) -> None:
    job = text("gpt2", 8, steps=800)
    plan, settings = checkpoints_of(job, cpu_cluster(), Stated(write_s=1.0), step_s)
    assert isinstance(plan.interval_s, Unknown)
    assert "--node-mtbf" in settings[0].because
    assert ("saves only at its last step" in settings[0].warning) is is_warned


def test_an_unknown_step_gives_an_interval_but_no_steps() -> None:
    missing = Unknown(Reason.NOT_RECORDED, "no rate")
    plan, settings = checkpoints_of(text("gpt2", 8), h100_cluster(), Stated(write_s=10.0), missing)
    assert plan.every_steps == missing
    assert "steps" not in settings[0].text


def test_a_measured_rate_of_one_node_is_used() -> None:
    cluster = h100_cluster(write_bytes_per_s=figure(1e9))
    plan, settings = checkpoints_of(text("gpt2", 8), cluster, NOTHING_STATED, 1.0)
    assert plan.write_s == pytest.approx(plan.bytes / 1e9)
    assert "of one node" in settings[0].because


def test_measurements_of_storage_become_the_rate() -> None:
    row = Measurement(
        bench_id="storage",
        subject="storage",
        metric="write_bandwidth_bytes_per_s",
        unit="byte/s",
        samples=(2e9, 3e9, 4e9),
        parameters={"data_path": "/data"},
    )
    rate = measured_writes((row,))
    assert rate is not None
    assert (rate.value, rate.source) == (3e9, "benchmark storage, /data")
    assert measured_writes(()) is None


def test_the_run_costs_what_failures_and_checkpoints_lose() -> None:
    stated = Stated(node_mtbf_hours=100, write_s=36.0)
    workload, cluster = text("gpt2", 8, steps=3600 * 1000), h100_cluster()
    plan, _ = checkpoints_of(workload, cluster, stated, 1.0)
    assert isinstance(plan.interval_s, float)
    cost = run_cost(workload, cluster, 1.0, checkpoints=plan)
    assert cost.interruptions == pytest.approx(10.0)
    per_failure_h = (plan.interval_s / 2 + constant("restart_s")) / 3600
    writing_h = 1000 * 36.0 / plan.interval_s
    assert cost.lost_hours == pytest.approx(10 * per_failure_h + writing_h)


# --- time-outs


@pytest.mark.parametrize(
    ("name", "default", "after_a_write_of_15_min"),
    [
        ("process_group_timeout", 600, 1800),
        ("heartbeat_timeout", 480, 1800),
        ("rendezvous_timeout", 600, 600),
        ("termination_grace", 30, 1800),
    ],
)
def test_timeouts(name: str, default: float, after_a_write_of_15_min: float) -> None:
    cluster = h100_cluster(nodes=2)
    short = {row.name: row for row in timeout_settings(cluster, 1.0)}
    slow = {row.name: row for row in timeout_settings(cluster, 900.0)}
    assert (short[name].value, slow[name].value) == (default, after_a_write_of_15_min)
    assert short[name].source
    assert load_timeouts()[name].setting in short[name].because


def test_only_timeouts_that_exist_are_named() -> None:
    missing = Unknown(Reason.NOT_RECORDED, "")
    assert list(timeout_settings(h100_cluster(ranks=1), 1.0)) == []
    assert [row.name for row in timeout_settings(h100_cluster(), missing)] == [
        "process_group_timeout",
        "heartbeat_timeout",
    ]
    [only] = timeout_settings(cpu_cluster(), missing)
    assert (only.name, only.value) == ("process_group_timeout", 1800)


@pytest.mark.parametrize("name", load_timeouts())
def test_every_figure_of_a_timeout_matters(name: str) -> None:
    rows = load_timeouts()
    row = rows[name]

    def values() -> list[float]:
        clusters = (h100_cluster(nodes=2), cpu_cluster())
        return [
            each.value
            for cluster in clusters
            for write in (1.0, 900.0)
            for each in timeout_settings(cluster, write)
        ]

    before = values()
    for field in ("default_s", "gloo_default_s", "write_factor"):
        if value := getattr(row, field):
            try:
                rows[name] = msgspec.structs.replace(row, **{field: 2 * value})
                assert values() != before, field
            finally:
                rows[name] = row


# --- data


def test_waiting_for_data_is_a_warning() -> None:
    missing = Unknown(Reason.NOT_RECORDED, "")
    assert loading_warning(h100_cluster(), missing, 1.0) == ""
    assert loading_warning(h100_cluster(), 0.0, 1.0) == ""
    words = loading_warning(h100_cluster(reads_per_s=figure(10.0)), 0.5, 2.0)
    assert words.startswith("each step waits 500 ms of 2 s for data: the storage")
