"""Test that a program's own exception comes before reports of peers and launchers, with fitting advice."""

from __future__ import annotations

import pytest

from probes.logs.own_failure import load_exceptions
from tests.support.log_cases.reading import cases, explained

_LAUNCHER = (
    "W0312 04:01:02.118000 311 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 320 "
    "closing signal SIGTERM\n"
    "E0312 04:01:04.530000 311 torch/distributed/elastic/multiprocessing/api.py:874] failed "
    "(exitcode: 1) local_rank: 3 (pid: "
    "322) of binary: /opt/py\n"
)
_PEERS = {
    "an id that never came": (
        "[rank5]: torch.distributed.DistBackendError: [5] is setting up NCCL communicator and retrieving "
        "ncclUniqueId from [0] "
        "via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\n"
    ),
    "a store that cannot be reached": (
        "[rank5]: torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while "
        "trying to connect to"
        " (kit-1, 29400).\n"
    ),
    "a connection that was closed": (
        "kit-2:71:99 [5] misc/socket.cc:80 NCCL WARN socketProgress: Connection closed by remote peer "
        "kit-1<4455>\n"
    ),
    "a collective that timed out": (
        "[rank5]:[E312 04:11:44.120 ProcessGroupNCCL.cpp:616] [Rank 5] Watchdog caught collective "
        "operation timeout: "
        "WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for 600020 "
        "milliseconds\n"
    ),
    "a launcher": _LAUNCHER,
    "a scheduler": "srun: error: kit-1: task 3: Exited with exit code 1\n",
}


def traceback(last: str, *, prefix: str = "[rank3]: ") -> str:
    """Return the lines of a program in `/job/fit.py` that calls a library."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/job/fit.py", line 41, in <module>',
        "    main()",
        '  File "/job/fit.py", line 17, in save',
        "    writer.write(state)",
        '  File "/opt/lib/python3.11/site-packages/tool/io.py", line 8, in write',
        "    fd.write(data)",
        last,
    )
    return "".join(f"{prefix}{line}\n" for line in lines)


@pytest.mark.parametrize("after", _PEERS.values(), ids=_PEERS.keys())
@pytest.mark.parametrize(
    "last", ["FileNotFoundError: [Errno 2] No such file or directory: '/set/a.bin'", "KeyError: 'mask'"]
)
def test_the_first_exception_leads(after: str, last: str) -> None:
    explanation = explained("step 1 loss 2.5\n" + traceback(last) + after)
    first, *others = explanation.diagnoses
    assert (explanation.state, first.cause_id, first.is_fault) == ("fault", "unknown", True)
    assert last in first.summary
    assert "at fit.py:17 in save (on rank 3)" in first.summary
    assert [line.text.strip() for line in first.evidence[:2]] == [
        'File "/job/fit.py", line 17, in save',
        last,
    ]
    assert all(other.confidence < first.confidence / 2 for other in others)
    assert not any("NCCL_DEBUG" in piece for piece in explanation.collect_next)


def test_a_first_report_of_lost_peers_is_the_cause() -> None:
    lost = _PEERS["a store that cannot be reached"]
    explanation = explained(lost + traceback("ValueError: no group was made", prefix="[rank5]: "))
    assert explanation.diagnoses[0].cause_id == "peer-unreachable"


@pytest.mark.parametrize(
    ("last", "words", "command"),
    [
        ("OSError: [Errno 28] No space left on device: '/out/a.pt'", "No space is left", "df -h; df -i"),
        ("OSError: [Errno 122] Disk quota exceeded", "No space is left", "quota"),
        ("OSError: [Errno 5] Input/output error", "failed to read or write", "dmesg"),
        ("PermissionError: [Errno 13] Permission denied: '/out'", "lacks the permission", "id;"),
        ("ImportError: cannot import name 'a' from 'b'", "cannot be imported", "pip list"),
        ("json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)", "is truncated", "ls -l"),
        ("IndexError: list index out of range", "not of the machine", ""),
    ],
)
@pytest.mark.parametrize("prefix", ["", "[rank3]: ", "3: "])
def test_the_kind_of_the_exception_decides_the_remedy(
    last: str, words: str, command: str, prefix: str
) -> None:
    first = explained(traceback(last, prefix=prefix)).diagnoses[0]
    assert words in first.summary
    assert command in (first.command or "")
    assert "NCCL" not in first.remedy


def test_an_error_of_the_system_leads_over_the_errors_that_follow_from_it() -> None:
    disk = "[rank3]: OSError: [Errno 28] No space left on device\n"
    explanation = explained(
        traceback("RuntimeError: [enforce fail at writer.cc:60] . unexpected pos 64 vs 12") + disk
    )
    assert "No space is left" in explanation.diagnoses[0].summary
    assert "fit.py:17" in explanation.diagnoses[0].summary


def test_rows_of_exceptions_name_what_and_what_to_do() -> None:
    for row in load_exceptions():
        assert row.errno or row.name or row.message or row.kinds
        assert row.what[0].islower()
        assert not row.what.endswith(".")
        assert row.remedy.endswith(".")


@pytest.mark.parametrize(("cause", "text"), cases(), ids=[cause for cause, _ in cases()])
def test_the_state_is_fault_where_and_only_where_a_diagnosis_is_one(cause: str, text: str) -> None:
    explanation = explained(text)
    faults = [diagnosis.is_fault for diagnosis in explanation.diagnoses]
    assert (explanation.state == "fault") == any(faults)
    assert any(faults) == bool(faults and faults[0])
    assert (explanation.state == "healthy") <= any(
        diagnosis.cause_id == "healthy" for diagnosis in explanation.diagnoses
    )
