from __future__ import annotations

import pytest

from assistant.pages.measured import bench_costs
from assistant.pages.measured import bench_page as benchmarks
from assistant.usecases.bench.bench_list import list_benchmarks
from assistant.usecases.measure import MeasureOptions
from probes.compare.measurement_judgement import Judgement
from probes.facts.measurements import BenchFailure, MeasurementSet
from tests.support.tui_machines import cpu_box, faulty_server
from tests.support.tui_measured import judged_on_gpus, measured_on_cpu, measured_on_gpus
from tests.support.tui_text import words

ON_CPU = list_benchmarks(cpu_box(), MeasureOptions())
ON_GPUS = list_benchmarks(faulty_server(), MeasureOptions())


def page(measured, judgement=None, *, waiting=(), show_all=False, width=138):
    judged = judgement if judgement is not None else Judgement()
    shown = benchmarks.results_section(measured, judged, waiting=waiting, show_all=show_all, width=width)
    return words(shown, width=width)


def test_the_page_shows_results_what_runs_and_what_waits():
    text = page(measured_on_gpus(), judged_on_gpus())
    assert "705 TFLOP/s" in text
    assert "GPU5 73 %" in text
    text = page(measured_on_cpu(), waiting=("memory-copy", "storage", "train-step"))
    assert "> memory-copy" in text
    assert "queued: storage, train-step" in text
    assert "queued" not in page(measured_on_cpu(), waiting=("memory-copy",))
    assert "no result yet" in page(MeasurementSet())


def costs(suite, width):
    return bench_costs.costs_table(bench_costs.planned(ON_CPU, suite), width=width, suites=(suite,))


def test_before_a_run_its_benchmarks_and_their_cost_are_listed():
    text = words(costs("quick", 78), width=78)
    assert "gemm" in text
    assert "host-device" not in text
    assert "micro-batch" not in text
    assert "micro-batch" in words(costs("full", 138), width=138)


def test_the_sick_part_is_named_worst_first():
    lines = words(benchmarks.sick(judged_on_gpus()), width=200).splitlines()
    assert lines[0].startswith("✗ FAIL      GPU5: copies to and from the host")
    assert "bf16 GEMM" in lines[1]
    assert benchmarks.sick(Judgement()).is_empty


def test_a_failure_shows_its_log_and_how_to_repeat_it():
    text = words(benchmarks.failures(measured_on_gpus().failures))
    assert "no answer within 60 s" in text
    assert "NCCL WARN Timeout waiting for mlx5_3" in text
    assert "again: /opt/venv/bin/python -m torch.distributed.run" in text


def intro(facts, measured=None, entries=ON_CPU, **more):
    given = {"is_live": True, "progress": "", **more}
    return words(
        benchmarks.intro(facts, measured or MeasurementSet(), entries=entries, **given), width=200
    ).rstrip()


def test_the_intro_names_what_gave_no_result_but_not_what_was_stopped():
    kinds = {"storage": "timeout", "gemm": "stopped"}
    failed = tuple(
        BenchFailure(bench_id=name, subject="host", kind=kind, message="why") for name, kind in kinds.items()
    )
    last = intro(cpu_box(), MeasurementSet(failures=failed)).splitlines()[-1]
    assert "storage" in last
    assert "gemm" not in last


def test_the_intro_names_cost_or_what_is_missing():
    text = intro(cpu_box())
    assert "s starts the quick suite: about" in text
    assert "occupies all CPUs" in text
    assert "f chooses the full suite" in text
    assert "s starts the full suite" in intro(cpu_box(), suite="full")
    assert "occupies all GPUs" in intro(faulty_server(), entries=ON_GPUS)
    assert benchmarks.GET_TORCH in intro(cpu_box(torch_version=None))
    assert "not the live machine" in intro(faulty_server(), is_live=False)
    assert ". stops it" in intro(cpu_box(), progress="gemm")


def test_a_reason_that_stopped_every_benchmark_is_said_once():
    refused = [
        BenchFailure(bench_id=name, subject="this machine", kind="busy", message="GPU0 is held")
        for name in ("a", "b")
    ]
    assert words(benchmarks.failures(refused)).strip() == "✗ a, b on this machine: GPU0 is held"


@pytest.mark.parametrize("progress", ["", "gemm"])
def test_a_warning_about_the_conditions_is_shown_during_and_after_the_run(progress):
    text = intro(cpu_box(), measured_on_cpu(), progress=progress, note="the CPUs are busy")
    assert text.endswith("\n! the CPUs are busy")


@pytest.mark.parametrize("width", [40, 76, 138])
@pytest.mark.parametrize("measured", [measured_on_gpus(), measured_on_cpu(), MeasurementSet()])
def test_every_width_can_be_drawn(measured, width):
    assert page(measured, judged_on_gpus(), width=width).strip()
    assert words(*benchmarks.drawings(measured, Judgement()), width=width) is not None


def test_a_known_machine_occupies_its_gpus_or_its_cpus():
    assert {entry.occupies for entry in ON_GPUS if entry.id in ("gemm", "collectives")} == {"all GPUs"}
    assert {entry.occupies for entry in ON_CPU if entry.id in ("gemm", "collectives")} == {"all CPUs"}
