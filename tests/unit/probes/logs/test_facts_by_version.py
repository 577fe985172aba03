"""Test that the words of NCCL 2.4 to 2.30 give the same facts, in lines written for this test."""

from __future__ import annotations

import pytest

from probes.logs.facts import Facts
from probes.logs.gather import SourceReader

RUNS: dict[str, tuple[str, dict[str, object]]] = {}
RUNS["2.4"] = (
    """\
@NET/Plugin : No plugin found (libnccl-net.so).
@NCCL_IB_HCA set to mlx5_0
@NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.0.0.1<0>
NCCL version 2.4.8+cuda10.1
@Setting affinity for GPU 0 to ffff
@comm 0x7f2a rank 0 nranks 4 cudaDev 0 nvmlDev 0
@CUDA Dev 0[0], IB NIC distance :  PIX
@Channel 00 :    0   1   2   3
@Channel 01 :    0   1   2   3
@NET/IB : GPU Direct RDMA Enabled for GPU 0[0] / HCA 0 (distance 1 < 3), read 0
@Ring 00 : 3 -> 0 [receive] via NET/IB/0/GDRDMA
@Ring 00 : 0[0] -> 1[1] via P2P/IPC
@Ring 01 : 3 -> 0 [receive] via NET/IB/0/GDRDMA
@Using 256 threads, Min Comp Cap 7, Trees enabled up to size 1073741823
@comm 0x7f2a rank 0 nranks 4 cudaDev 0 nvmlDev 0 - Init COMPLETE
""",
    {
        "nccl": ["2.4.8 (CUDA 10.1)"],
        "networks": "IB",
        "hcas": "mlx5_0:1",
        "rings": 2,
        "gpudirect_rdma": True,
        "pairs": {"NET/IB/GDRDMA": ["3>0"], "P2P/IPC": ["0>1"]},
        "init_unseen": ["1-3"],
        "environment": {"NCCL_IB_HCA": "mlx5_0"},
    },
)
RUNS["2.7"] = (
    """\
@Bootstrap : Using [0]eth0:10.0.0.1<0>
@NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
@NET/IB : Using [0]mlx5_0:1/RoCE [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>
@Using network IB
NCCL version 2.7.8+cuda11.0
@threadThresholds 8/8/64 | 32/8/64 | 8/8/64
@Channel 00/02 :    0   1   2   3
@Trees [0] 1/-1/-1->0->2|2->0->1/-1/-1 [1] 1/-1/-1->0->-1|-1->0->1/-1/-1
@Channel 00 : 3[3d000] -> 0[1a000] [receive] via NET/IB/0/GDRDMA
@Channel 00 : 0[1a000] -> 1[1b000] via P2P/IPC
@2 coll channels, 2 p2p channels, 2 p2p channels per peer
@comm 0x7f2a rank 0 nranks 4 cudaDev 0 busId 1a000 - Init COMPLETE
""",
    {
        "nccl": ["2.7.8 (CUDA 11.0)"],
        "networks": "IB",
        "hca_links": ["RoCE"],
        "rings": 2,
        "trees": 2,
        "channels": 2,
        "gpudirect_rdma": True,
        "init_completed": 1,
    },
)
RUNS["2.12"] = (
    """\
@Bootstrap : Using eth0:10.0.0.1<0>
@NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.0.0.1<0>
@Using network IB
@Trees [0] 1/-1/-1->0->2 [1] 1/-1/-1->0->-1
@Channel 00/0 : 3[3d000] -> 0[1a000] [receive] via NET/IB/0/GDRDMA
@Channel 00/0 : 0[1a000] -> 2[1b000] [send] via NET/IB/1(1)/GDRDMA
@Connected all rings
@Connected all trees
@threadThresholds 8/8/64 | 32/8/64 | 512 | 512
@2 coll channels, 2 p2p channels, 2 p2p channels per peer
@comm 0x7f2a rank 0 nranks 4 cudaDev 0 busId 1a000 - Init COMPLETE
""",
    {"networks": "IB", "hca_links": ["IB"], "trees": 2, "channels": 2, "between_nodes": {"NET/IB/GDRDMA": 2}},
)
RUNS["2.18"] = (
    """\
@NCCL_SOCKET_IFNAME set by environment to eth0
@cudaDriverVersion 12020
NCCL version 2.18.6+cuda12.2
@comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xabc - Init START
@NVLS multicast support is available on dev 0
@comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0
@NVLS Head  0:  0  8
@Channel 00/16 :    0   7   6   5   4   3   2   1   9
@Trees [0] 1/8/-1->0->-1 [1] -1/-1/-1->0->7
@P2P Chunksize set to 131072
@NVLS comm 0x55 headRank 0 nHeads 8 buffSize 4194304
@Connected NVLS tree
@16 coll channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer
@TUNER/Plugin: Plugin load returned 0
@TUNER/Plugin: Using internal tuner plugin.
@comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1a000 commId 0xabc - Init COMPLETE
""",
    {
        "nccl": ["2.18.6 (CUDA 12.2)"],
        "cuda_driver": "12.2",
        "ranks": 16,
        "nodes": 2,
        "ranks_per_node": 8,
        "nvls": True,
        "nvls_channels": 16,
        "rings": 16,
    },
)
RUNS["2.22"] = (
    """\
@Bootstrap : Using eth0:10.0.0.1<0>
@NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.
@ncclCommInitRankConfig comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 4d000 commId 0xabc - Init START
@DMA-BUF is available on GPU device 3
@comm 0x55 rank 3 nRanks 16 nNodes 2 localRanks 8 localRank 3 MNNVL 0
@8 coll channels, 8 collnet channels, 0 nvls channels, 8 p2p channels, 2 p2p channels per peer
@Init timings - ncclCommInitRankConfig: rank 3 nranks 16 total 3.41 (kernels 0.20, bootstrap 1.90, topo 0.41, rest 0.90)
@Connected all rings, use ring PXN 0 GDR 1
@ncclCommInitRankConfig comm 0x55 rank 3 nranks 16 cudaDev 3 nvmlDev 3 busId 4d000 commId 0xabc - Init COMPLETE
""",
    {
        "nodes": 2,
        "dma_buf": True,
        "nvls": False,
        "channels": 8,
        "init_seconds": 3.41,
        "init_slowest_rank": 3,
        "init_slowest_step": "bootstrap 1.9 s",
    },
)
RUNS["2.27"] = (
    """\
@ENV/Plugin: Could not find: libnccl-env.so
@Bootstrap: Using eth0:10.0.0.1<0>
@NCCL version 2.27.7+cuda12.9
@NET/Plugin: Loaded net plugin NCCL RDMA Plugin v10 (v10)
@Successfully loaded external plugin libnccl-net.so
@NET/IB : Using [0]mlx5_0:1/IB/SHARP [1]mlx5_1:1/IB/SHARP [RO]; OOB eth0:10.0.0.1<0>
@Initialized NET plugin IBext_v10
@Assigned NET plugin IBext_v10 to comm
@Using network IBext_v10
@RAS client listening socket at ::1<28028>
@MNNVL busId 0x801000 fabric UUID 1f.2a cliqueId 0x7ffe state 3 healthMask 0x0
@MNNVL 1 cliqueId 7ffe cliqueSize 36 cliqueRank 2
@Channel 00/0 : 0[0] -> 1[1] via P2P/MNNVL
@Connected Collnet Chains, use ring PXN 0 GDR 1
@TUNER/Plugin: Using AWS Tuner (v4)
@AllReduce: 1048576 Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}
""",
    {
        "networks": "IBext_v10",
        "sharp": True,
        "mnnvl": True,
        "clique_size": 36,
        "fabric_health": "0x0",
        "ras": "::1<28028>",
        "tuned": {"AllReduce": ["NVLS/SIMPLE"]},
        "within_node": {"P2P/MNNVL": 1},
    },
)
RUNS["2.30"] = (
    """\
[2026-06-01 10:00:00] @NCCL version 2.30.7+cuda13.0
@Successfully loaded external network plugin libnccl-net-ofi.so
@NET/IB : Made virtual device [8] name=mlx5_0+mlx5_1 speed=800000 ndevs=2 rail=0 plane=0
@NET/IB: [0] mlx5_0:uverbs0:1/IB provider=Mlx5 speed=400000 context=0x7f pciPath=/sys/devices/0000:1a:00.0 ar=1 oooRqSize=0
@[ncclCommInitRankConfig] comm 0x55 rank 0 nranks 72 cudaDev 0 nvmlDev 0 busId 801000 commId 0xabc - Init START [Rank 0]
@MNNVL 1 cliqueId 7ffe cliqueSize 72 cliqueRank 0 nvlDomainSize 72
@NVLS tuning: nChannels 24 chunkSize 131072
@Channel 00/0 : 0[0] -> 1[1] via SHM/direct
@Connected binomial trees
@24 coll channels, 24 collnet channels, 24 nvls channels, 32 p2p channels, 16 p2p channels per peer
@[ncclCommInitRankConfig] comm 0x55 rank 0 nranks 72 cudaDev 0 nvmlDev 0 busId 801000 commId 0xabc - Init COMPLETE
""",
    {
        "nccl": ["2.30.7 (CUDA 13.0)"],
        "ranks": 72,
        "hca_speed_gbps": 800.0,
        "clique_size": 72,
        "nvls_channels": 24,
        "channels": 24,
        "within_node": {"SHM/direct": 1},
    },
)


@pytest.mark.parametrize("version", RUNS)
def test_facts_of_a_version(version: str) -> None:
    text, expected = RUNS[version]
    collected = Facts()
    reader = SourceReader("job.log", collected.add)
    reader.feed(text.replace("@", "h1:10:10 [0] NCCL INFO ").encode())
    reader.end()
    facts = collected.as_dict()
    assert {name: facts.get(name) for name in expected} == expected
