"""Test messages of torch, Gloo, Slurm, CUDA and dying processes, by version of the message."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.event import LogLine
from probes.logs.readers import cuda, frameworks, slurm, torch
from probes.logs.readers import process_ends as process

_ALL = (torch, frameworks, slurm, cuda, process)

_TIMEOUT = "Watchdog caught collective operation timeout: WorkNCCL("

_MESSAGES = [
    (
        torch,
        f"[E ProcessGroupNCCL.cpp:587] [Rank 3] {_TIMEOUT}OpType=BROADCAST, Timeout"
        f"(ms)=1800000) ran for 1806948 milliseconds "
        "before timing out.",
        "torch.watchdog-timeout",
        {"op": "BROADCAST", "timeout_ms": 1800000, "ran_ms": 1806948},
    ),
    (
        torch,
        f"[E ProcessGroupNCCL.cpp:821] [Rank 1] {_TIMEOUT}SeqNum=42, OpType=ALLREDUCE, Timeout"
        f"(ms)=600000) ran for 600911 "
        "milliseconds before timing out.",
        "torch.watchdog-timeout",
        {"seq": 42, "op": "ALLREDUCE", "timeout_ms": 600000, "ran_ms": 600911},
    ),
    (
        torch,
        f"[rank5]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 5] {_TIMEOUT}SeqNum=7, "
        f"OpType=_REDUCE_SCATTER_BASE, "
        "NumelIn=64, NumelOut=8, Timeout(ms)=600000) ran for 600060 milliseconds before timing out.",
        "torch.watchdog-timeout",
        {"seq": 7, "op": "_REDUCE_SCATTER_BASE", "numel_in": 64, "numel_out": 8},
    ),
    (
        torch,
        "[rank2]:[E ProcessGroupNCCL.cpp:1537] [PG 1 Rank 2] Timeout at NCCL work: 9, last enqueued NCCL "
        "work: 11, "
        "last completed "
        "NCCL work: 8.",
        "torch.work-status",
        {"seq": 9, "enqueued": 11, "completed": 8},
    ),
    (
        torch,
        "[rank2]:[E626 06:24:44.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 2] "
        "Exception (either "
        "an error or "
        "timeout) detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL "
        "work: 807.",
        "torch.work-status",
        {"seq": 808, "enqueued": 811, "completed": 807},
    ),
    (
        torch,
        "[rank3]:[E710 18:00:32.4 ProcessGroupNCCL.cpp:2395] [PG ID 0 PG GUID 0(default_pg) Rank 3]  "
        "failure detected "
        "by watchdog "
        "at work sequence id: 1 PG status: last enqueued work: 5, last completed work: -1",
        "torch.work-status",
        {"seq": 1, "enqueued": 5, "completed": -1},
    ),
    (
        torch,
        "[rank6]:[E703 21:51:54.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) Rank 6] "
        "Received a dump "
        "signal due to a "
        "collective timeout from  rank 7 and we will try our best to dump the debug info. Last enqueued "
        "NCCL work: 56, last "
        "completed NCCL work: 56.This is most likely",
        "torch.dump-signal",
        {"from_rank": 7, "enqueued": 56, "completed": 56},
    ),
    (
        torch,
        "[PG 0 Rank 0] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in "
        "monitoring enqueued "
        "collectives. This typically indicates",
        "torch.watchdog-stuck",
        {"seconds": 480},
    ),
    (
        torch,
        "torch.distributed.DistBackendError: NCCL error in: "
        "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1269, unhandled "
        "system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.14.3",
        "torch.nccl-error",
        {"error": "unhandled system error", "nccl": "2.14.3"},
    ),
    (
        torch,
        "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:784, invalid usage, "
        "NCCL version 2.7.8",
        "torch.nccl-error",
        {"error": "invalid usage"},
    ),
    (
        torch,
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting "
        "prematurely.",
        "torch.nccl-result",
        {"code": "ncclRemoteError"},
    ),
    (
        torch,
        "[E socket.cpp:922] [c10d] The client socket has timed out after 300s while trying to connect to "
        "(10.0.0.1, 29500).",
        "torch.store-timeout",
        {"host": "10.0.0.1", "port": 29500, "after": "300s"},
    ),
    (
        torch,
        "torch.distributed.DistNetworkError: The client socket has timed out after 600000ms while trying "
        "to connect to "
        "(node-0, 53489).",
        "torch.store-timeout",
        {"host": "node-0", "port": 53489, "after": "600000ms"},
    ),
    (
        torch,
        "RuntimeError: The server socket has failed to listen on any local network address. The server "
        "socket has "
        "failed to bind to "
        "[::]:29500 (errno: 98 - Address already in use).",
        "torch.address-in-use",
        {"port": 29500},
    ),
    (
        torch,
        "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network "
        "address. port: 29501, "
        "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
        "torch.address-in-use",
        {"port": 29501},
    ),
    (
        torch,
        "[E socket.cpp:601] [c10d] The IPv4 network addresses of (node-0, 29500) cannot be retrieved "
        "(gai error: -2 - Name or "
        "service not known).",
        "torch.name-unresolved",
        {"host": "node-0", "port": 29500},
    ),
    (
        torch,
        "torch.distributed.DistStoreError: Timed out after 301 seconds waiting for clients. 1/2 clients "
        "joined.",
        "torch.store-ranks-missing",
        {"joined": 1, "expected": 2},
    ),
    (
        torch,
        "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store "
        "by key '0', but "
        "store->get('0') got error: Connection reset by peer",
        "torch.id-exchange-failed",
        {"rank": 1, "from_rank": 0, "key": "0"},
    ),
    (
        torch,
        "[1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d key-value store "
        "by key '0', but "
        "store->get('0') got error: Timeout waiting for key: default_pg/0/0 after 1800000 ms",
        "torch.id-exchange-failed",
        {"rank": 1, "from_rank": 0},
    ),
    (
        torch,
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        "store_based_barrier_key "
        "(world_size=2, worker_count=1, timeout=0:30:00)",
        "torch.store-ranks-missing",
        {"rank": 0, "joined": 1, "expected": 2},
    ),
    (
        torch,
        "[rank1]:[W803 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 1]  using GPU 1 as device used "
        "by this "
        "process is currently "
        "unknown. This can potentially cause a hang",
        "torch.device-guess",
        {"gpu": 1},
    ),
    (
        frameworks,
        "[W ProcessGroupGloo.cpp:715] Warning: Unable to resolve hostname to a (local) address. Using the "
        "loopback "
        "address as fallback. "
        "Manually set the network interface to bind to with GLOO_SOCKET_IFNAME.",
        "gloo.loopback",
        {},
    ),
    (
        frameworks,
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
        "[127.0.1.1]:26571",
        "gloo.remote-closed",
        {"host": "127.0.1.1", "port": 26571},
    ),
    (
        frameworks,
        "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
        "1800000ms for "
        "recv operation to "
        "complete",
        "gloo.timeout",
        {"after_ms": 1800000, "what": "recv"},
    ),
    (
        slurm,
        "slurmstepd: error: *** STEP 4711.0 ON node-a CANCELLED AT 2026-01-02T03:04:05 DUE TO TIME LIMIT ***",
        "slurm.killed",
        {"reason": "time limit", "scope": "STEP", "step": "4711.0", "node": "node-a"},
    ),
    (
        slurm,
        "slurmstepd: error: *** JOB 4711 ON node-a CANCELLED AT 2026-01-02T03:04:05 DUE TO PREEMPTION ***",
        "slurm.killed",
        {"reason": "preemption", "step": "4711"},
    ),
    (
        slurm,
        "slurmstepd: error: *** STEP 4711.3 ON node-a CANCELLED AT 2026-01-02T03:04:05 ***",
        "slurm.killed",
        {"reason": "signal"},
    ),
    (
        slurm,
        "slurmstepd: error: *** JOB 12 ON n CANCELLED AT 2026-01-02T03:04:05 DUE TO NODE FAILURE, SEE "
        "SLURMCTLD LOG "
        "FOR DETAILS ***",
        "slurm.killed",
        {"reason": "node failure"},
    ),
    (
        slurm,
        "slurmstepd: error: Detected 1 oom_kill event in StepId=463531.0. Some of the step tasks have been "
        "OOM Killed.",
        "slurm.oom",
        {"step": "463531.0", "count": 1},
    ),
    (
        slurm,
        "slurmstepd: error: Detected 3 oom-kill event(s) in step 50574351.batch cgroup. Some of your "
        "processes may "
        "have been killed",
        "slurm.oom",
        {"step": "50574351.batch", "count": 3},
    ),
    (slurm, "srun: error: node-b: task 12: Out Of Memory", "slurm.oom", {"node": "node-b", "tasks": "12"}),
    (slurm, "srun: error: Node failure on node-c", "slurm.node-failure", {"node": "node-c"}),
    (
        slurm,
        "srun: error: node-b: task 3: Exited with exit code 1",
        "slurm.task-exit",
        {"node": "node-b", "exit_code": 1},
    ),
    (slurm, "srun: error: node-b: tasks 0-7: Killed", "slurm.task-killed", {"tasks": "0-7", "signal": 9}),
    (slurm, "srun: error: node-b: task 0: Bus error (core dumped)", "slurm.task-killed", {"signal": 7}),
    (
        cuda,
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB "
        "(GPU 3; 79.15 GiB total capacity; "
        "70.00 GiB already "
        "allocated; 1.50 GiB free; 75.00 GiB reserved in total by PyTorch)",
        "torch.oom",
        {"gpu": 3, "wanted": 2 << 30, "free": 3 << 29, "reserved": 75 << 30},
    ),
    (
        cuda,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total "
        "capacity of 79.11 "
        "GiB of which 100.00 "
        "MiB is free. Process 1 has 79.00 GiB memory in use. Of the allocated memory 70.00 GiB is "
        "allocated by "
        "PyTorch, and 8.00 GiB is "
        "reserved by PyTorch but unallocated.",
        "torch.oom",
        {"gpu": 0, "wanted": 512 << 20, "free": 100 << 20, "used": 70 << 30, "unallocated": 8 << 30},
    ),
    (cuda, "RuntimeError: CUDA error: uncorrectable ECC error encountered", "cuda.error", {"code": 214}),
    (
        cuda,
        "host-a: Test CUDA failure common.cu:732 'system not yet initialized'",
        "cuda.error",
        {"code": 802},
    ),
    (
        cuda,
        "torch.AcceleratorError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",
        "cuda.error",
        {"code": 46},
    ),
    (
        cuda,
        "Unable to determine the device handle for gpu 0000:18:00.0: Unknown Error",
        "nvml.failed",
        {"bus": "0000:18:00.0", "text": "Unknown Error"},
    ),
    (
        cuda,
        "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before "
        "calling "
        "NumCudaDevices() that "
        "might have already set an error? Error 802: system not yet initialized",
        "cuda.init-failed",
        {"code": 802},
    ),
    (cuda, "Failed to initialize NVML: Driver/library version mismatch", "nvml.mismatch", {}),
    (
        process,
        "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
        "memory (shm).",
        "torch.bus-error",
        {},
    ),
    (
        process,
        "Fatal Python error: Segmentation fault",
        "process.signal",
        {"name": "Segmentation fault", "signal": 11},
    ),
    (process, "[node-a:123] Signal: Bus error (7)", "process.signal", {"name": "Bus error", "signal": 7}),
    (
        process,
        "RuntimeError: DataLoader worker (pid 1234) is killed by signal: Bus error. It is possible that "
        "dataloader's "
        "workers are out of",
        "torch.worker-killed",
        {"child": 1234, "signal": "Bus error"},
    ),
    (process, "  reason: OOMKilled", "process.out-of-memory", {"scope": "container"}),
    (
        process,
        "MPI_ABORT was invoked on rank 5 in communicator MPI_COMM_WORLD",
        "mpi.abort",
        {"rank": 5},
    ),
    (
        process,
        "mpirun noticed that process rank 3 with PID 77 on node node-d exited on signal 9 (Killed).",
        "mpi.process-exit",
        {"rank": 3, "node": "node-d", "signal": 9},
    ),
    (process, "Killed", "process.signal", {"signal": 9}),
    (
        process,
        "ValueError: loss is not finite",
        "torch.exception",
        {"name": "ValueError", "message": "loss is not finite"},
    ),
    (process, "OSError: [Errno 98] Address already in use", "process.address-in-use", {}),
]


def _line(text: str) -> LogLine:
    return LogLine(source="job.log", number=1, text=text, raw=text)


@pytest.mark.parametrize(("reader", "text", "kind", "fields"), _MESSAGES)
def test_a_message_gives_its_event(reader, text, kind, fields):
    (event,) = reader.read(_line(text))

    assert event.kind == kind
    assert {name: event.fields.get(name) for name in fields} == fields
    assert event.text == text


@pytest.mark.parametrize(("reader", "text", "kind", "fields"), _MESSAGES)
def test_the_line_bears_a_sign_of_its_reader(reader, text, kind, fields):
    assert any(sign in text.encode() for sign in reader.SIGNS)


@pytest.mark.parametrize(
    "text",
    [
        "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node-0, 29500) cannot be retrieved "
        "(gai error: -2 - Name).",
        "[W socket.cpp:663] [c10d] The client socket has failed to connect to [node-0]:29500 "
        "(errno: 111 - Connection refused).",
        "[W socket.cpp] [c10d] The client socket has failed to connect to [::]:29500 "
        "(errno: 97 - Address family not supported).",
    ],
)
def test_attempts_that_healthy_jobs_make_are_warnings(text):
    assert [event.kind for event in torch.read(_line(text))] == ["torch.socket-warning"]


def test_the_rank_is_that_of_the_words():
    (event,) = torch.read(
        _line(
            f"[rank3]:[E1 x] [PG ID 0 PG GUID 0(default_pg) Rank 3] {_TIMEOUT}OpType=BROADCAST, Timeout"
            f"(ms)=1)"
        )
    )

    assert event.rank == 3


@pytest.mark.parametrize(
    "text",
    [
        "step 100: loss 2.31, 512 samples/s",
        "host-a:12:34 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] via P2P/CUMEM",
        "host-a:12:34 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so "
        "(libnccl-net.so: cannot open shared object file)",
        "srun: job 463531 has been allocated resources",
        "Training finished. Killed time: none. Errors: 0",
        "MeanSquaredError: 0.125",
    ],
)
def test_healthy_lines_report_nothing(text):
    assert [event for reader in _ALL for event in reader.read(_line(text))] == []


@pytest.mark.parametrize("text", [text for _, text, _, _ in _MESSAGES])
def test_cut_anywhere_nothing_is_raised(text):
    for end in range(len(text)):
        for reader in _ALL:
            reader.read(_line(text[:end]))


@given(st.text(max_size=200), st.sampled_from([text for _, text, _, _ in _MESSAGES]), st.integers(0, 300))
def test_garbage_in_between_is_read_or_not_but_never_raises(garbage, text, place):
    for reader in _ALL:
        reader.read(_line(text[:place] + garbage + text[place:]))


def test_long_lines_are_read_without_raising():
    for word in (
        "Rank 0 is running collective: ",
        "Detected mismatch between collectives on ranks " * 40,
        "Error: " * 1000,
        "a." * 4000,
    ):
        for reader in _ALL:
            reader.read(_line((word * 300)[:8192]))
