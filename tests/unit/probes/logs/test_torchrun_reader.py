"""Test the reports at the end of a torchrun job."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.logs.event import LogLine
from probes.logs.readers.torchrun import SIGNS, Reader

_REPORT = """\
E0802 12:00:01.5 123 torch/distributed/elastic/multiprocessing/api.py] failed (exitcode: -9) local_rank: 1 (pid: 4712)
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-01-02_03:04:06
  host      : node-b
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 4713)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : node-a
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 4712)
  error_file: /tmp/torchelastic_x/error.json
  traceback : Signal 9 (SIGKILL) received by PID 4712
============================================================
"""

_OLD_REPORT = """\
            train.py FAILED
=======================================
Root Cause:
[0]:
  time: 2021-08-02_10:11:12
  rank: 3 (local_rank: 3)
  exitcode: -11 (pid: 77)
  error_file: <N/A>
  msg: "Signal 11 (SIGSEGV) received by PID 77"
=======================================
Other Failures:
[1]:
  time: 2021-08-02_10:11:12
  rank: 0 (local_rank: 0)
  exitcode: 1 (pid: 74)
  error_file: <N/A>
  msg: "Process failed with exitcode 1"
***************************************
"""


def _events(text):
    reader = Reader()
    events = []
    for number, line in enumerate(text.split("\n"), 1):
        if any(sign in line.encode() for sign in SIGNS):
            events += reader.read(LogLine(source="job.log", number=number, text=line, raw=line))
    return [*events, *reader.end()]


def test_every_worker_of_a_report_is_reported_and_the_first_is_the_root():
    agent, other, root = _events(_REPORT)

    assert (agent.kind, agent.fields["exit_code"], agent.fields["signal"]) == ("torch.worker-failed", -9, 9)
    assert other.kind == root.kind == "torch.child-failed"
    assert (other.rank, other.host, other.fields["exit_code"], other.fields["root"]) == (9, "node-b", 1, 0)
    assert "signal" not in other.fields
    assert "error_file" not in other.fields
    assert (root.rank, root.host, root.fields["exit_code"], root.fields["root"]) == (1, "node-a", -9, 1)
    assert (root.fields["signal"], root.fields["pid"]) == (9, 4712)
    assert root.fields["error_file"] == "/tmp/torchelastic_x/error.json"  # noqa: S108 - a path in a report


def test_the_old_report_begins_with_the_root():
    root, other = _events(_OLD_REPORT)

    assert (root.rank, root.fields["signal"], root.fields["root"]) == (3, 11, 1)
    assert other.rank == 0
    assert other.fields["exit_code"] == 1


def test_exit_codes_of_shells_name_their_signal():
    (event,) = _events("  rank      : 0 (local_rank: 0)\n  exitcode  : 137 (pid: 5)\n")

    assert event.fields["signal"] == 9


def test_a_list_of_settings_is_no_report():
    assert _events("lora:\n  rank: 16\n  alpha: 32\n  host: db\n") == []


def test_the_agent_reports_that_it_was_stopped():
    events = _events(
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15\n"
        "WARNING:torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers\n"
        "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 9 closing signal SIGTERM\n"
    )

    assert [(event.kind, event.fields["signal"]) for event in events] == [
        ("torch.agent-signal", 15),
        ("torch.agent-signal", 15),
        ("torch.agent-stopping", "SIGTERM"),
    ]


def test_other_launchers_report_how_their_workers_ended():
    deepspeed, accelerate, signalled = _events(
        "[2026-01-02 03:04:05,6] [ERROR] [launch.py:321:sigkill_handler] ['python', '-u'] exits with "
        "return code = -9\n"
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.\n"
        "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>.\n"
    )

    assert {event.kind for event in (deepspeed, accelerate, signalled)} == {"torch.worker-failed"}
    assert (deepspeed.fields["signal"], accelerate.fields["exit_code"], signalled.fields["signal"]) == (
        9,
        1,
        9,
    )


@given(st.lists(st.sampled_from((_REPORT + _OLD_REPORT).split("\n")) | st.text(max_size=60), max_size=60))
def test_interleaved_reports_never_raise(lines):
    for event in _events("\n".join(lines)):
        assert event.kind.startswith("torch.")


@given(st.integers(0, len(_REPORT)))
def test_a_cut_report_names_no_worker_that_it_does_not_hold(end):
    ranks = {event.rank for event in _events(_REPORT[:end]) if event.kind == "torch.child-failed"}

    assert ranks <= {1, 9, None}
