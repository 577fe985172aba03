"""Test ranks and hosts in names of logs, and lines with other ranks and hosts."""

from __future__ import annotations

import pytest

from probes.logs.file_names import writer_of
from probes.logs.reading import Reading


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank_3.log", (3, None, None)),
        ("out/train-rank12.err", (12, None, None)),
        ("out/global_rank_7/stderr.log", (7, None, None)),
        ("out/local_rank_2.log", (None, 2, None)),
        ("run_a1/attempt_0/5/stderr.log", (None, 5, None)),
        ("logs/node12.dmesg", (None, None, "node12")),
        ("logs/node-a07/rank4.log", (4, None, "node-a07")),
        ("slurm-4711.out", (None, None, None)),
        ("train1.log", (None, None, None)),
        ("franken3.log", (None, None, None)),
        ("rank.log", (None, None, None)),
        ("-", (None, None, None)),
    ],
)
def test_who_wrote_a_log(name: str, expected: tuple[int | None, int | None, str | None]) -> None:
    assert tuple(writer_of(name)) == expected


STAMP = "2024-05-03 10:00:{second:02}"
OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
    "79.15 GiB\n"
)


def explained(logs: dict[str, str]):
    reading = Reading()
    for name, text in logs.items():
        source = reading.source(name, year=2024)
        reading.feed(source, text.encode())
        source.end()
    return reading.explanation()


def test_lines_have_the_rank_of_their_file_unless_they_name_their_own() -> None:
    assert explained({"rank_3.log": OUT_OF_MEMORY}).diagnoses[0].evidence[0].rank == 3
    assert explained({"rank_3.log": f"[rank5]: {OUT_OF_MEMORY}"}).diagnoses[0].evidence[0].rank == 5


def test_the_first_failure_is_the_first_in_time_in_whatever_order_logs_are_read() -> None:
    late = f"{STAMP.format(second=40)} [rank0]: RuntimeError: NCCL communicator was aborted on rank 0.\n"
    early = f"{STAMP.format(second=5)} [rank9]: {OUT_OF_MEMORY}"
    for logs in ({"rank_0.log": late, "rank_9.log": early}, {"rank_9.log": early, "rank_0.log": late}):
        explanation = explained(logs)
        assert explanation.diagnoses[0].evidence[0].rank == 9
        assert explanation.facts["first_failure"]["rank"] == 9


def test_kernel_logs_are_of_the_host_of_their_file() -> None:
    line = (
        "[ 5000.123456] NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, GPU has fallen off the bus.\n"
    )
    explanation = explained({"node12.dmesg": line})
    assert explanation.diagnoses[0].evidence[0].host == "node12"
    assert "node12" in explanation.diagnoses[0].summary
