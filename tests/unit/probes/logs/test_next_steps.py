"""Test that the data to collect for an unknown cause depends on the content of the logs."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained

AT = "kit-3:44:55 [0] "
BARE = (
    f"{AT}enqueue.cc:700 NCCL WARN Cuda failure 'a new kind of failure'\n{AT}NCCL INFO enqueue.cc:701 -> 3\n"
)
INFO = f"{AT}NCCL INFO Bootstrap: Using eth0:10.9.0.3<0>\n"
CHANNEL = f"{AT}NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
START = (
    f"{AT}NCCL INFO ncclCommInitRank comm 0x1 rank 2 nranks 12 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - "
    f"Init START\n"
)
CLOSED = f"{AT}misc/socket.cc:80 NCCL WARN socketProgress: Connection closed by remote peer kit-9<4455>\n"
PROGRAM = "Traceback (most recent call last):\nValueError: the shapes of both do not fit\n"
EXIT = "srun: error: kit-3: task 4: Exited with exit code 1\n"
KERNEL = "[ 1234.5] nvidia 0000:1b:00.0: enabled\n[ 1240.1] mlx5_core 0000:1a:00.0 eth2: Link down\n"


@pytest.mark.parametrize(
    ("text", "words", "without"),
    [
        (BARE, "NCCL_DEBUG=INFO", "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,BOOTSTRAP,GRAPH in addition"),
        (
            BARE + INFO,
            "NCCL_DEBUG_SUBSYS=INIT,NET,ENV,BOOTSTRAP,GRAPH in addition",
            "Run again with NCCL_DEBUG=INFO and",
        ),
        (BARE + INFO + CHANNEL, "kernel log", "NCCL_DEBUG_SUBSYS"),
        (BARE + START, "contain 1 of 12 ranks: add the logs of ranks 0-1, 3-11", "all other ranks"),
        (BARE + EXIT, "sacct -j", "ncclras"),
        (BARE + KERNEL, "NCCL_DEBUG=INFO", "kernel log"),
    ],
)
def test_an_unknown_cause_comes_with_what_to_collect_next(text: str, words: str, without: str) -> None:
    explanation = explained(text)
    assert explanation.diagnoses[0].cause_id == "unknown", explanation.diagnoses
    pieces = " ".join(explanation.collect_next)
    assert words in pieces
    assert without not in pieces
    assert "{" not in pieces + explanation.diagnoses[0].remedy
    assert "?" not in pieces


def test_no_more_than_a_person_does() -> None:
    explanation = explained(BARE + START + EXIT)
    assert 0 < len(explanation.collect_next) <= 6


def complete(*ranks: int, of: int) -> str:
    return "".join(
        f"kit-{rank // 8}:{100 + rank}:60 [{rank % 8}] NCCL INFO ncclCommInitRankConfig comm 0x{rank + 5:x} rank "
        f"{rank} nranks {of} cudaDev {rank % 8} nvmlDev {rank % 8} busId {rank % 8 + 1}b000 commId 0x9e - Init COMPLETE\n"
        for rank in ranks
    )


GUESS = (
    "[rank3]:[W1119 10:15:11.3 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 3]  using GPU 3 as device used "
    "by this process is currently unknown. This can potentially cause a hang\n"
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (complete(*range(6), of=6), ""),
        (complete(0, 1, 2, 4, 7, of=8), "5 of 8 ranks: add the logs of ranks 3, 5-6."),
        (complete(0, 1, 2, 4, 7, of=8) + GUESS, "6 of 8 ranks: add the logs of ranks 5-6."),
        (complete(0, of=4096), "1 of 4096 ranks: add the logs of ranks 1-4095."),
        (complete(0, of=4097), ""),
        (complete(0, *range(1, 40, 2), of=40), "and 11 more."),
        # Two runs in one log: their ranks cannot be told apart.
        (complete(0, of=8) + complete(0, 1, of=8), ""),
    ],
    ids=["all", "some", "another line", "4096", "4097", "many gaps", "two runs"],
)
def test_missing_logs_are_named_by_their_ranks(text: str, words: str) -> None:
    (*_, advice) = [
        "",
        *(step for step in explained(BARE + text).collect_next if "These logs contain" in step),
    ]
    assert words in advice
    assert bool(words) == bool(advice)
