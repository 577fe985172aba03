"""Test that prefixes of lines are removed and used, and that text that resembles a prefix stays."""

from __future__ import annotations

import calendar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from probes.logs.envelopes import Unwrapper

NCCL = "node-3:4001:4008 [2] NCCL INFO Using network IB"
TEN = calendar.timegm((2024, 5, 3, 10, 0, 0))


def unwrapped(text: str, year: int | None = 2024):
    (line,) = Unwrapper("job.log", year).lines(1, text.encode())
    return line


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("", {}),
        ("12: ", {"rank": 12}),
        (" 5: ", {"rank": 5}),
        ("> ", {}),
        ("> > 3: ", {"rank": 3}),
        ("  | 2024-05-03T10:00:00.000Z | ", {"time_s": TEN}),
        ("[rank7]:", {"rank": 7}),
        ("[rank7]: ", {"rank": 7}),
        ("[default3]:", {"local_rank": 3}),
        ("[trainer3]: ", {"local_rank": 3}),
        ("1: [default3]:", {"rank": None, "local_rank": 3}),
        ("1: [default3]:[rank11]:", {"rank": 11, "local_rank": 3}),
        ("[1,2]<stdout>:", {"rank": 2}),
        ("[1,2]<stderr>: ", {"rank": 2}),
        ("[prterun-head-77@1,14]<stdout>: ", {"rank": 14}),
        ("[1,mpirank:9,algo-2]<stdout>:", {"rank": 9, "host": "algo-2"}),
        ("[4]<stderr>:", {"rank": 4}),
        ("Fri May  3 10:00:00 2024[1,0]<stderr>:", {"rank": 0, "time_s": TEN}),
        ("2024-05-03T10:00:00.250000000Z stdout F ", {"time_s": TEN + 0.25}),
        ("2024-05-03T10:00:00.250Z ", {"time_s": TEN + 0.25}),
        ("2024-05-03 12:00:00,250 +0200 ", {"time_s": TEN + 0.25}),
        ("[2024-05-03 10:00:00] ", {"time_s": TEN}),
        ("[Fri May  3 10:00:00 2024] ", {"time_s": TEN}),
        ("May  3 10:00:00 ", {"time_s": TEN}),
        ("(RayTrainWorker pid=321, ip=10.0.0.7) ", {"pid": 321, "host": "10.0.0.7"}),
        ("(pid=321) ", {"pid": 321}),
        ("(main_task pid=321) [repeated 3x across cluster] ", {"pid": 321}),
        ("[RANK 4] ", {"rank": 4}),
        ("[pod/job-worker-0/pytorch] ", {"host": "job-worker-0"}),
        ("worker-1  | ", {"host": "worker-1"}),
        ("worker1: ", {"host": "worker1"}),
        ("[3] ", {"rank": 3}),
        ("[3]:", {"local_rank": 3}),
        ("[rank3][MainThread]: ", {"rank": 3}),
        ("10.0.0.7: ", {"host": "10.0.0.7"}),
        ("stderr: ", {}),
        ("stdout_3: ", {}),
        ("python3.11: ", {}),
        ("train_v2.py: ", {}),
        ("trainer: ", {}),
        ("rank3: ", {"rank": 3}),
        ("local_rank_2: ", {"local_rank": 2}),
        ("May  3 10:00:00 worker1 trainer[77]: ", {"host": "worker1", "time_s": TEN}),
        ("2024-05-03T10:00:00Z\t", {"time_s": TEN}),
        ("[36m(RayTrainWorker pid=321, ip=10.0.0.7)[0m ", {"pid": 321, "host": "10.0.0.7"}),
        ("2024-05-03T10:00:00Z 3: [rank3]:", {"time_s": TEN, "rank": 3}),
    ],
)
def test_prefixes_of_launchers(prefix: str, expected: dict[str, object]) -> None:
    line = unwrapped(prefix + NCCL)
    assert line.text == NCCL
    assert line.raw == prefix + NCCL
    for name in ("host", "rank", "local_rank", "time_s"):
        assert getattr(line, name) == expected.get(name), name


