"""Test what a short run reports: damaged reports, numbers that are not finite, and logs that grow."""

from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.usecases import run_report
from assistant.usecases.run_report import OwnLogs, Step, median_step_s, read_report, warm_steps

STEP = {"event": "step", "step": 1, "duration_s": 0.5}
LINES = st.sampled_from(
    [json.dumps(STEP), json.dumps({**STEP, "loss": math.nan}), "{", '{"event": "step"', ""]
)


@pytest.mark.parametrize("field", ["loss", "peak_memory_bytes", "peak_reserved_bytes", "of_another_program"])
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_is_read_as_unknown(tmp_path, field, number):
    path = tmp_path / "report.jsonl"
    path.write_text(json.dumps({**STEP, field: number}) + "\n" + json.dumps({**STEP, "loss": 2.0}) + "\n")
    lines, fault = read_report(path)
    assert fault == ""
    first = Step(step=1, duration_s=0.5, **({"loss": None} if field == "loss" else {}))
    assert lines == [first, Step(step=1, duration_s=0.5, loss=2.0)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (json.dumps({**STEP, "duration_s": math.nan}), "Expected `float`, got `null` - at `$.duration_s`"),
        (json.dumps({**STEP, "duration_s": -1}), "Expected `float` >= 1e-09"),
        ('{"event": "step", "loss": NaN', "Expecting"),
        ('{"event": "step", "x": ' + "[" * 10**5, "recursion"),
        ('{"event": "NaN"}', "Invalid value 'NaN'"),
    ],
)
def test_a_wrong_line_is_named_with_its_number(tmp_path, line, words):
    path = tmp_path / "report.jsonl"
    path.write_text(f"{json.dumps(STEP)}\n{line}\n")
    lines, fault = read_report(path)
    assert len(lines) == 1
    assert fault.startswith(f"line 2 of the report {path} is wrong: ")
    assert words in fault


@settings(max_examples=50)
@given(st.lists(st.one_of(LINES.map(str.encode), st.binary(max_size=40)), max_size=6))
def test_no_report_raises(tmp_path_factory, parts):
    path = tmp_path_factory.mktemp("report") / "report.jsonl"
    path.write_bytes(b"\n".join(parts))
    lines, _ = read_report(path)
    assert all(line.duration_s == 0.5 for line in lines if isinstance(line, Step))


@pytest.mark.parametrize(("count", "left"), [(0, 0), (1, 1), (2, 1), (5, 4), (6, 3), (9, 6)])
def test_the_first_steps_are_left_out_if_enough_steps_follow(count, left):
    steps = tuple(float(number) for number in range(count))
    assert warm_steps(steps) == steps[count - left :]
    assert (median_step_s(steps) is None) is (count == 0)


def log_of(steps: int) -> str:
    return "".join(
        f"step: {n:2}  loss:  {5 - n / 10:.4f}  tps: 640  mfu: 1.1%\n" for n in range(1, steps + 1)
    )


def test_a_log_is_read_again_only_after_a_change(tmp_path):
    log = tmp_path / "a.log"
    log.write_text(log_of(2))
    logs = OwnLogs((log, log), tmp_path / "none")
    assert logs.read(is_last=True).steps == 2
    before = log.stat()
    log.write_text(log_of(2).replace("loss", "lost"))
    os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert logs.read(is_last=True).steps == 2
    log.write_text(log_of(5))
    assert logs.read(is_last=True).steps == 5


def test_the_output_counts_before_the_files_of_the_folder(tmp_path):
    log, folder = tmp_path / "a.log", tmp_path / "output"
    folder.mkdir()
    (folder / "metrics.csv").write_text("step,train_loss\n6,1.0\n")
    logs = OwnLogs((log,), folder)
    assert logs.read(is_last=False).steps == 7
    log.write_text(log_of(3))
    assert logs.read(is_last=True).steps == 3


def test_after_a_slow_reading_a_log_rests_until_the_run_ends(tmp_path, monkeypatch):
    now = iter([0.0, 2.0, 21.0, 22.0, 22.0, 23.0, 24.0, 24.0])
    monkeypatch.setattr(run_report.time, "monotonic", lambda: next(now))
    log = tmp_path / "a.log"
    log.write_text(log_of(2))
    logs = OwnLogs((log,), tmp_path)
    assert logs.read(is_last=False).steps == 2  # takes from 0 s to 2 s, then rests until 20 s
    log.write_text(log_of(4))
    assert logs.read(is_last=False).steps == 4  # at 21 s; takes 1 s, then rests until 31 s
    log.write_text(log_of(5))
    assert logs.read(is_last=False).steps == 4
    assert logs.read(is_last=True).steps == 5
