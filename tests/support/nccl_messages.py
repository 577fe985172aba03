"""Messages of NCCL, RCCL and their plugins: reader, line, kind of the event, its fields."""

from __future__ import annotations

from probes.logs.readers import nccl
from probes.logs.readers import nccl_transport_lines as nccl_transports

_INFO = "gpu-7:4001:4008 [3] NCCL INFO "
_WARN = "gpu-7:4001:4008 [3] file.cc:12 NCCL WARN "
_START = "comm 0x7f12 rank 3 nranks 16 cudaDev 3 "

MESSAGES = [
    (nccl, "NCCL version 2.4.8+cuda10.1", "nccl.version", {"version": "2.4.8", "cuda": "10.1"}),
    (nccl, f"{_INFO}NCCL version 2.27.5+cuda12.9", "nccl.version", {"version": "2.27.5", "cuda": "12.9"}),
    (nccl, f"{_INFO}cudaDriverVersion 12080", "nccl.driver", {"api": 12080}),
    (
        nccl,
        f"{_INFO}NCCL_IB_TIMEOUT set by environment to 22.",
        "nccl.environment",
        {"name": "NCCL_IB_TIMEOUT", "value": 22},
    ),
    (
        nccl,
        f"{_INFO}NCCL_SOCKET_IFNAME set by environment to =eth0",
        "nccl.environment",
        {"value": "=eth0", "by": "environment"},
    ),
    (
        nccl,
        f"{_INFO}NCCL_IB_HCA set to mlx5_0,mlx5_1",
        "nccl.environment",
        {"name": "NCCL_IB_HCA", "value": "mlx5_0,mlx5_1"},
    ),
    (
        nccl,
        f'{_INFO}NET/OFI Setting NCCL_PROTO to "simple"',
        "nccl.environment",
        {"name": "NCCL_PROTO", "by": "plugin"},
    ),
    (
        nccl,
        f"{_INFO}Invalid value abc for NCCL_NTHREADS, using default -2.",
        "nccl.environment-invalid",
        {"value": "abc"},
    ),
    (
        nccl,
        "gpu-7:41:41 [0] INFO NET : Using interface enp3s0:192.0.2.3<0>",
        "nccl.bootstrap",
        {"interface": "enp3s0"},
    ),
    (nccl, f"{_INFO}Bootstrap : Using [0]eth0:192.0.2.3<0>", "nccl.bootstrap", {"address": "192.0.2.3"}),
    (
        nccl,
        f"{_INFO}Bootstrap: Using eth0:fe80::9c8a:8aff%eth0<0>",
        "nccl.bootstrap",
        {"address": "fe80::9c8a:8aff"},
    ),
    (
        nccl,
        f"{_INFO}Bootstrap timings total 59.8 (create 0.0, send 0.0, recv 59.7)",
        "nccl.bootstrap-timings",
        {},
    ),
    (nccl, "gpu-7:41:41 [0] INFO Using internal Network Socket", "nccl.network", {"name": "Socket"}),
    (nccl, f"\u2502 {_INFO}Using network IB            \u2502", "nccl.network", {"name": "IB"}),
    (nccl, f"{_INFO}Using network AWS Libfabric", "nccl.network", {"name": "AWS Libfabric"}),
    (nccl, f"{_INFO}Assigned NET plugin gIB to comm", "nccl.network", {"name": "gIB"}),
    (
        nccl,
        f"{_INFO}NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0:192.0.2.3<0>",
        "nccl.hcas",
        {
            "names": "mlx5_0:1,mlx5_bond_0:1",
            "links": "IB,RoCE",
            "count": 2,
            "relaxed_ordering": 1,
            "interface": "eth0",
        },
    ),
    (
        nccl,
        f"{_INFO}NET/IB : Using [0]={{[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}} [1]mlx5_2:1/IB ; OOB "
        f"ib0:192.0.2.3<0>",
        "nccl.hcas",
        {"names": "mlx5_0:1,mlx5_1:1,mlx5_2:1", "relaxed_ordering": 0, "interface": "ib0"},
    ),
    (
        nccl,
        f"{_INFO}NET/IB : Using [0]mlx5_0:1/IB/SHARP ; OOB ib0:192.0.2.3<0>",
        "nccl.sharp",
        {"what": "adapters"},
    ),
    (
        nccl,
        f"{_INFO}NET/IB: [3] mlx5_3:uverbs3:1/RoCE provider=Mlx5 speed=400000 context=0x55 "
        "pciPath=/sys/devices/pci0/0000:da:00.0 ar=0",
        "nccl.hca",
        {"index": 3, "name": "mlx5_3", "speed_mbps": 400000, "pci": "0000:da:00.0"},
    ),
    (
        nccl,
        f"{_INFO}NET/IB : Made virtual device [8] name=mlx5_0+mlx5_1 speed=400000 ndevs=2",
        "nccl.hca-merged",
        {"ports": 2},
    ),
    (
        nccl,
        f"{_INFO}NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 2740 mtu 5 GID 3 (0/A)",
        "nccl.queue-pair",
        {"mtu": 5, "gid_index": 3},
    ),
    (
        nccl,
        f"{_INFO}NET/IB: Dev 0 Port 1 qpn 58 mtu 3 GID 3 (0/A10B0A0AFFFF0000)",
        "nccl.queue-pair",
        {"gid_index": 3},
    ),
    (
        nccl,
        f"{_INFO}NET/Socket : Using [0]ibp5s0:<0> [1]ibp70s0:<0>",
        "nccl.socket-interfaces",
        {"names": "ibp5s0,ibp70s0"},
    ),
    (nccl, f"{_INFO}NET/IB : No device found.", "nccl.no-ib", {"reason": "no device"}),
    (nccl, f"{_INFO}Count not open libibverbs.so", "nccl.no-ib", {"reason": "no libibverbs"}),
    (
        nccl,
        "misc/ibvwrap.cu:60 WARN Failed to open libibverbs.so[.1]",
        "nccl.no-ib",
        {"reason": "no libibverbs"},
    ),
    (nccl, f"{_INFO}Failed to initialize NET plugin IB", "nccl.no-ib", {"reason": "not initialized"}),
    (
        nccl,
        f"{_INFO}NET/Socket : Using [0]eth0:192.0.2.3<0> [1]docker0:172.17.0.1<0>",
        "nccl.socket-interfaces",
        {"names": "eth0,docker0", "addresses": "192.0.2.3,172.17.0.1", "count": 2},
    ),
    (
        nccl,
        f"{_INFO}NET/IB : GPU Direct RDMA Disabled for GPU 1b000 / HCA 0 (distance 5 > 4)",
        "nccl.gdr",
        {"enabled": 0, "distance": 5, "limit": 4, "reason": "distance"},
    ),
    (
        nccl,
        f"{_INFO}NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
        "nccl.gdr",
        {"enabled": 0, "reason": "no module"},
    ),
    (
        nccl,
        f"{_INFO}GPU Direct RDMA Enabled for GPU 3 / HCA 1 (distance 4 <= 4), read 1 mode Default",
        "nccl.gdr",
        {"enabled": 1},
    ),
    (nccl, f"{_INFO}DMA-BUF is available on GPU device 0", "nccl.dma-buf", {"gpu": 0}),
    (
        nccl,
        f"{_INFO}2 coll channels, 2 p2p channels, 2 p2p channels per peer",
        "nccl.channels",
        {"coll": 2, "p2p": 2},
    ),
    (
        nccl,
        f"{_INFO}16 coll channels, 16 collnet channels, 8 nvls channels, 32 p2p channels, 4 p2p channels "
        f"per peer",
        "nccl.channels",
        {"coll": 16, "collnet": 16, "nvls": 8, "p2p": 32, "p2p_per_peer": 4},
    ),
    (nccl_transports, f"{_INFO}Channel 00/08 :    0   1   2   3", "nccl.rings", {"channels": 8}),
    (nccl_transports, f"{_INFO}Channel 00/02 : 0 1", "nccl.rings", {"channels": 2}),
    (
        nccl,
        f"{_INFO}ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem 79856",
        "nccl.shared-memory-exceeded",
        {"needed": 82240},
    ),
    (nccl, f"{_INFO}Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1", "nccl.trees", {"channels": 2}),
    (
        nccl,
        f"{_INFO}Connected all rings, use ring PXN 1 GDR 1",
        "nccl.connected",
        {"what": "rings", "pxn": 1, "gdr": 1},
    ),
    (nccl, f"{_INFO}Connected Collnet Chains", "nccl.sharp", {"what": "Collnet Chains"}),
    (nccl, f"{_INFO}NVLS multicast support is not available on dev 1", "nccl.nvls", {"available": 0}),
    (
        nccl,
        f"{_INFO}NVLS multicast support is available on dev 1 (NVLS_NCHANNELS 16)",
        "nccl.nvls",
        {"available": 1, "gpu": 1},
    ),
    (
        nccl,
        f"{_INFO}NVLS comm 0x9f3c20 headRank 3 nHeads 8 buffSize 1048576",
        "nccl.nvls-buffers",
        {"heads": 8},
    ),
    (
        nccl,
        f"{_INFO}MNNVL busId 0x1000 fabric UUID 0.0 cliqueId 0x7ffe state 3 healthMask 0xaa",
        "nccl.mnnvl",
        {"state": 3, "health": "0xaa", "uuid": "0.0"},
    ),
    (
        nccl,
        f"{_INFO}MNNVL 1 cliqueId 7ffe cliqueSize 44 cliqueRank 0",
        "nccl.mnnvl",
        {"enabled": 1, "clique_size": 44},
    ),
    (
        nccl,
        "gpu-7:41:48 [0] INFO comm 0x7f0000 rank 0 nranks 2",
        "nccl.init-start",
        {"rank": 0, "ranks": 2, "comm": ""},
    ),
    (
        nccl,
        f"{_INFO}{_START}nvmlDev 3 busId 18000 - Init COMPLETE",
        "nccl.init-complete",
        {"gpu": 3, "bus": "18000", "comm": ""},
    ),
    (
        nccl,
        f"{_INFO}{_START}nvmlDev 3 busId a0 commId 0x94 - Init START",
        "nccl.init-start",
        {"rank": 3, "comm": "0x94"},
    ),
    (
        nccl,
        f"{_INFO}ncclCommInitRankConfig {_START}nvmlDev 3 busId a0 commId 0x94 - Init START",
        "nccl.init-start",
        {"ranks": 16},
    ),
    (
        nccl,
        f"{_INFO}ncclCommSplit {_START}nvmlDev 3 busId a0 parent 0x55 splitCount 2 color 7 key 1 - Init "
        f"COMPLETE",
        "nccl.init-complete",
        {"parent": "0x55", "comm": "split 2 color 7"},
    ),
    (nccl, f"{_INFO}{_START}busId a0 - Destroy COMPLETE", "nccl.destroyed", {"rank": 3}),
    (
        nccl,
        f"{_INFO}comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "nccl.comm-shape",
        {"ranks": 16, "nodes": 2, "local_ranks": 8, "mnnvl": 0},
    ),
    (
        nccl,
        f"{_INFO}Init timings - ncclCommInitRank: rank 6 nranks 16 total 1.52 (kernels 0.20, alloc 1.02, "
        "bootstrap 0.02, rest 0.00)",
        "nccl.init-timings",
        {"rank": 6, "total_s": 1.52, "alloc_s": 1.02, "bootstrap_s": 0.02},
    ),
    (nccl, f"{_INFO}=== System : maxBw 48.0 totalBw 240.0 ===", "nccl.system", {"max_gbps": 48.0}),
    (
        nccl,
        f"{_INFO}       + NVL[264.0] - NVS/0",
        "nccl.topology",
        {"link": "NVL", "gbps": 264.0, "to": "NVS"},
    ),
    (
        nccl,
        f"{_INFO}Pattern 4, crossNic 0, nChannels 8, bw 40.0/40.0, type NVL/PIX, sameChannels 1",
        "nccl.graph",
        {"channels": 8, "intra": "NVL", "inter": "PIX"},
    ),
    (
        nccl,
        f"{_INFO}AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..15}}",
        "nccl.tuned",
        {"algorithm": "RING"},
    ),
    (
        nccl,
        f"{_INFO}Could not enable P2P between dev 1(=81000) and dev 0(=41000)",
        "nccl.p2p-unavailable",
        {"bus_a": "81000"},
    ),
    (
        nccl,
        f"{_INFO}P2P is disabled between connected GPUs 1 and 0. You can repress",
        "nccl.p2p-disabled",
        {"a": 1, "nvlink": 0},
    ),
    (
        nccl,
        f"{_INFO}P2P is disabled between NVLINK connected GPUs 1 and 0.",
        "nccl.p2p-disabled",
        {"nvlink": 1},
    ),
    (
        nccl,
        f"{_WARN}Detected mixed local Net device counts across ranks (min 7, max 8)",
        "nccl.net-count-mismatch",
        {"least": 7},
    ),
    (
        nccl_transports,
        f"{_INFO}Ring 00 : 2[3d000] -> 3[3e000] via direct shared memory",
        "nccl.channel",
        {"transport": "SHM"},
    ),
    (
        nccl_transports,
        f"{_INFO}Channel 00 : 0[1b000] -> 1[43000] via P2P/IPC comm 0x7f12 nRanks 08",
        "nccl.channel",
        {"how": "IPC"},
    ),
    (
        nccl_transports,
        f"{_INFO}Channel 03 : 2[2] -> 3[3] via SHM/direct/direct",
        "nccl.channel",
        {"transport": "SHM", "how": "direct"},
    ),
    (
        nccl_transports,
        f"{_INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
        "nccl.channel",
        {"network": "IB", "gdr": 1, "side": "receive", "pxn": 0, "from_rank": 8, "to_rank": 0},
    ),
    (
        nccl_transports,
        f"{_INFO}Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/3(5)/Shared",
        "nccl.channel",
        {"gdr": 0, "pxn": 1},
    ),
    (
        nccl_transports,
        f"{_INFO}CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA",
        "nccl.channel",
        {"transport": "COLLNET", "gdr": 1},
    ),
    (nccl_transports, f"{_INFO}Channel 01/0 : 0[0] -> 1[1] via P2P/MNNVL", "nccl.channel", {"how": "MNNVL"}),
]
