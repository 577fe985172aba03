"""Test what a short run reports: its steps, its peaks of memory, and the line that names an error."""

from __future__ import annotations

import pytest

from assistant.usecases.run_report import Done, Failed, Start, Step
from assistant.usecases.short_run import ShortRun, cause_in, never

START = Start(world_size=2, backend="gloo", device_name="CPU", torch_version="2.6")


def run(*lines, **fields) -> ShortRun:
    given = {"failure": "", "is_out_of_memory": False, "is_too_slow": False, "is_stopped": False}
    return ShortRun(tuple(lines), output=(), took_s=1.0, **{**given, **fields})


def done(peak: float, reserved: float | None = None) -> Done:
    return Done(
        steps=2,
        interrupted=False,
        median_step_time_s=1.0,
        peak_memory_bytes=peak,
        peak_reserved_bytes=reserved,
        loss_first=None,
        loss_last=None,
    )


def test_the_peaks_are_the_largest_of_steps_and_end():
    steps = (
        Step(step=1, duration_s=2.0, peak_memory_bytes=5.0, peak_reserved_bytes=9.0),
        Step(step=2, duration_s=3.0),
    )
    one = run(START, *steps, done(4.0, 8.0))
    assert (one.allocated_bytes, one.reserved_bytes) == (5.0, 9.0)
    assert (one.steps_s, one.reported, one.start) == ((2.0, 3.0), steps, START)
    last = run(*steps, done(6.0))
    assert (last.allocated_bytes, last.reserved_bytes, last.start) == (6.0, 9.0, None)
    none = run(steps[1])
    assert (none.allocated_bytes, none.reserved_bytes, none.done) == (None, None, None)
    assert run(Failed(message="x")).steps_s == ()


@pytest.mark.parametrize(
    ("tail", "cause"),
    [
        ("loading\n[rank0]: [rank1]: ValueError: bad\nmore", "[rank0]: [rank1]: ValueError: bad"),
        ("torch.OutOfMemoryError: CUDA\nKeyError: 'x'", "torch.OutOfMemoryError: CUDA"),
        ("launch.sh: no interpreter", "launch.sh: no interpreter"),
        ("/usr/bin/python: No module named torch", "/usr/bin/python: No module named torch"),
        ("all is well", ""),
        ("", ""),
    ],
)
def test_the_first_line_that_names_an_error_is_the_cause(tail, cause):
    assert cause_in(tail) == cause
    assert not never()
