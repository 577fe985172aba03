"""Test what a command prints on stderr while it works, how it ends, and in which characters it writes."""

from __future__ import annotations

import io
import os

import pytest

from assistant.cli import command_line
from assistant.cli.diagnostics import follow
from assistant.cli.output import encoding_of, shows_utf8, spelled, wants_colour
from assistant.usecases.events import (
    BenchFailed,
    Event,
    Measured,
    Progress,
    Remarked,
    StageFinished,
    StageStarted,
    Written,
)
from probes.facts.measurements import BenchFailure, Measurement


def lines_of(capsys, *events: Event, **options: bool) -> list[str]:
    follow(iter(events), **options)
    return capsys.readouterr().err.splitlines()


START = StageStarted(stage="bench", title="Measuring")


def job(done: int, message: str = "gemm", **fields) -> Progress:
    return Progress(stage="bench", message=message, done=done, total=3, **fields)


def measured(rate: float) -> Measured:
    return Measured(
        measurement=Measurement(
            bench_id="x", subject="GPU0", metric="rate_per_s", unit="1/s", samples=(rate,)
        )
    )


def failed(name: str, message: str = "no") -> BenchFailed:
    return BenchFailed(failure=BenchFailure(bench_id=name, subject="GPU0", kind="crashed", message=message))


def test_each_benchmark_is_announced_once_and_its_results_follow(capsys):
    lines = lines_of(
        capsys,
        START,
        job(0, "occupies all GPUs"),
        job(0),
        measured(5.0),
        job(0),
        job(1, "copy", remaining_s=80.4),
        job(2, "last", remaining_s=0.2),
        StageFinished(stage="bench", result=1, duration_s=2.0),
    )
    assert lines == [
        "Measuring",
        "  occupies all GPUs",
        "  1 of 3  gemm",
        "  x  GPU0  rate 5/s",
        "  about 1 min 20 s left  2 of 3  copy",
        "  about 1 s left  3 of 3  last",
    ]


def test_failures_with_one_reason_share_a_line(capsys):
    events = (START, failed("a"), failed("b"), failed("a"), failed("c", "full"), Remarked(text="next"))
    assert lines_of(capsys, *events) == ["Measuring", "  a, b: no", "  c: full", "  next"]


def test_results_of_the_last_benchmark_are_shown_at_the_end(capsys):
    assert lines_of(capsys, START, measured(5.0), StageFinished(stage="bench", result=1)) == [
        "Measuring",
        "  x  GPU0  rate 5/s",
    ]


def test_steps_are_shown_with_verbose_and_nothing_with_quiet(capsys):
    events = (
        StageStarted(stage="probe", title="Reading"),
        Progress(stage="probe", message="NVLink", done=1, total=2),
        Progress(stage="probe", message="a warning"),
        Written(path="a.txt", what="facts"),
        StageFinished(stage="probe", result=7, duration_s=2.0),
    )
    assert lines_of(capsys, *events) == ["Reading", "  a warning", "  wrote a.txt  (facts)"]
    assert lines_of(capsys, *events, verbose=True) == [
        "Reading",
        "  NVLink",
        "  a warning",
        "  wrote a.txt  (facts)",
        "  probe took 2 s",
    ]
    assert lines_of(capsys, *events, quiet=True) == []
    assert follow(iter(events), quiet=True) == 7


def test_a_stage_is_announced_at_its_first_event_or_by_the_next_stage(capsys):
    other = StageStarted(stage="check", title="Checking")
    assert lines_of(capsys, START) == []
    assert lines_of(capsys, START, other, Remarked(text="x")) == ["Measuring", "Checking", "  x"]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("prob", "did you mean probe"),
        ("xyzzy", "the commands are "),
        ("--nonsense", "(hint: rigtune --help)"),
    ],
)
def test_an_unknown_command_is_refused_with_the_nearest_name(capsys, word, message):
    assert command_line([word]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--from", "missing"], 2),
        (["--from", "missing", "--exit-profile", "gate"], 2),
        (["--from", "missing", "--exit-profile", "nagios"], 3),
        (["--from", "missing", "--exit-profile=nagios"], 3),
        (["--from", "missing", "--format", "nagios"], 3),
        (["--from", "missing", "--format=nagios"], 3),
        (["--from", "missing", "--format", "nagios", "--exit-profile", "gate"], 2),
        (["--no-such-option"], 2),
        (["--no-such-option", "--exit-profile", "nagios"], 3),
        (["--no-such-option", "--format=nagios"], 3),
        (["--no-such-option", "--exit-profile", "odd"], 2),
    ],
)
def test_a_check_that_fails_ends_with_the_code_of_its_profile(capsys, words, code):
    assert command_line(["check", *words]) == code
    captured = capsys.readouterr()
    assert captured.out.startswith("RIGTUNE UNKNOWN - ") is (code == 3)
    assert captured.err.startswith("rigtune: ")


LOCALES = ("LC_ALL", "LC_CTYPE", "LANG")


@pytest.mark.parametrize(
    ("values", "is_utf8"),
    [
        (("", "", ""), True),
        (("C", "", "en_US.UTF-8"), False),
        (("en_US.utf8", "C", "C"), True),
        (("", "C", "en_US.UTF-8"), False),
        (("", "en_US.UTF-8", "C"), True),
        (("", "", "C"), False),
        (("", "C.UTF-8", "C"), False),
        (("", "C.UTF-8", ""), True),
    ],
)
def test_the_locale_decides_about_characters(monkeypatch, values, is_utf8):
    for name, value in zip(LOCALES, values, strict=True):
        monkeypatch.setenv(name, value)
    assert shows_utf8() is is_utf8
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert encoding_of(terminal) == "utf-8"
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    assert encoding_of(terminal) == ("utf-8" if is_utf8 else "ascii")


def test_characters_that_a_terminal_lacks_are_replaced():
    assert spelled("a → b…", "utf-8") == "a → b…"
    assert spelled("a → b…", "ascii") == "a -> b..."


@pytest.mark.parametrize(
    ("is_terminal", "variables", "is_coloured"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colour_is_for_terminals_that_want_it(monkeypatch, is_terminal, variables, is_coloured):
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setitem(os.environ, name, value)
    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    assert wants_colour() is is_coloured
