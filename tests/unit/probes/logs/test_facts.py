"""Test the facts of a run, collected from the events of its logs."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.facts import Facts, facts_of
from probes.logs.gather import SourceReader
from tests.support.damage import damaged
from tests.support.recordings import MACHINES, needs_recordings

RUN = """\
n1:10:10 [0] NCCL INFO Bootstrap : Using eth0:192.0.2.1<0>
n1:10:10 [0] NCCL INFO cudaDriverVersion 12080
NCCL version 2.26.2+cuda12.8
n1:10:10 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 22.
n2:20:20 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 20.
n2:20:20 [0] NCCL INFO Bootstrap : Using eth1:192.0.2.2<0>
n1:10:10 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:192.0.2.1<0>
n2:20:20 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth1:192.0.2.2<0>
n1:10:10 [0] NCCL INFO Using network IB
n2:20:20 [0] NCCL INFO Using network Socket
n1:10:10 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 busId a0 commId 0x9 - Init START
n1:11:11 [1] NCCL INFO comm 0x1 rank 1 nranks 4 cudaDev 1 busId b0 commId 0x9 - Init START
n2:20:20 [0] NCCL INFO comm 0x1 rank 2 nranks 4 cudaDev 0 busId a0 commId 0x9 - Init START
n1:10:10 [0] NCCL INFO comm 0x1 rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0
n1:10:10 [0] NCCL INFO NVLS multicast support is available on dev 0
n1:10:10 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
n1:10:10 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM
n1:10:10 [0] NCCL INFO Channel 00/0 : 2[0] -> 0[0] [receive] via NET/IB/0/GDRDMA
n2:20:20 [0] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [receive] via NET/IB/0
n1:10:10 [0] NCCL INFO 4 coll channels, 4 collnet channels, 2 nvls channels, 8 p2p channels, 2 p2p channels per peer
n1:10:10 [0] NCCL INFO Init timings - ncclCommInitRank: rank 0 nranks 4 total 9.5 (kernels 0.2, bootstrap 9.0, topo 0.1, rest 0.2)
n1:10:10 [0] NCCL INFO comm 0x1 rank 0 nranks 4 cudaDev 0 busId a0 commId 0x9 - Init COMPLETE
n2:20:20 [0] net_ib.cc:9 NCCL WARN NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129
"""


def _facts(text):
    facts = Facts()
    reader = SourceReader("job.log", facts.add)
    reader.feed(text if isinstance(text, bytes) else text.encode("utf-8", "replace"))
    reader.end()
    return facts.as_dict()


def test_a_run_in_facts():
    facts = _facts(RUN)
    assert facts["nccl"] == ["2.26.2 (CUDA 12.8)"]
    assert facts["cuda_driver"] == "12.8"
    assert (
        facts["hosts"],
        facts["ranks"],
        facts["nodes"],
        facts["ranks_per_node"],
        facts["communicators"],
    ) == (2, 4, 2, 2, 1)
    assert facts["hcas"] == "mlx5_0:1,mlx5_1:1"
    assert facts["hca_links"] == ["IB"]
    assert facts["within_node"] == {"P2P/CUMEM": 2}
    assert facts["between_nodes"] == {"NET/IB/GDRDMA": 1, "NET/IB": 1}
    assert facts["gpudirect_rdma"] == "mixed"
    assert (facts["channels"], facts["nvls_channels"], facts["p2p_channels"], facts["nvls"]) == (
        4,
        2,
        8,
        True,
    )


def test_where_hosts_differ_they_are_named():
    facts = _facts(RUN)
    assert facts["bootstrap_interfaces"] == ["eth0 on n1", "eth1 on n2"]
    assert facts["networks"] == ["IB on n1", "Socket on n2"]
    assert facts["environment"] == {"NCCL_IB_TIMEOUT": [22, 20]}


def test_who_came_and_who_did_not():
    facts = _facts(RUN)
    assert (facts["init_started"], facts["init_completed"]) == (3, 1)
    assert facts["init_incomplete"] == ["1-2"]
    assert facts["init_incomplete_hosts"] == ["n1", "n2"]
    assert facts["init_unseen"] == ["3"]
    assert (facts["init_seconds"], facts["init_slowest_rank"], facts["init_slowest_step"]) == (
        9.5,
        0,
        "bootstrap 9 s",
    )


def test_where_one_line_represents_many_ranks_none_is_reported_missing():
    text = "".join(f"{line} [repeated 3x across cluster]\n" for line in RUN.splitlines() if "Init" in line)
    facts = _facts(text)
    assert facts["ranks"] == 4
    assert "init_incomplete" not in facts
    assert "init_unseen" not in facts


def test_the_first_failure():
    facts = _facts(RUN)
    place = {"host": "n2", "rank": 2, "source": "job.log", "line": 23}
    assert facts["first_failure"] == {"kind": "nccl.ib.completion-error", **place}
    assert facts["failed_ranks"] == [2]


def test_no_events_give_no_facts():
    assert facts_of([]).as_dict() == {}
    assert _facts("step 3, loss 2.1\n") == {}


def test_thousands_of_ranks_fit():
    def lines():
        for rank in range(4000):
            start = f"node{rank // 8}:{rank}:{rank} [{rank % 8}] NCCL INFO "
            comm = (
                f"comm 0x{rank:x} rank {rank} nranks 4000 cudaDev {rank % 8} nvmlDev {rank % 8} busId a0 "
                f"commId 0x9 - Init "
            )
            yield f"{start}Using network IB\n{start}{comm}START\n"
            yield "".join(
                f"{start}Channel {n:02d}/0 : {rank}[0] -> 0[0] [receive] via NET/IB/{n}/GDRDMA\n"
                for n in range(2)
            )
            yield f"{start}{comm}COMPLETE\n" if rank != 77 else ""

    facts = Facts()
    reader = SourceReader("job.log", facts.add)
    tracemalloc.start()
    for text in lines():
        reader.feed(text.encode())
    reader.end()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    values = facts.as_dict()
    assert (values["init_started"], values["init_completed"], values["init_incomplete"]) == (
        4000,
        3999,
        ["77"],
    )
    assert values["hosts"] == 500
    assert most < 24 << 20


@given(damaged(RUN))
def test_damage_raises_nothing_and_completes_no_more_ranks_than_began(text):
    facts = _facts(text)
    assert all(value not in (None, "", [], {}) for value in facts.values())
    assert facts.get("init_completed", 0) <= facts.get("init_started", 0)


@given(st.binary(max_size=400), st.integers(0, len(RUN)))
def test_binary_in_between_raises_nothing(garbage, place):
    _facts(RUN[:place].encode() + garbage + RUN[place:].encode())


@needs_recordings
@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "aws-p4d-2node-16gpu-efa-2.16-healthy.log",
            {
                "networks": "AWS Libfabric",
                "ofi_provider": "efa",
                "efa_nics": 4,
                "gpudirect_rdma": True,
                "ranks": 16,
                "hosts": 2,
            },
        ),
        (
            "bootstrap-connect-timeout-old.log",
            {"nccl": ["2.2.13 (CUDA 9.0)"], "bootstrap_interfaces": "enp3s0"},
        ),
        ("dgx-a100-cannot-disable-ibext.log", {"hcas": "mlx5_9:1", "hca_links": ["RoCE"]}),
        ("driver-too-old-for-nccl.log", {"cuda_driver": "11.0", "nccl": ["2.14.3 (CUDA 11.7)"]}),
        ("gb200-mnnvl-healthmask-crash.log", {"fabric_health": "0xaa", "mnnvl": True, "clique_size": 44}),
        ("gdr-missing-low-busbw-then-fixed.log", {"between_nodes": {"NET/IB": 1}, "gpudirect_rdma": False}),
        (
            "h100-16rank-init-complete-then-hang.log",
            {"ranks": 16, "init_seconds": 1.52, "hca_speed_gbps": 400.0},
        ),
        ("ib-no-device-found-plugin-present.log", {"networks": "Socket", "bootstrap_interfaces": "ibp12s0"}),
        (
            "ib-no-device-found-socket-fallback-ec2.log",
            {"socket_interfaces": "ens3", "plugins_missing": ["net"]},
        ),
        ("nv-system-tree-a100-nvs.log", {"nvlink_gigabytes_per_s": 264.0, "pcie_gigabytes_per_s": 24.0}),
        (
            "p2p-could-not-enable-a100-2gpu.log",
            {"within_node": {"SHM/direct": 1}, "between_nodes": {"NET/IB": 1}, "ranks": 4},
        ),
        ("p2p-could-not-enable-a100-2gpu.log", {"environment": {"NCCL_ALGO": "Tree", "NCCL_PROTO": "LL"}}),
        ("p2p-disabled-azure-a100-pcie-vm.log", {"socket_interfaces": "eth0", "init_unseen": ["1-3"]}),
        ("p2p-shm-only-rtx4090-works.log", {"within_node": {"SHM/direct": 1}}),
    ],
)
def test_facts_that_the_index_states(name, expected):
    facts = _facts((MACHINES / "nccl_log" / name).read_bytes())
    assert {fact: facts.get(fact) for fact in expected} == expected
