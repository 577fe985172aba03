"""Test lines of NCCL, RCCL and their plugins about faults, and the cause of each."""

from __future__ import annotations

import pytest

from probes.logs.diagnosis import Explanation
from probes.logs.reading import Reading

_INFO = "n1:100:200 [0] NCCL INFO "
_PEER = "n2:100:200 [0] NCCL INFO "
_WARN = "n1:100:200 [0] net.cc:1 NCCL WARN "
_DATED = "[2026-01-02 03:04:05] n1:100:200 [0] transport/net_ib/p2p.cc:648 NCCL WARN "

_FAULTS = [
    pytest.param((f"{_WARN}Call to ibv_create_cq failed",), "memlock", id="old-create-cq"),
    pytest.param(
        (f"{_WARN}hipIpcGetMemHandle failed : invalid argument",), "p2p-broken gpu-isolation", id="ipc"
    ),
    pytest.param(
        (
            f"{_WARN}Your program may be hanging, this may be caused by a collective mismatch around rank "
            f"1. Please check",
        ),
        "collective-mismatch",
        id="mismatch-around-a-rank",
    ),
    pytest.param(
        (
            f"{_DATED}NET/IB: Got completion from peer 10.1.1.3<40554> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_RECV_RDMA_WITH_IMM(129) vendor_err=129 localGid ::ffff:1.1.2.2 "
            "remoteGids::ffff:1.1.1.4 "
            "hca mlx5_1",
            f"{_DATED}HINT: check that the peer is reachable",
            f"{_INFO}transport/net.cc:1227 -> 6",
        ),
        "ib-retry-exceeded",
        id="retry228-hint",
    ),
    pytest.param(
        (
            f"{_WARN}NET/IB : Got completion from peer 10.1.1.3<40554> with error 5, opcode 0, len 0, "
            f"vendor err 249 (Recv)",
        ),
        "peer-died",
        id="flush-only",
    ),
    pytest.param(
        (
            f"{_WARN}NET/IB: Got completion from peer 10.1.1.3<40554> with status=10 opcode=0 len=0 vendor "
            f"err 136 "
            "(Send) hca mlx5_3",
        ),
        "ib-remote-access",
        id="remote-access",
    ),
    pytest.param(
        (
            f"{_WARN}NET/IB: Got completion from peer 10.1.1.3<40554> with status=4 opcode=0 len=0 vendor "
            f"err 51 "
            "(Send) hca mlx5_3",
        ),
        "ib-local-protection",
        id="prot-4-no-vendor",
    ),
    pytest.param(
        (
            f"{_WARN}Call to ibv_modify_qp failed with 61 No data available, on dev rocep1s0f0:1, curr "
            f"state INIT, "
            "next state RTR, local GID index 3, local GID ::, remote GID ::",
        ),
        "ib-gid",
        id="modify-qp-empty-gid",
    ),
    pytest.param(
        (
            f"{_WARN}Call to ibv_modify_qp failed with error Invalid argument",
            f"{_INFO}transport/net_ib.cc:500 -> 2",
        ),
        "ib-modify-qp ib-gid",
        id="modify-qp-invalid",
    ),
    pytest.param(
        (
            f"{_WARN}Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr "
            f"state INIT, "
            "next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.1.2",
        ),
        "ib-modify-qp peer-unreachable",
        id="modify-qp-timeout",
    ),
    pytest.param(
        (
            f"{_INFO}Bootstrap : Using lo:127.0.0.1<0>",
            f"{_PEER}Bootstrap : Using lo:127.0.0.1<0>",
            f"{_WARN}Call to connect returned Connection refused, retrying",
            "n2:100:200 [0] misc/socket.cc:1 NCCL WARN Connect to 127.0.0.1<45763> failed : Connection "
            "refused",
        ),
        "wrong-interface hostname-loopback",
        id="lo-bootstrap",
    ),
    pytest.param(
        (
            f"{_INFO}Bootstrap : Using docker0:172.17.0.1<0>",
            f"{_INFO}NET/Socket : Using [0]docker0:172.17.0.1<0>",
            f"{_WARN}socketStartConnect: Connect to 172.17.0.1<45763> failed : Connection refused",
        ),
        "wrong-interface",
        id="docker-iface",
    ),
    pytest.param(
        (
            f"{_INFO}NCCL_SOCKET_IFNAME set by environment to ib9",
            f"{_WARN}Bootstrap : no socket interface found",
            f"{_INFO}init.cc:82 -> 3",
        ),
        "interface-not-found",
        id="no-iface",
    ),
    pytest.param(
        (
            f"{_WARN}Bootstrap : no socket interface found",
            f"{_INFO}init.cc:82 -> 3",
        ),
        "no-interface",
        id="no-iface-plain",
    ),
    pytest.param(
        (
            f"{_WARN}socketPollConnect: Connect to 10.0.0.3<40861> returned 113(No route to host) errno 11"
            f"(Resource "
            "temporarily unavailable)",
        ),
        "peer-unreachable",
        id="no-route",
    ),
    pytest.param(
        (
            f"{_WARN}Error: network AWS Libfabric not found.",
            f"{_INFO}init.cc:82 -> 5",
        ),
        "plugin-failed",
        id="net-not-found",
    ),
    pytest.param(
        (
            f"{_INFO}NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            f"{_INFO}Using network IB",
            f"{_INFO}NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'",
            f"{_INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
            f"{_INFO}comm 0x1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 18000 commId 0x2 - Init COMPLETE",
        ),
        "gdr-off-driver",
        id="gdr-disabled",
    ),
    pytest.param(
        (
            f"{_INFO}Using network IB",
            f"{_INFO}GPU Direct RDMA Disabled for GPU 0 / HCA 0 (distance 8 > 5), read 0 mode Default",
            f"{_INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
        ),
        "gdr-off-distance",
        id="gdr-distance",
    ),
    pytest.param(
        (
            f"{_WARN}Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory",
            f"{_INFO}transport/net_ib.cc:1 -> 2",
        ),
        "memlock",
        id="memlock",
    ),
    pytest.param(
        (f"{_WARN}Call to ibv_create_cq failed with error Cannot allocate memory errno 12",),
        "memlock",
        id="memlock-cq",
    ),
    pytest.param(
        (f"{_WARN}Call to ibv_reg_mr failed with error Bad address",),
        "memory-registration-failed",
        id="reg-bad",
    ),
    pytest.param(
        (
            f"{_WARN}MNNVL (cliqueSize 72) is available but not working on this system. Check the IMEX "
            f"channel configuration",
            f"{_WARN}Cuda failure 800 'operation not permitted'",
        ),
        "imex",
        id="imex",
    ),
    pytest.param(
        (
            f"{_WARN}Message truncated : received 256 bytes instead of 128",
            f"{_INFO}transport/net_socket.cc:9 -> 5",
        ),
        "collective-mismatch",
        id="trunc",
    ),
    pytest.param(
        (f"{_WARN}Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703",),
        "nccl-version-mismatch",
        id="version-mm",
    ),
    pytest.param(
        (
            f"{_INFO}P2P is disabled between NVLINK connected GPUs 1 and 0. This should not be the case "
            f"given their "
            "connectivity, and is probably due to a hardware issue.",
            f"{_INFO}Channel 00 : 0[0] -> 1[1] via SHM/direct/direct",
        ),
        "gpu-isolation fabric-manager nvlink-hardware",
        id="p2p-nvlink",
    ),
    pytest.param(
        (
            f"{_WARN}Cuda failure 2 'out of memory'",
            f"{_INFO}init.cc:33 -> 1",
        ),
        "gpu-oom",
        id="oom-cuda",
    ),
    pytest.param(
        (
            f"{_WARN}Failed to CUDA calloc 6291456 bytes",
            f"{_INFO}init.cc:33 -> 1",
        ),
        "gpu-oom",
        id="oom-calloc",
    ),
    pytest.param(
        (f"{_WARN}Cuda failure 802 'system not yet initialized'",),
        "fabric-manager",
        id="802",
    ),
    pytest.param(
        (
            "n1:1:2 [0] transport/nvls.cc:379 (nvlsAllocateMem) NCCL WARN Failed to bind NVLink SHARP (NVLS) "
            "Multicast memory of size 2097152 : CUDA error 401 'the operation cannot be performed in the "
            "present "
            "state'",
        ),
        "nvls-bind",
        id="401",
    ),
    pytest.param(
        (
            f"{_INFO}NET/Plugin: Loaded net plugin Libfabric (v9)",
            f"{_WARN}NET/OFI Couldn't find any optimal provider",
            f"{_WARN}NET/OFI Initializing plugin failed",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}NET/Socket : Using [0]eth0:10.0.4.51<0>",
            f"{_INFO}Using network Socket",
            f"{_INFO}comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        ),
        "plugin-failed rdma-device-missing",
        id="rdma-fallback-ofi",
    ),
    pytest.param(
        (
            f"{_INFO}NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libfabric.so.1: cannot open "
            f"shared object "
            "file: No such file or directory",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "plugin-failed",
        id="libfabric-missing",
    ),
    pytest.param(
        (
            f"{_INFO}NET/Plugin: libnccl-net.so: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not "
            f"found "
            "(required by libnccl-net.so)",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "plugin-failed library-conflict",
        id="glibc",
    ),
    pytest.param(
        (
            "n1:1:2 [0] int cm_req_handle_error_entry(nccl_net_ofi_context_t*, fid_cq*):46 NCCL WARN "
            "NET/OFI Request "
            "0x7f completed with error. RC: 103. Error: 4126 (Unresponsive receiver "
            "(reachable by EFA device but "
            "handshake failed) My EFA addr: x). Completed length: 0",
        ),
        "efa-security-group peer-died",
        id="efa-unresp",
    ),
    pytest.param(
        (
            f"{_WARN}Bootstrap Root : mismatch in info from procs, nranks 16 vs 16, nroots 1 vs 1, iroot 0 "
            f"vs 0, "
            "offset -340262910 vs 0",
        ),
        "nccl-version-mismatch stale-process",
        id="root-mismatch",
    ),
    pytest.param(
        (f"{_WARN}Bootstrap Root : rank 3 of 16 ranks has already checked in",),
        "stale-process rendezvous-mismatch",
        id="twice",
    ),
    pytest.param(
        (
            "n1:1:2 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_1:1 Got non-fatal async event: "
            "port error(10)",
            "n1:1:2 [0] transport/net_ib.cc:253 NCCL WARN NET/IB : mlx5_1:1 Got non-fatal async event: "
            "port active(9)",
        ),
        "ib-port-flapping",
        id="async-port",
    ),
    pytest.param(
        (
            "n1:1:2 [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_3:1 async fatal event on QP "
            "(0x732d): local "
            "access violation work queue error",
        ),
        "ib-local-protection ib-device-fatal ib-remote-access acs-enabled",
        id="async-qp",
    ),
    pytest.param(
        (
            "n1:1:2 [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_3:1 async fatal event: device "
            "fatal error",
        ),
        "ib-device-fatal",
        id="async-dev",
    ),
    pytest.param(
        (
            f"{_WARN}socketProgress: Connection closed by remote peer n2<51234>",
            f"{_INFO}misc/socket.cc:58 -> 6",
        ),
        "peer-died",
        id="closed",
    ),
    pytest.param(
        (
            f"{_INFO}cuMem host allocations do not appear to be working; falling back to a /dev/shm/ "
            f"implementation. "
            "This could be due to the container runtime disabling NUMA support.",
        ),
        "cumem-host",
        id="cumem",
    ),
    pytest.param(
        (
            f"{_WARN}Error : no algorithm/protocol available for function AllGather with datatype "
            f"ncclInt8. NCCL_ALGO "
            "was set to Tree.",
        ),
        "algo-unavailable",
        id="algo",
    ),
    pytest.param(
        (
            "n1: Test NCCL failure common.cu:392 'unhandled cuda error'",
            f"{_WARN}HIP failure 'out of memory'",
        ),
        "gpu-oom",
        id="hip",
    ),
    pytest.param(
        (
            f"{_WARN}NET/IB : Attempted to connect incompatible devices: local mlx5_0:1/IB remote RoCE. "
            f"Try selecting "
            "NICs of only one link type using NCCL_IB_HCA",
        ),
        "wrong-hca-selected",
        id="mixed-link",
    ),
    pytest.param(
        (
            f"{_WARN}XML Import Topology: could not open /etc/topo.xml",
            f"{_WARN}Could not open XML topology file /etc/topo.xml : No such file or directory",
        ),
        "topology-file-invalid healthy",
        id="xml",
    ),
    pytest.param(
        (
            "n1:1:2 [0] misc/ibvwrap.cc:100 NCCL WARN Call to ibv_open_device failed",
            "n1:1:2 [0] transport/net_ib.cc:200 NCCL WARN NET/IB : Unable to open device mlx5_0",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "rdma-device-missing",
        id="ibv_open",
    ),
    pytest.param(
        (
            f"{_WARN}NET/GPUDirectTCPX : failed to connect to rxdm at /run/tcpx: Connection refused",
            f"{_INFO}NET/IB : No device found.",
            f"{_INFO}Using network Socket",
        ),
        "plugin-failed",
        id="tcpx",
    ),
    pytest.param(
        (
            f"{_INFO}Failed to initialize NET plugin IB",
            f"{_WARN}Failed to initialize any NET plugin",
            f"{_INFO}init.cc:1 -> 3",
        ),
        "plugin-failed no-interface",
        id="any-plugin",
    ),
    pytest.param(
        (f"{_WARN}socketFinalizeAccept: wrong magic 1a2b != 3c4d",),
        "stale-process",
        id="wrong-magic",
    ),
    pytest.param(
        (
            f"{_WARN}Multiple Ranks are using the same GPU/Partition. Set NCCL_MULTI_RANK_GPU_ENABLE=1 to "
            f"allow this.",
        ),
        "duplicate-gpu",
        id="dup230",
    ),
]


def _explained(text: str) -> Explanation:
    reading = Reading()
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    return reading.explanation()


@pytest.mark.parametrize(("lines", "causes"), _FAULTS)
def test_the_cause_of_a_failure(lines, causes):
    explanation = _explained("".join(f"{line}\n" for line in lines))
    assert explanation.diagnoses[0].cause_id in causes.split(), [
        each.cause_id for each in explanation.diagnoses
    ]
