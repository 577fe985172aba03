"""Test `rigtune bench`: formats, files, exit codes, and what an interruption keeps."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import msgspec
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from assistant.usecases.bench.find_bad_nodes import HostSearch
from assistant.usecases.events import BenchFailed, Event, Measured, Progress, StageFinished, StageStarted
from assistant.usecases.measure import MeasureOptions
from probes.bench.benchmark_table import BENCHMARKS
from probes.compare.measurement_judgement import Judgement
from probes.facts import MachineFacts
from probes.facts.measurements import BenchFailure, Measurement, MeasurementSet
from probes.judging.findings import Finding, Status

GEMM = Measurement(
    bench_id="gemm",
    subject="CPU",
    metric="gemm_flops_per_s",
    unit="flop/s",
    samples=(8e10, 8.2e10, 8.4e10),
    parameters={"dtype": "fp32", "m": 1024, "n": 1024, "k": 1024},
)
COPY = Measurement(
    bench_id="memory-copy",
    subject="CPU",
    metric="memory_bandwidth_bytes_per_s",
    unit="byte/s",
    samples=(1e10,),
    parameters={"operation": "=cmd|' /C calc'!A0", "bytes": 1024},
)
FAILURE = BenchFailure(
    bench_id="storage", subject="storage", kind="crashed", message="it crashed", command="python -m x"
)


class Script:
    """Stand-in for the measurement: it yields prepared events and keeps the options that it received."""

    def __init__(self) -> None:
        self.measurements: tuple[Measurement, ...] = (GEMM, COPY)
        self.failures: tuple[BenchFailure, ...] = ()
        self.options = MeasureOptions()
        self.between: Callable[[], object] = lambda: None

    def __call__(
        self, facts: MachineFacts, options: MeasureOptions, stop: Callable[[], bool]
    ) -> Iterator[Event]:
        self.options = options
        yield StageStarted(stage="bench", title="Measuring")
        yield Progress(stage="bench", message="will occupy all CPUs for about 9 s", total=2, remaining_s=9.0)
        yielded = []
        for number, measurement in enumerate(self.measurements):
            if stop():
                break
            yield Progress(
                stage="bench", message=measurement.bench_id, done=number, total=2, remaining_s=9.0 - number
            )
            yielded.append(measurement)
            yield Measured(measurement=measurement)
            self.between()
        for failure in self.failures:
            yield BenchFailed(failure=failure)
        yield StageFinished(
            stage="bench",
            result=MeasurementSet(
                started="2026-11-21T14:27:39Z",
                interpreter="python",
                measurements=tuple(yielded),
                failures=self.failures,
            ),
        )


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Script()
    monkeypatch.setattr("assistant.cli.bench_command.measure_machine", made)
    return made


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Status], None]:
    def say(status: Status) -> None:
        finding = Finding(check_id="measured-x", subject="GPU3", status=status, summary="slow")
        monkeypatch.setattr(
            "assistant.cli.bench_command.judge_measurements", lambda *_, **__: Judgement(findings=(finding,))
        )

    return say


@pytest.mark.usefixtures("script")
def test_json_contains_every_figure_and_is_read_back_as_measurements(
    capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    assert command_line(["bench", "--format", "json", "-o", str(tmp_path / "m.json"), "-q"]) == 0
    data = capsysbinary.readouterr().out
    assert (tmp_path / "m.json").read_bytes() == data
    report = json.loads(data)
    jsonschema.validate(report, json.loads(schema_for("bench")))
    wanted = {
        "bench_id",
        "subject",
        "metric",
        "unit",
        "median",
        "p5",
        "p95",
        "interval_low",
        "interval_high",
        "samples",
    }
    assert all(set(row) == wanted | {"parameters", "conditions", "series"} for row in report["measurements"])
    assert set(report) >= {
        "schema_version",
        "measurements",
        "failures",
        "findings",
        "comparisons",
        "collective_fits",
    }
    gemm = report["measurements"][0]
    assert gemm["median"] == 8.2e10
    assert gemm["interval_low"] <= gemm["p5"] <= gemm["median"] <= gemm["p95"] <= gemm["interval_high"]
    assert msgspec.json.decode(data, type=MeasurementSet).measurements == (GEMM, COPY)


@pytest.mark.parametrize("name", ["", "file/m.json"])
def test_a_report_that_cannot_be_written_is_refused_before_the_measuring(
    script: Script, tmp_path: Path, name: str
) -> None:
    (tmp_path / "file").touch()
    script.between = lambda: pytest.fail("it was measured")
    assert command_line(["bench", "-q", "-o", str(tmp_path / name)]) == 2


@pytest.mark.usefixtures("script")
def test_a_disk_that_is_full_at_the_end_loses_no_measurement(
    capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    assert command_line(["bench", "-q", "-o", "/dev/full"]) == 2
    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    assert "82 GFLOP/s" in out
    assert "cannot write /dev/full: no space left on device" in err
    assert list((tmp_path / "state").rglob("previous.json"))


@pytest.mark.usefixtures("script")
def test_a_home_that_cannot_be_written_prevents_only_later_comparisons(
    capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "state").touch()
    assert command_line(["bench", "-q"]) == 0
    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    assert "82 GFLOP/s" in out
    assert "not kept for later comparisons" in err
    assert command_line(["bench", "-q", "--pin"]) == 2


@pytest.mark.usefixtures("script")
def test_csv_has_the_same_figures_and_nothing_that_a_spreadsheet_computes(
    capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    assert command_line(["bench", "--format", "csv", "-o", str(tmp_path / "m.csv"), "-q"]) == 0
    data = capsysbinary.readouterr().out
    assert (tmp_path / "m.csv").read_bytes() == data
    rows = list(csv.DictReader(io.StringIO(data.decode())))
    assert float(rows[0]["median"]) == 8.2e10
    assert (rows[0]["samples"], rows[0]["parameter.m"], rows[1]["parameter.m"]) == ("3", "1024", "")
    assert rows[1]["parameter.operation"] == "'=cmd|' /C calc'!A0"


@pytest.mark.usefixtures("script")
def test_text_states_what_was_measured_and_words_go_to_stderr(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["bench"]) == 0
    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    assert "82 GFLOP/s" in out
    assert "\x1b" not in out + err
    assert err.splitlines() == [
        "Measuring",
        "  will occupy all CPUs for about 9 s",
        "  about 9 s left  1 of 2  gemm",
        "  gemm  CPU  GEMM fp32 1024³ 82 GFLOP/s",
        "  about 8 s left  2 of 2  memory-copy",
        "  memory-copy  CPU  memory =cmd|' /C calc'!A0 1 KiB 10 GB/s",
    ]


@pytest.mark.parametrize(
    ("status", "options", "code"),
    [
        (Status.PASS, [], 0),
        (Status.WARN, [], 0),
        (Status.WARN, ["--fail-on", "warn"], 1),
        (Status.FAIL, [], 1),
        (Status.UNKNOWN, [], 0),
    ],
)
@pytest.mark.usefixtures("script")
def test_exit_code_follows_the_worst_finding(
    judged: Callable[[Status], None], status: Status, options: list[str], code: int
) -> None:
    judged(status)
    assert command_line(["bench", "-q", *options]) == code


def test_a_benchmark_without_result_gives_exit_code_4(
    script: Script, judged: Callable[[Status], None], capsysbinary: pytest.CaptureFixture
) -> None:
    judged(Status.FAIL)
    script.failures = (FAILURE,)
    assert command_line(["bench", "-q"]) == 4
    out = capsysbinary.readouterr().out.decode()
    assert "it crashed" in out
    assert "again: python -m x" in out
    assert "82 GFLOP/s" in out


def test_the_same_failure_of_all_benchmarks_is_shown_once(
    script: Script, capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    script.measurements = ()
    script.failures = tuple(msgspec.structs.replace(FAILURE, bench_id=name) for name in ("gemm", "storage"))
    assert command_line(["bench", "--pin"]) == 4
    err = capsysbinary.readouterr().err.decode()
    assert "  gemm, storage: it crashed\n" in err
    assert err.count("it crashed") == 1
    assert "nothing is pinned" in err
    assert not list((tmp_path / "state").rglob("*.json"))


def test_an_interrupted_run_keeps_what_was_measured(
    script: Script, capsysbinary: pytest.CaptureFixture, tmp_path: Path
) -> None:
    before = signal.getsignal(signal.SIGINT)
    script.between = lambda: os.kill(os.getpid(), signal.SIGINT)
    assert command_line(["bench", "--format", "json", "-o", str(tmp_path / "m.json")]) == 130
    out = capsysbinary.readouterr().out
    assert [row["bench_id"] for row in json.loads(out)["measurements"]] == ["gemm"]
    assert (tmp_path / "m.json").read_bytes() == out
    assert signal.getsignal(signal.SIGINT) is before
    assert not list((tmp_path / "state").rglob("*.json"))  # half a run is no baseline


def test_a_second_interrupt_ends_it_at_once(script: Script, capsysbinary: pytest.CaptureFixture) -> None:
    def twice() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    script.between = twice
    assert command_line(["bench"]) == 130
    assert capsysbinary.readouterr().out == b""


def test_options_reach_the_benchmarks(script: Script, tmp_path: Path) -> None:
    words = [
        "bench",
        "-q",
        "--suite",
        "full",
        "--only",
        "gemm,storage",
        "--skip",
        "pairs",
        "--force",
        "--noise-scale",
    ]
    words += ["--shape", "8x16x32", "--shape", "1X2X3", "--step", "my.train:step", "--data", str(tmp_path)]
    words += [
        "--model",
        "llama-3-8b",
        "--hosts",
        "a, b",
        "--spread-by",
        "slurm",
        "--work-directory",
        str(tmp_path / "work"),
    ]
    assert command_line(words) == 0
    options = script.options
    assert (options.suite, options.only, options.skip, options.force) == (
        "full",
        ("gemm", "storage"),
        ("pairs",),
        True,
    )
    assert options.settings.shapes == ((8, 16, 32), (1, 2, 3))
    assert (options.settings.step, options.settings.data_path) == ("my.train:step", str(tmp_path))
    assert options.settings.noise_scale
    assert options.settings.model["ffn_hidden"] == 14336
    assert (options.hosts, options.spread_by) == (("a", "b"), "slurm")
    assert options.work_directory == str(tmp_path / "work")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--shape", "8x8"], "not a matrix product"),
        (["--shape", "0x8x8"], "not a matrix product"),
        (["--step", "train.py"], "names no function"),
        (["--step", "a:b:c"], "names no function"),
        (["--step", "nowhere.py:make"], "there is no file nowhere.py"),
        (["--data", "/nowhere/at/all"], "does not exist"),
        (["--suite", "endless"], "endless"),
        (["--python", ""], "no interpreter is named"),
    ],
)
@pytest.mark.usefixtures("script")
def test_a_wrong_argument_gives_an_error_of_one_line(
    words: list[str], complaint: str, capsysbinary: pytest.CaptureFixture
) -> None:
    assert command_line(["bench", *words]) == 2
    out, err = (stream.decode() for stream in capsysbinary.readouterr())
    assert (out, err.count("\n")) == ("", 1)
    assert complaint in err


def test_a_misspelt_benchmark_is_guessed(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["bench", "--only", "gemmm"]) == 2
    assert "did you mean gemm?" in capsysbinary.readouterr().err.decode()


def test_the_list_measures_nothing_and_states_what_applies(
    script: Script, capsysbinary: pytest.CaptureFixture
) -> None:
    script.between = lambda: pytest.fail("it measures")
    assert command_line(["bench", "--list", "--format", "json", "--hosts", "a,b"]) == 0
    rows = {row["id"]: row for row in json.loads(capsysbinary.readouterr().out)["benchmarks"]}
    assert list(rows) == [row.id for row in BENCHMARKS]
    assert all(row["applies"] is not bool(row["why_not"]) for row in rows.values())
    assert command_line(["bench", "--list"]) == 0
    assert "gemm" in capsysbinary.readouterr().out.decode()


@pytest.mark.usefixtures("script")
def test_a_pinned_run_is_what_later_ones_compare_to(capsysbinary: pytest.CaptureFixture) -> None:
    assert command_line(["bench", "--pin"]) == 0
    assert "pinned: " in capsysbinary.readouterr().err.decode()
    assert command_line(["bench", "--format", "json", "-q"]) == 0
    compared = json.loads(capsysbinary.readouterr().out)["comparisons"]
    assert {row["to"] for row in compared} >= {"pinned"}


@pytest.mark.parametrize(
    ("limits", "slow_below"), [("", 0.75), ("[thresholds]\nmeasured_fail_fraction = 0.5\n", 0.5)]
)
def test_a_policy_states_which_hosts_are_slow(monkeypatch, tmp_path, capsys, limits, slow_below):
    (tmp_path / "policy.toml").write_text(f"schema_version = 1\n{limits}")
    asked = {}

    def search(facts, options, stop, **more):
        asked.update(more)
        yield StageFinished(stage="hosts", result=HostSearch(hosts=options.hosts, runs=1))

    monkeypatch.setattr("assistant.cli.find_hosts.find_bad_hosts", search)
    assert (
        command_line(
            ["bench", "--hosts", "a,b", "--find-bad-hosts", "--policy", str(tmp_path / "policy.toml")]
        )
        == 0
    )
    assert asked == {"slow_below": slow_below, "racks": None}
    assert "all 2 hosts" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--list", "--find-bad-hosts"])
def test_csv_is_refused_without_measurements(capsys, option):
    assert command_line(["bench", option, "--hosts", "a,b", "--format", "csv"]) == 2
    assert f"{option} has no CSV" in capsys.readouterr().err
