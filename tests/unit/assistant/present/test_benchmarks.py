from __future__ import annotations

import pytest

from assistant.present import benchmarks
from assistant.present.results import case, reference_of, results, title
from probes.hardware import Catalogue, load_catalogue
from probes.measurements import BenchFailure, Measurement, MeasurementSet
from tests.support.tui_machines import cpu_box, faulty_server, measured_on_cpu, measured_on_gpus, unknown_machine
from tests.support.tui_text import words


def page(measured, facts=None, *, show_all=False, is_wide=True, is_running=False, width=138):
    table = benchmarks.table(measured, facts, load_catalogue(), is_running=is_running, show_all=show_all, is_wide=is_wide)
    return words(table, width=width)


def test_devices_alike_share_a_line_and_the_slow_one_is_named():
    gemm = [row for row in results(measured_on_gpus().measurements, show_all=False) if row.bench_id == "gemm"]
    assert [(row.subject, row.parameters["dtype"], row.parameters["m"]) for row in gemm] == [
        ("GPU0-7", "bf16", 8192),
        ("GPU0-7", "fp32", 8192),
    ]
    assert gemm[0].median == pytest.approx(7.05e14)
    assert gemm[0].slowest == "GPU5 -18 %"


def test_all_shows_every_case_of_a_sweep():
    rows = results(measured_on_gpus().measurements, show_all=True)
    assert len([row for row in rows if row.bench_id == "gemm"]) == 4


def test_of_times_the_shortest_stands_for_the_sweep():
    entries = [
        Measurement(
            bench_id="collectives",
            subject="2 ranks",
            metric="collective_time_s",
            unit="s",
            samples=(size / 1e9,),
            parameters={"bytes": size},
        )
        for size in (4096, 1024, 65536)
    ]
    assert [row.parameters["bytes"] for row in results(entries, show_all=False)] == [1024]


def test_references_come_from_the_catalogue_and_only_for_its_gpus():
    gemm = results(measured_on_gpus().measurements, show_all=False)[0]
    reference = reference_of(gemm, faulty_server(), load_catalogue())
    assert reference is not None
    assert reference.is_measured
    assert reference.value == load_catalogue().gpu("NVIDIA H100 80GB HBM3").achievable_flops_per_s["bf16"]
    assert reference_of(gemm, cpu_box(), load_catalogue()) is None
    assert reference_of(gemm, unknown_machine(), load_catalogue()) is None
    assert reference_of(gemm, faulty_server(), Catalogue()) is None


def test_case_words():
    assert case({"dtype": "bf16", "m": 1, "n": 2, "k": 3}) == "bf16 1×2×3"
    assert case({"direction": "host_to_device", "bytes": 512 * 1024**2}) == "host→device 512 MiB"
    assert case({"collective": "all_reduce", "bytes": 1024, "world_size": 2, "backend": "gloo"}) == "1 KiB"


def test_titles_name_the_metric_where_there_are_several():
    titles = [title(row) for row in results(measured_on_gpus().measurements, show_all=False)]
    assert titles == [
        "gemm",
        "gemm",
        "memory-copy",
        "memory-copy",
        "train-step step time",
        "train-step peak memory",
        "train-step FLOP rate",
    ]


def test_the_table_tells_results_failures_and_what_is_left():
    text = page(measured_on_gpus(), faulty_server())
    assert "705 TFLOP/s" in text
    assert "failed: timeout" in text
    text = page(measured_on_cpu(), cpu_box())
    assert "not run" in text
    text = page(MeasurementSet(), cpu_box(), is_running=True)
    assert "> gemm" in text
    assert "queued" in text


def test_a_failure_shows_its_log_and_how_to_repeat_it():
    text = benchmarks.failures(measured_on_gpus().failures).plain
    assert "no answer within 60 s" in text
    assert "NCCL WARN Timeout waiting for mlx5_3" in text
    assert "again: /opt/venv/bin/python -m torch.distributed.run" in text


def test_the_intro_names_cost_or_what_is_missing():
    text = benchmarks.intro(cpu_box(), MeasurementSet(), is_live=True, progress="").plain
    assert "s starts the quick suite: about" in text
    assert "occupies all CPUs." in text
    text = benchmarks.intro(faulty_server(), MeasurementSet(), is_live=True, progress="").plain
    assert "occupies all GPUs." in text
    text = benchmarks.intro(cpu_box(torch_version=None), MeasurementSet(), is_live=True, progress="").plain
    assert benchmarks.GET_TORCH in text
    assert "not the live machine" in benchmarks.intro(faulty_server(), MeasurementSet(), is_live=False, progress="").plain
    assert ". stops it" in benchmarks.intro(cpu_box(), MeasurementSet(), is_live=True, progress="gemm").plain


def test_a_reason_that_stopped_every_benchmark_is_said_once():
    refused = [BenchFailure(bench_id=name, subject="this machine", kind="busy", message="GPU0 is held") for name in ("a", "b")]
    assert benchmarks.failures(refused).plain == "✗ a, b on this machine  GPU0 is held"


@pytest.mark.parametrize("progress", ["", "gemm"])
def test_what_speaks_against_the_numbers_is_said_while_and_after_they_are_taken(progress):
    text = benchmarks.intro(cpu_box(), measured_on_cpu(), is_live=True, progress=progress, note="the CPUs are busy").plain
    assert text.endswith("\n! the CPUs are busy")


@pytest.mark.parametrize("width", [40, 76, 138])
@pytest.mark.parametrize("measured", [measured_on_gpus(), measured_on_cpu(), MeasurementSet()])
def test_every_width_can_be_drawn(measured, width):
    assert page(measured, faulty_server(), is_wide=width > 100, width=width).strip()
