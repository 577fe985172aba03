"""Test that a program's statement that it continues counts only if a line of progress follows."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained
from tests.unit.probes.logs.test_own_failures import traceback

_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 1 has a total capacity of "
    "40.00 GiB\n"
)
_BUSY = (
    "[W312 04:01:02.1 socket.cpp:200] [c10d] The server socket has failed to bind to [::]:29400 "
    "(errno: 98 - Address already in "
    "use).\n"
)
_CANCELLED = "slurmstepd: error: *** STEP 71.0 ON kit-1 CANCELLED AT 2026-03-12T04:01:02 DUE TO {why} ***\n"
_STEP = "step 11 loss 2.0\n"
_INIT = (
    "kit-1:9:60 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1b000 commId 0x9e - Init COMPLETE\n"
)
_TAKEN_DOWN = (
    "kit-1:9:70 [0] NCCL INFO misc/socket.cc:47 -> 3\n"
    "kit-1:9:70 [0] NCCL INFO comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1b000 - Abort COMPLETE\n"
)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory with 96 samples, retrying with 48\n" + _STEP,
        _OOM + "falling back to batches of 8\n" + _STEP,
        traceback("ModuleNotFoundError: No module named 'fastops'", prefix="")
        + "no fastops here, using the fallback\n"
        + _STEP,
        "[W 2026-03-12] Trial 3 failed because of: OutOfMemoryError('CUDA out of memory.')\nTrial 4 "
        "finished with value: 0.4\n",
        "urllib3.exceptions.NewConnectionError: Failed to connect: [Errno 111] Connection refused\n"
        "wandb: Network error (ConnectionError), entering retry loop.\n" + _STEP,
        _BUSY + "port 29400 is busy, trying 29410\naccuracy: 0.71\n",
        "CUDA out of memory, skipped\nFinished training.\n",
        "CUDA out of memory, skipped\nCOMPLETED exit_code=0\n",
        "CUDA out of memory, skipped\n71|COMPLETED 0:0\n",
        traceback("ValueError: bad answer", prefix="") + "reward=0.0\n" + "reward 0.1\nreward 0.2\n",
        _CANCELLED.format(why="PREEMPTION") + "Resuming from step 10\n" + _STEP,
        _CANCELLED.format(why="JOB REQUEUE") + "[rank0] Resuming from step 10\n[rank0] step 11 loss 2.0\n",
        _INIT + _STEP + _TAKEN_DOWN + "Training complete\n",
        "slurmstepd: error: Unable to create TMPDIR [/fast/71]: Permission denied\nslurmstepd: error: "
        "Setting TMPDIR to /tmp\n",
        "  Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n"
        "  Normal   Started  3m  kubelet  Started container fit\n",
        "[2026-03-12 04:01:02,000] [INFO] [launch.py:351:main] Process 71 exits successfully.\n",
    ],
)
def test_an_error_that_the_program_overcame_is_no_fault(text: str) -> None:
    assert explained("step 10 loss 2.5\n" + text).state == "healthy"


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory with 96 samples, retrying with 48\n",
        "CUDA out of memory with 96 samples, retrying with 48\n" + _OOM,
        "CUDA out of memory with 96 samples, retrying with 48\n" + _STEP + _OOM,
        _OOM + "no retries left, giving up\n" + _STEP,
        _OOM + "failed to resume\n" + _STEP,
        "[rank3]: " + _OOM + "[rank1]: retrying to read row 5\n[rank1]: step 11 loss 2.0\n",
        _OOM + "finished training epoch 2\n",
        _BUSY + "port 29400 is busy, trying 29410\n",
    ],
)
def test_words_alone_overcome_nothing(text: str) -> None:
    assert explained("step 10 loss 2.5\n" + text).state == "fault"


@pytest.mark.parametrize(
    "text",
    [
        _CANCELLED.format(why="PREEMPTION") + _STEP * 4,
        _CANCELLED.format(why="TIME LIMIT") + "Resuming from step 10\n" + _STEP,
        _INIT + _STEP + _TAKEN_DOWN,
        "Started container fit\n0/3 nodes are available: 3 Insufficient nvidia.com/gpu.\n",
    ],
)
def test_an_end_without_a_new_start_stays_unknown(text: str) -> None:
    assert explained("step 10 loss 2.5\n" + text).state == "unknown"


def test_sockets_over_a_bridge_are_the_cause_of_refused_connections() -> None:
    first = explained(
        "kit-1:9:60 [0] NCCL INFO NET/Socket : Using [0]docker0:172.18.0.1<0>\n"
        "kit-1:9:70 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.18.0.1<40007> "
        "failed : Connection "
        "refused\n"
    ).diagnoses[0]
    assert first.cause_id == "wrong-interface"


@pytest.mark.parametrize(
    ("last", "said"),
    [("Connected all rings", "during"), ("comm 0x55 rank 0 nranks 2 - Init COMPLETE", "completes")],
)
def test_a_log_that_ends_within_the_initialisation_states_it(last: str, said: str) -> None:
    start = (
        "kit-1:9:60 [0] NCCL INFO ncclCommInitRank comm 0x55 rank 0 nranks 2 cudaDev 0 busId 1b000 commId "
        "0x9e - Init START\n"
    )
    first = explained(f"{start}kit-1:9:60 [0] NCCL INFO {last}\n").diagnoses[0]
    assert (first.cause_id, said in first.summary) == ("hang-after-init", True)
