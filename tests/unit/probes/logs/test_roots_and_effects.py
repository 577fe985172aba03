"""Test logs of a whole failure: the root comes first, and the reports of other ranks are its effects."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained, ids


def timed_out(rank: int) -> str:
    """Return the lines of a rank that waited without success."""
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: "
        "WorkNCCL(SeqNum=91, OpType=ALLREDUCE, NumelIn=7, NumelOut=7, Timeout(ms)=600000) ran for 600044 "
        "milliseconds before timing out.\n"
    )


def ended(rank: int, code: int, signal: str = "") -> str:
    """Return the report of torchrun about the process that ended first."""
    return (
        f"E0302 11:00:00.000000 140 torch/distributed/elastic/multiprocessing/api.py:826] failed "
        f"(exitcode: {code}) local_rank: "
        f"{rank} (pid: 71) of binary: /usr/bin/python\nRoot Cause (first observed failure):\n[0]:\n"
        f"  time      : 2026-03-02_11:00:00\n  host      : w1\n  rank      : {rank} (local_rank: {rank})\n"
        f"  exitcode  : {code} (pid: 71)\n  error_file: <N/A>\n"
        "  traceback : "
        f"{f'Signal {signal} received by PID 71' if signal else 'To enable traceback see the documentation'}\n"
    )


W1, W2 = "w1:71:71 [0] ", "w2:72:99 [1] "
CLOSED = (
    f"{W2}misc/socket.cc:80 NCCL WARN socketProgress: Connection closed by remote peer w1<4455>\n"
    f"{W2}NCCL INFO misc/socket.cc:800 -> 6\n"
)
NO_ANSWER = (
    f"{W2}transport/net_ib.cc:1950 NCCL WARN NET/IB : Got completion from peer 10.9.0.4<52> with status=12 "
    f"opcode=0 len=0 "
    "vendor err 129 (Recv)\n"
)
FLUSHED = NO_ANSWER.replace("status=12", "status=5").replace("129", "249")
REFUSED = NO_ANSWER.replace("status=12", "status=4").replace("129", "81")
LINKS = "".join(
    f"[ {100 + n}.5] mlx5_core 0000:1a:00.0 ibs0: Link {'up' if n % 2 else 'down'}\n" for n in range(6)
)
BROKEN = "[rank3]: Traceback (most recent call last):\n[rank3]: ValueError: too many axes\n"
OUT_OF_MEMORY = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(
    ("cause", "logs"),
    [
        ("gpu-lost", (timed_out(0) + CLOSED, "[ 9.5] NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the "
                                             "bus.\n")),
        ("ib-port-flapping", (NO_ANSWER + FLUSHED + timed_out(0), LINKS)),
        ("oom-killer", (ended(0, -9, "9 (SIGKILL)") + CLOSED + timed_out(2), "[ 9.5] Out of memory: Killed "
                                                                             "process 7 (py)\n")),
        ("shm-too-small", (
            f"{W1}misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-ab to 9637892 bytes, "
            f"error: No space "
            "left on device (28)\n" + ended(0, -7, "7 (SIGBUS)") + CLOSED,
        )),
        ("gpu-oom", (timed_out(0) + CLOSED + OUT_OF_MEMORY + ended(3, 1),)),
        ("driver-too-old", (
            f"{W1}misc/cudawrap.cc:182 NCCL WARN Cuda failure 'CUDA driver version is insufficient for "
            f"CUDA runtime version'\n"
            + CLOSED,
        )),
        ("fabric-manager", (
            f"{W1}transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'\n"
            "RuntimeError: CUDA error: system not yet initialized\n",
        )),
        ("duplicate-gpu", (
            f"{W1}init.cc:497 NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device "
            f"1000\n" + OUT_OF_MEMORY,
        )),
        ("memlock", (
            f"{W1}misc/ibvwrap.cc:200 NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate "
            f"memory\n" + CLOSED,
        )),
        ("wrong-interface", (
            f"{W1}NCCL INFO Bootstrap : Using docker0:172.17.0.1<0>\n{W2}NCCL INFO Bootstrap : Using "
            f"docker0:172.17.0.1<0>\n"
            f"{W2}misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.1<38211> failed : "
            f"Connection refused\n"
            + timed_out(1),
        )),
        ("nccl-version-mismatch", (
            f"{W1}init.cc:9 NCCL WARN Mismatched NCCL version detected : rank 3 version 22602 rank 0 "
            f"version 22105\n"
            f"{W1}transport/net.cc:9 NCCL WARN Message truncated : received 2048 bytes instead of "
            f"1024\n" + CLOSED,
        )),
        ("ecc", (
            "RuntimeError: CUDA error: uncorrectable ECC error encountered\n" + timed_out(0),
            "[ 9.5] NVRM: Xid (PCI:0000:41:00): 94, pid=71, name=python, Contained: SM "
            "(0x1). RST: No, D-RST: No\n",
        )),
        ("nvlink-hardware", (
            timed_out(0) + timed_out(1),
            "[ 9.5] NVRM: Xid (PCI:0000:41:00): 74, NVLink: fatal error detected on link 6"
            "(0x10000, 0x0, 0x0)\n",
        )),
        ("peer-died", ("srun: error: Node failure on w1\n" + timed_out(2),)),
        ("ib-retry-exceeded", (FLUSHED + NO_ANSWER + CLOSED + timed_out(3),)),
        ("acs-enabled", (REFUSED + FLUSHED + CLOSED,)),
        ("unknown", (BROKEN + timed_out(0) + CLOSED,)),
    ],
)  # fmt: skip
def test_the_root_comes_first(cause: str, logs: tuple[str, ...]) -> None:
    explanation = explained(*logs)
    assert ids(explanation)[0] == cause
    first = explanation.diagnoses[0]
    assert first.is_fault
    assert first.secondary
    others = [diagnosis.confidence for diagnosis in explanation.diagnoses[1:] if diagnosis.is_fault]
    assert cause == "unknown" or all(first.confidence > other for other in others)


def test_failures_that_follow_from_failing_links_are_reported_as_their_effect() -> None:
    explanation = explained(NO_ANSWER, LINKS)
    (first, *rest) = [diagnosis for diagnosis in explanation.diagnoses if diagnosis.is_fault]
    assert first.cause_id == "ib-port-flapping"
    assert all(diagnosis.confidence < 0.5 * first.confidence for diagnosis in rest)