@pytest.mark.parametrize(
    ("text", "message", "host"),
    [
        (
            "May  3 10:00:00 gpu-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1",
            "NVRM: Xid (PCI:0000:3b:00): 79, pid=1",
            "gpu-7",
        ),
        (
            "May  3 10:00:00 gpu-7 kernel: [12345.678901] NVRM: Xid (PCI:0000:3b:00): 79",
            "NVRM: Xid (PCI:0000:3b:00): 79",
            "gpu-7",
        ),
        ("2024-05-03T10:00:00.5+02:00 gpu-7 kernel: NVRM: Xid 1", "NVRM: Xid 1", "gpu-7"),
        ("May  3 10:00:00 gpu-7 slurmstepd[88]: error: killed", "slurmstepd: error: killed", "gpu-7"),
        ("[12345.678901] NVRM: Xid (PCI:0000:3b:00): 79", "NVRM: Xid (PCI:0000:3b:00): 79", None),
    ],
)
def test_journals(text: str, message: str, host: str | None) -> None:
    line = unwrapped(text)
    assert (line.text, line.host) == (message, host)
    assert line.time_s is not None


def test_records_of_json() -> None:
    line = unwrapped('{"log":"' + NCCL + '\\n","stream":"stdout","time":"2024-05-03T10:00:00Z"}')
    assert (line.text, line.time_s) == (NCCL, TEN)
    line = unwrapped(
        '{"MESSAGE":"NVRM: Xid 79","_HOSTNAME":"gpu-7","__REALTIME_TIMESTAMP":"1714730400000000"}'
    )
    assert (line.text, line.host, line.time_s) == ("NVRM: Xid 79", "gpu-7", TEN)


def test_torchs_own_stamp_stays_and_is_read() -> None:
    line = unwrapped(
        "[rank2]:[E503 10:00:00.250000000 ProcessGroupNCCL.cpp:616] [Rank 2] Watchdog caught".replace(
            "E503", "E0503"
        )
    )
    assert line.text.startswith("[E0503")
    assert line.rank == 2
    assert line.time_s == TEN + 0.25


def test_a_stamp_without_a_year_has_no_time_unless_one_is_given() -> None:
    assert unwrapped("May  3 10:00:00 " + NCCL, year=None).time_s is None


@pytest.mark.parametrize(
    "text",
    [
        NCCL,
        "Traceback (most recent call last):",
        "RuntimeError: NCCL error in: x.cpp:1, unhandled system error",
        '  File "train.py", line 3, in <module>',
        "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2024-05-03T10:00:00 ***",
        "     1048576        262144     float     sum      -1    55.12   19.02   35.67      0",
        "   0: 17",
        "[Rank 2] Watchdog caught collective operation timeout",
        "torch.OutOfMemoryError: CUDA out of memory.",
        "{'loss': 1.0}",
        '{"step": 3}',
    ],
)
def test_a_line_without_an_envelope_stays_as_it_is(text: str) -> None:
    assert unwrapped(text).text == text


def test_two_lines_written_into_one_are_parted() -> None:
    of = Unwrapper("job.log")
    of.lines(1, NCCL.encode())
    other = "node-3:4002:4009 [3] NCCL INFO Connected all rings"
    for glue in ("", " "):
        first, second = of.lines(2, f"{NCCL}{glue}{other}".encode())
        assert first.text.rstrip() == NCCL
        assert second.text == other
        assert second.number == 2


@pytest.mark.parametrize("prefix", ["8: ", "[rank8]:", "[rank8]: ", "[1,8]<stdout>:"])
def test_the_prefix_of_a_glued_line_goes_with_it(prefix: str) -> None:
    of = Unwrapper("job.log")
    other = "node-3:4002:4009 [3] NCCL INFO Connected all rings"
    for glue in ("", "  "):
        first, second = of.lines(2, f"3: {NCCL}{glue}{prefix}{other}".encode())
        assert (first.text.rstrip(), first.rank) == (NCCL, 3)
        assert (second.text, second.rank) == (other, 8)


@given(st.binary(max_size=600), st.sampled_from([None, 2024]))
@example(b"[99999-99-99 99:99:99] x", 2024)
@example(b"Feb 31 25:61:61 h t: x", 2024)
@example(b"0000-01-01 00:00:00 x", None)
@example(b'{"log":{"a":[]}}', None)
def test_never_raises(data: bytes, year: int | None) -> None:
    for line in Unwrapper("x", year).lines(1, data):
        assert len(line.text) <= len(data.decode("utf-8", "replace"))


@given(
    st.lists(
        st.sampled_from(
            ["12: ", "[rank7]:", "[1,2]<stdout>:", "2024-05-03T10:00:00Z ", "(a pid=1) ", "kernel: "]
        ),
        max_size=12,
    )
)
def test_envelopes_in_any_order_are_all_taken_off(prefixes: list[str]) -> None:
    text = unwrapped("".join(prefixes) + NCCL).text
    assert text.endswith(NCCL)
    if len(prefixes) <= 8:
        assert text == NCCL
