"""Test that facts of machine and recipe make a cause of logged events likelier, and alone are no cause."""

from __future__ import annotations

import pytest

from probes.judging.check_table import CHECKS
from probes.logs.cause_rows import load_causes
from probes.logs.diagnosis import Explanation
from probes.logs.event import Event, Value
from probes.logs.reading import Reading
from tests.support.log_cases.reading import ids
from tests.support.log_events import event

AT = "kit-3:44:55 [0] "
SILENT = (
    f"{AT}NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC\n"
    f"{AT}NCCL INFO Connected all rings, use ring PXN 0 GDR 1\n"
    f"{AT}NCCL INFO ncclCommInitRank comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x9 - "
    f"Init COMPLETE\n"
)
STUCK = (
    SILENT
    + "slurmstepd: error: *** STEP 81.0 ON kit-3 CANCELLED AT 2026-03-02T11:12:13 DUE TO TIME LIMIT ***\n"
)
RETRY = (
    f"{AT}transport/net_ib.cc:1950 NCCL WARN NET/IB : Got completion from peer 10.9.0.4<52> with status=12 "
    f"opcode=0 len=0 "
    "vendor err 129 (Recv)\n"
)
QUEUE_PAIR = f"{AT}misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with error Invalid argument\n"
TWO_NODES = f"{AT}NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n"
SOCKETS = (
    f"{AT}NCCL INFO NET/Socket : Using [0]eth0:10.9.0.3<0>\n{AT}NCCL INFO Using network Socket\n{TWO_NODES}"
)
ONE_HCA = f"{AT}NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.9.0.3<0>\n"
NO_IB = f"{AT}NCCL INFO NET/IB : No device found.\n"
OFF = f"{AT}NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
NO_GDR = TWO_NODES + f"{AT}NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n"
CUDA = "RuntimeError: CUDA error: initialization error\n"
NO_GPU = "RuntimeError: No CUDA GPUs are available\n"
TIMEOUT = (
    "[rank1]:[E ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL"
    "(SeqNum=9, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600044 milliseconds before "
    "timing out.\n"
)
KILLED = (
    "torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 0 "
    "(pid: 12) of binary: python\n"
)


def check(name: str) -> Event:
    """Return the event of a check that the machine does not pass."""
    words = f"what {name} found"
    return event(
        "machine.check",
        {"check": name, "observation": words},
        source="machine",
        number=0,
        text=f"{name}: {words}",
    )


def beside(kind: str, **fields: Value) -> Event:
    return event(kind, {"observation": "so it is", **fields}, source="machine", number=0, text="so it is")


def explained(text: str, *known: Event) -> Explanation:
    reading = Reading()
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    return reading.explanation(known)


IB_DISABLED = beside("recipe.variable", name="NCCL_IB_DISABLE", value="1")
ACTIVE = beside("compared.sockets", active=8)


@pytest.mark.parametrize(
    ("cause", "text", "known"),
    [
        ("acs-enabled", STUCK, (check("acs"),)),
        ("nvlink-hardware", STUCK, (check("nvlink-active"),)),
        ("p2p-broken", STUCK, (check("peer-access-geforce"),)),
        ("acs-enabled", RETRY.replace("status=12", "status=4"), (check("iommu"),)),
        ("ib-port-flapping", RETRY, (check("link-flapping"),)),
        ("ib-gid", RETRY, (check("nic-gid"),)),
        ("ib-gid", QUEUE_PAIR, (check("roce-address"),)),
        ("ib-modify-qp", QUEUE_PAIR, (check("nic-state"),)),
        ("roce-netdev-missing", QUEUE_PAIR, (check("nic-netdev"),)),
        ("rdma-not-used", SOCKETS, (ACTIVE,)),
        ("rdma-not-used", SOCKETS + OFF, (ACTIVE,)),
        ("rdma-not-used", SOCKETS, (IB_DISABLED, ACTIVE)),
        ("rdma-device-missing", NO_IB + SOCKETS, (check("container-devices"),)),
        ("rdma-device-missing", NO_IB + SOCKETS, (ACTIVE,)),
        ("gdr-off-driver", NO_GDR, (check("peermem"),)),
        ("wrong-hca-selected", ONE_HCA, (beside("compared.nics-unused", share=0.12),)),
        ("cuda-init-failed", CUDA, (check("device-nodes"),)),
        ("driver-too-old", NO_GPU, (check("torch-cuda"),)),
        ("driver-library-mismatch", NO_GPU, (check("driver-library"),)),
        ("fabric-manager", NO_GPU, (check("fabric-manager"),)),
        ("gpu-lost", TIMEOUT, (check("gpu-lost"),)),
        ("gpu-xid", TIMEOUT, (check("xid-reset"),)),
        ("ecc", TIMEOUT, (check("row-remap"),)),
    ],
)  # fmt: skip
def test_the_machine_and_the_recipe_make_a_cause_the_first(
    cause: str, text: str, known: tuple[Event, ...]
) -> None:
    explanation = explained(text, *known)
    assert ids(explanation)[0] == cause
    first = explanation.diagnoses[0]
    assert first.is_fault
    assert "{" not in first.summary + first.remedy
    assert {line.line == 0 for line in first.evidence} == {True, False}, (
        "the evidence has lines of the log (line > 0) and facts from elsewhere (line 0)"
    )
    alone = explained(text)
    before = {diagnosis.cause_id: diagnosis.confidence for diagnosis in alone.diagnoses if diagnosis.is_fault}
    assert first.confidence > before.get(cause, 0)


@pytest.mark.parametrize(
    ("cause", "name"),
    [("acs-enabled", "acs"), ("nvlink-hardware", "nvlink-errors"), ("p2p-broken", "peer-access-geforce")],
)
def test_a_log_that_only_ends_is_doubted_and_not_accused(cause: str, name: str) -> None:
    explanation = explained(SILENT, check(name))
    assert explanation.state == "unknown"
    assert cause in ids(explanation)
    assert not [diagnosis for diagnosis in explanation.diagnoses if diagnosis.is_fault]


@pytest.mark.parametrize("row", CHECKS, ids=lambda row: row.id)
def test_a_finding_about_the_machine_is_no_fault_of_a_healthy_run(row) -> None:
    text = SILENT + "".join(f"step {step}: loss 2.{step}, 310 samples per second\n" for step in range(40))
    explanation = explained(text, check(row.id), IB_DISABLED)
    assert explanation.state == "healthy"
    assert not [diagnosis for diagnosis in explanation.diagnoses if diagnosis.is_fault]


def test_rows_ask_for_checks_that_there_are() -> None:
    known = {row.id for row in CHECKS}
    asked: set[str] = set()
    for row in load_causes().cause:
        for pattern in row.pattern:
            assert not pattern.event.startswith(("machine.", "compared.", "recipe.")), row.id
            asked |= {*pattern.machine}
    assert asked
    assert asked <= known
