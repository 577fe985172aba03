"""Test ranks that begin and write nothing more: they wait for others, or do not reach them."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids


def begins(ranks: range, of: int, *, step: str = "START") -> str:
    """Return lines of ranks of one host."""
    line = (
        "w2:{pid}:{pid} [{gpu}] NCCL INFO ncclCommInitRankConfig comm 0x5 rank {rank} nranks {of} "
        "cudaDev {gpu} nvmlDev {gpu} "
        "busId {gpu}8000 commId 0xab - Init {step}\n"
    )
    return "".join(line.format(pid=70 + rank, gpu=rank % 8, rank=rank, of=of, step=step) for rank in ranks)


MODERN = "NCCL version 2.26.2+cuda12.8\n"
OLD = "NCCL version 2.18.3+cuda12.1\n"
BOOTSTRAP = "w2:70:70 [0] NCCL INFO Bootstrap: Using eth0:10.5.0.2<0>\n"


def test_ranks_that_never_began_are_named() -> None:
    explanation = explained(MODERN + BOOTSTRAP + begins(range(7), 8))
    assert (explanation.state, ids(explanation)[0]) == ("unknown", "rendezvous-mismatch")
    assert "do not show a start of rank 7 (of 8 ranks)" in explanation.diagnoses[0].summary
    assert explanation.facts["init_unseen"] == ["7"]
    assert not any(diagnosis.is_fault for diagnosis in explanation.diagnoses)


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("{rank}: w2:77:77 [7] NCCL INFO cudaDriverVersion 12080\n", "peer-unreachable"),
        ("w2:77:77 [7] NCCL INFO cudaDriverVersion 12080\n", "rendezvous-mismatch"),
    ],
    ids=["srun's label", "no label"],
)
def test_a_rank_is_present_if_a_launcher_names_it_in_a_line(line: str, cause: str) -> None:
    text = MODERN + BOOTSTRAP + begins(range(7), 8) + line.format(rank=7)
    assert ids(explained(text))[0] == cause


@pytest.mark.parametrize("version", [MODERN, OLD])
def test_all_came_and_nothing_follows(version: str) -> None:
    explanation = explained(version + begins(range(8), 8))
    assert (explanation.state, ids(explanation)[0]) == ("unknown", "peer-unreachable")
    assert not any(diagnosis.is_fault for diagnosis in explanation.diagnoses)


def test_before_2_23_a_rank_begins_once_all_have_met() -> None:
    killed = "slurmstepd: error: *** STEP 81.0 ON w2 CANCELLED AT 2026-03-02T11:12:13 DUE TO TIME LIMIT ***\n"
    assert ids(explained(MODERN + begins(range(7), 8) + killed))[0] == "rendezvous-mismatch"
    assert "rendezvous-mismatch" not in ids(explained(OLD + begins(range(7), 8) + killed))


@pytest.mark.parametrize(
    "more",
    [
        begins(range(7), 8, step="COMPLETE") + "step 1 loss 2.5\n" * 40,
        "step 1 loss 2.5\n" * 40,
        "w2:70:70 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n" + "step 1 loss 2.5\n" * 40,
    ],
    ids=["one host's log of a run that trains", "a run that goes on", "ranks that connect"],
)
def test_a_run_that_goes_on_waits_for_nobody(more: str) -> None:
    explanation = explained(MODERN + begins(range(7), 8) + more)
    assert explanation.state == "healthy"


@pytest.mark.parametrize("text", [begins(range(1), 1), begins(range(2), 8), OLD + begins(range(7), 8)])
def test_the_logs_of_some_ranks_alone_report_no_wait(text: str) -> None:
    assert explained(text).state == "healthy"
