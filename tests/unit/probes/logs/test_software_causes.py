"""Test lines of programs, launchers and schedulers: failures are reported, and working runs have none."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids

_STEPS = "".join(f"step {number} loss {3 - number / 1000:.3f} 410 ms\n" for number in range(400))
_STORE = (
    "[rank3]:[W101 08:12:44.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl"
    "(fd=61, addr=[node-a]:53310, "
    "remote=[node-a]:29500): failed to recv, got 0 bytes\n"
    "[rank3]:[W101 08:12:44.2 ProcessGroupNCCL.cpp:1662] [PG ID 0 PG GUID 0(default_pg) Rank 3] Failed to "
    'check the "should '
    'dump" flag on TCPStore, (maybe TCPStore server has shut down too early), with error: failed to recv, '
    "got 0 bytes\n"
)
_IGNORED = (
    "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at 0x7f0>\n"
    "Traceback (most recent call last):\n"
    '  File "/opt/py/torch/utils/data/dataloader.py", line 1510, in __del__\n'
    "    self._shutdown_workers()\n"
    "AssertionError: can only test a child process\n"
)
_HEALTHY = {
    "the store's server ends first": f"{_STEPS}saved to out/\n{_STORE}",
    "an exception that Python ignores": f"{_STEPS}{_IGNORED}",
    "a batch that does not fit, and a smaller one": (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total "
        "capacity of 79.10 GiB of "
        f"which 1.00 GiB is free.\nTrying batch size 8\n{_STEPS}"
    ),
    "an exception that the program caught": (
        'Traceback (most recent call last):\n  File "log.py", line 3, in '
        "push\nrequests.exceptions.HTTPError: 503 Server Error\n"
        f"the next try is in 5 s\n{_STEPS}"
    ),
    "a folder that is not on the node": (
        f"slurmstepd: error: couldn't chdir to `/home/a/run': No such file or directory: going to /tmp "
        f"instead\n{_STEPS}"
    ),
    "a process group that was not destroyed": (
        f"{_STEPS}[rank0]:[W101 09:17:03.2 ProcessGroupNCCL.cpp:1168] Warning: WARNING: process group has "
        f"NOT been destroyed "
        "before we destruct ProcessGroupNCCL. On normal program exit, the application should call "
        "destroy_process_group\n"
    ),
    "an exception of a thread at the end": (
        f"{_STEPS}Exception in thread Thread-5 (_pin_memory_loop):\nTraceback (most recent call last):\n"
        "ConnectionResetError: [Errno 104] Connection reset by peer\n"
    ),
    "a worker of Ray that was to end": (
        f"{_STEPS}(raylet) A worker died or was killed while executing a task. Worker exit type: "
        f"INTENDED_USER_EXIT Worker exit "
        "detail: exit() was called.\n"
    ),
    "a limit of memory that was touched": (
        f"{_STEPS}slurmstepd: error: Exceeded step memory limit at some point. Step may have been "
        f"partially swapped out.\n"
    ),
    "a loss that is no number": f"{_STEPS}TestError: nan\n",
    "an agent that finds the store of another": (
        "[W socket.cpp:401] [c10d] The server socket has failed to listen on [::]:29500 "
        "(errno: 98 - Address already in use).\n"
        f"[E socket.cpp:435] [c10d] The server socket has failed to listen on any local network "
        f"address.\n{_STEPS}"
    ),
    "a pod that waited for its node": (
        "Warning  FailedScheduling  12s  default-scheduler  0/4 nodes are available: 4 Insufficient "
        "nvidia.com/gpu.\n"
        f"Normal  Scheduled  2s  default-scheduler  Successfully assigned job-0 to n7\n{_STEPS}"
    ),
    "a name that leads to loopback on one node": (
        "[W ProcessGroupGloo.cpp:684] Warning: Unable to resolve hostname to a (local) address. Using the "
        "loopback address as "
        f"fallback.\n{_STEPS}"
    ),
    "a stall that resolved itself": (
        "[1,0]<stderr>:WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted "
        "by subset of ranks and "
        f"are waiting for remainder of ranks for more than 60 seconds.\n{_STEPS}"
    ),
}
_PLAIN = {
    "time limit": (
        "slurmstepd: error: *** JOB 4711 ON n7 CANCELLED AT 2025-01-01T09:09:37 DUE TO TIME LIMIT ***",
        "time limit",
    ),
    "preempted": (
        "slurmstepd: error: *** JOB 4711 ON n7 CANCELLED AT 2025-01-01T09:09:37 DUE TO PREEMPTION ***",
        "preemption",
    ),
    "cancelled": (
        "slurmstepd: error: *** STEP 4711.0 ON n7 CANCELLED AT 2025-01-01T09:09:37 ***",
        "cancelled",
    ),
    "walltime": ("=>> PBS: job killed: walltime 3610 exceeded limit 3600", "time limit"),
    "shape": (
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 9x4)",
        "mat1 and mat2 shapes",
    ),
    "import": ("ModuleNotFoundError: No module named 'fast_kernels'", "No module named 'fast_kernels'"),
    "assertion": ("AssertionError", "AssertionError"),
    "arguments": ("train.py: error: unrecognized arguments: --local-rank=1", "unrecognized arguments"),
    "a task": ("srun: error: n7: task 3: Exited with exit code 1", "Task 3 on n7"),
    "memory access": (
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "illegal memory access",
    ),
    "an engine that logs its traceback": (
        "(EngineCore_0 pid=26) ERROR 10-10 10:10:10 [core.py:70] ValueError: No room for the cache",
        "No room for the cache",
    ),
    "a full disk": (
        "OSError: [Errno 28] No space left on device: '/data/step_100.pt'",
        "No space is left on a disk",
    ),
    "a loss": ("Loss is nan, stopping training", "The loss became NaN or infinite"),
    "a data loader": (
        "RuntimeError: Caught RuntimeError in DataLoader worker process 3.\nOriginal Traceback "
        "(most recent call last):\n"
        "RuntimeError: stack expects each tensor to be equal size",
        "stack expects",
    ),
    "a worker": (
        "subprocess.CalledProcessError: Command '['/opt/py', 'train.py']' returned non-zero exit status 1.",
        "A worker ended with exit code 1",
    ),
    "interrupted": ("KeyboardInterrupt", "Ctrl-C"),
    "signalled to stop": (
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15",
        "received a signal to stop from outside",
    ),
}

_FROM_OUTSIDE = ("time limit", "preemption", "cancelled", "Ctrl-C", "received a signal to stop from outside")
"""Words about runs that ended on purpose, which are no failures."""


@pytest.mark.parametrize("log", _HEALTHY.values(), ids=_HEALTHY.keys())
def test_a_run_that_goes_on_has_not_failed(log: str) -> None:
    explanation = explained(log)
    assert not [diagnosis for diagnosis in explanation.diagnoses if diagnosis.is_fault]
    assert explanation.state != "fault"


@pytest.mark.parametrize(("line", "words"), _PLAIN.values(), ids=_PLAIN.keys())
def test_a_failure_outside_the_machine_is_stated_plainly(line: str, words: str) -> None:
    explanation = explained(f"step 1 loss 2.0\n{line}\n")
    assert ids(explanation) == ["unknown"]
    assert explanation.state == ("unknown" if words in _FROM_OUTSIDE else "fault")
    assert explanation.collect_next == ()
    assert words in explanation.diagnoses[0].summary


def test_an_exception_at_the_end_is_a_failure_though_an_earlier_one_was_caught() -> None:
    caught = "ValueError: no such shard\n"
    explanation = explained(f"{caught}{_STEPS}RuntimeError: shapes differ\n")
    assert ids(explanation)[0] == "unknown"


def test_a_task_killed_after_another_failed_was_not_short_of_memory() -> None:
    killed, exited = (
        "srun: error: n7: tasks 2-3: Killed\n",
        "srun: error: n7: task 0: Exited with exit code 1\n",
    )
    assert ids(explained(killed + exited))[0] == "oom-killer"
    assert ids(explained(exited + killed))[0] == "unknown"
    report = (
        "Failures:\n[1]:\n  host      : n7\n  rank      : 1 (local_rank: 1)\n  exitcode  : -9 (pid: 11)\n"
        "Root Cause (first observed failure):\n[0]:\n  host      : n7\n  rank      : 0 (local_rank: 0)\n"
        "  exitcode  : {} (pid: 10)\n"
    )
    assert ids(explained(report.format(1)))[0] == "unknown"
    assert ids(explained(report.format(-9)))[0] == "oom-killer"


@pytest.mark.parametrize(
    "prefix", ["", "node07: ", "stderr: ", "worker1  | ", "Oct 10 10:10:10 node-b python[123]: ", "(pid=50) "]
)
def test_an_exception_is_found_behind_what_launchers_put_before_it(prefix: str) -> None:
    explanation = explained(f"{prefix}Traceback (most recent call last):\n{prefix}ValueError: bad shard\n")
    assert "ValueError: bad shard" in explanation.diagnoses[0].summary


def test_an_exception_in_a_sentence_ended_nothing() -> None:
    assert not explained(f"{_STEPS}warning: ValueError: bad shard, the next one is taken\n").diagnoses


def test_an_end_is_reported_behind_a_failure_that_precedes_it() -> None:
    end = "srun: error: kit-3: task 4: Exited with exit code 1\n"
    explanation = explained(
        f"kit-3:44:55 [0] enqueue.cc:700 NCCL WARN Cuda failure 'a new kind of failure'\n{end}"
    )
    assert "a new kind of failure" in explanation.diagnoses[0].summary
    assert explanation.collect_next
    assert not explained(end).collect_next


def test_a_program_that_fails_is_reported_though_its_gpus_lack_peer_to_peer() -> None:
    log = (
        "n1:5:60 [0] NCCL INFO Could not enable P2P between dev 3(=3e000) and dev 2(=3d000)\n"
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 9x4)\n"
    )
    assert ids(explained(log))[:2] == ["unknown", "p2p-unavailable"]


def test_a_job_that_hung_until_its_time_limit_is_a_hang() -> None:
    init = "".join(
        f"t1:5:6{rank} [{rank}] NCCL INFO comm 0x5 rank {rank} nranks 2 cudaDev {rank} busId {rank}000 - "
        f"Init COMPLETE\n"
        for rank in range(2)
    )
    calls = "".join(
        f"t1:5:5 [0] NCCL INFO AllReduce: opCount {number:x} sendbuff 0x7f1 recvbuff 0x7f1 count 1 "
        f"datatype 1 op 0 root 0\n"
        for number in range(40)
    )
    end = "slurmstepd: error: *** JOB 4711 ON t1 CANCELLED AT 2025-01-01T09:09:37 DUE TO TIME LIMIT ***\n"
    assert ids(explained(init + calls + end))[0] == "hang-after-init"
    assert ids(explained(init + _STEPS + end))[0] == "unknown"


def test_a_rank_that_joined_is_no_straggler_though_it_enqueued_less() -> None:
    line = (
        "[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:2168] "
        "[PG ID 0 PG GUID 0(default_pg) Rank {rank}]  failure detected "
        "by watchdog at work sequence id: {seq} PG status: last enqueued work: {last}, last completed "
        "work: {done}\n"
    )
    joined = line.format(rank=0, seq=8, last=11, done=7) + line.format(rank=1, seq=8, last=9, done=7)
    assert "did not join" not in explained(joined).diagnoses[0].summary
    late = joined + line.format(rank=2, seq=7, last=7, done=6)
    assert "Rank 2 did not join collective number 8" in explained(late).diagnoses[0].summary


def test_groups_of_one_number_on_other_ranks_are_not_compared() -> None:
    line = (
        "[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        "operation timeout: "
        "WorkNCCL(SeqNum=8, OpType={op}, NumelIn=6, NumelOut=6, Timeout(ms)=600000) ran for 600086 "
        "milliseconds before timing out"
        ".\n[rank{rank}]:[E101 10:00:00.1 ProcessGroupNCCL.cpp:2168] [PG ID 2 PG GUID {guid} Rank {rank}]  "
        "failure detected by "
        "watchdog at work sequence id: 8 PG status: last enqueued work: 8, last completed work: 7\n"
    )
    apart = line.format(rank=0, op="ALLREDUCE", guid=3) + line.format(rank=1, op="BROADCAST", guid=5)
    assert ids(explained(apart))[0] == "straggler-timeout"
    assert ids(explained(apart.replace("GUID 5", "GUID 3")))[0] == "collective-mismatch"
