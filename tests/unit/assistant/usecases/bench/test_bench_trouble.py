"""Test the one line about a failed worker, with logs as torch writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assistant.usecases.bench.bench_trouble import cause_of_end, decisive_line

AGENT = """\
E1121 14:51:08 15561 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) \
local_rank: 1 (pid: 15566)
Traceback (most recent call last):
  File "run.py", line 1019, in run
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
rigtune_worker FAILED
Failures:
[1]:
  time      : 2026-11-21_14:51:08
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : {other} (pid: 15565)
  traceback : Signal 15 (SIGTERM) received by PID 15565
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_14:51:08
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : {code} (pid: 15566)
  error_file: <N/A>
============================================================
"""


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (
            "Traceback ...\n  File x\nValueError: no such shape\n" + AGENT.format(code=1, other=-15),
            "ValueError: no such shape",
        ),
        (
            "[rank1]: torch.cuda.OutOfMemoryError: CUDA out of memory. Tried",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried",
        ),
        ("KeyboardInterrupt\nbye", "KeyboardInterrupt"),
        (
            "OSError: [Errno 28] No space left on device: '/x'\nexit",
            "OSError: [Errno 28] No space left on device: '/x'",
        ),
        ("x.py:3: UserWarning: odd\n  warnings.warn()\nFutureWarning: later", ""),
        ("all went well", ""),
    ],
)
def test_the_decisive_line_is_the_workers_own_last_exception(log, line):
    assert decisive_line(log) == line


@pytest.mark.parametrize(
    ("code", "log", "kernel_killed", "kind", "words"),
    [
        (7, "", False, "crashed", "the worker of X ended with exit code 7"),
        (
            137,
            "",
            False,
            "crashed",
            "the worker of X was ended by signal 9 (SIGKILL): a user or program killed it, or the kernel",
        ),
        (137, "", True, "out_of_memory", "the kernel killed it because memory ran out"),
        (1, AGENT.format(code=-9, other=-15), True, "out_of_memory", "rank 1 of X was ended by signal 9"),
        (
            1,
            AGENT.format(code=-11, other=-15),
            False,
            "crashed",
            "rank 1 of X was ended by signal 11 (SIGSEGV)",
        ),
        (
            1,
            "OSError: no\n" + AGENT.format(code=1, other=-15),
            False,
            "crashed",
            "rank 1 of X ended with exit code 1: OSError: no",
        ),
        (1, AGENT.format(code=1, other=-9), False, "crashed", "rank 0 of X was ended by signal 9"),
        (1, AGENT.format(code=-6, other=-11), False, "crashed", "rank 0 of X was ended by signal 11"),
        (1, AGENT.format(code=-11, other=-6), False, "crashed", "rank 1 of X was ended by signal 11"),
        (1, AGENT.format(code=-6, other=-6), False, "crashed", "rank 0 of X was ended by signal 6"),
        (200, "", False, "crashed", "signal 72"),
    ],
)
def test_the_cause_names_rank_and_signal(code, log, kernel_killed, kind, words):
    found_kind, message = cause_of_end("X", code, log, kernel_killed=kernel_killed)
    assert found_kind == kind
    assert words in message


@given(st.integers(1, 255), st.text(), st.booleans())
def test_whatever_was_printed_the_cause_is_one_line(code, log, kernel_killed):
    _, message = cause_of_end("X", code, log, kernel_killed=kernel_killed)
    assert len(message.splitlines()) == 1
    assert len(message) < 1000
