"""Test that healthy lines about the network between nodes accuse nothing."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained

_INFO = "gpu-a:310:402 [1] NCCL INFO "
_PEER = "gpu-b:512:608 [1] NCCL INFO "


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(
            (
                f"{_INFO}NET/Socket : Using [0]ib0:10.4.1.1<0>",
                f"{_INFO}NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:10.4.1.1<0>",
                f"{_INFO}Ring 00 : 7 -> 0 [receive] via NET/IB/0/GDRDMA",
                f"{_PEER}NET/Socket : Using [0]ib0:10.4.1.2<0>",
            ),
            id="sockets-of-2.4-are-for-the-bootstrap",
        ),
        pytest.param(
            (
                f"{_INFO}Using network Socket",
                f"{_INFO}bootstrapSplit: comm 0x7f5d parent 0x5622 rank 0 nranks 4 color 11 key 0 prev 3 "
                f"next 1 - DONE",
                f"{_INFO}comm 0x7f5d rank 0 nranks 4 cudaDev 0 nvmlDev 0 busId 9a000 commId 0xdf33 - Init "
                f"START",
            ),
            id="communicator-within-a-node",
        ),
        pytest.param(
            (
                f"{_INFO}NET/Plugin : dlerror=librccl-net.so: cannot open shared object file: No such file "
                f"or directory "
                "No plugin found (librccl-net.so), using internal implementation",
                f"{_INFO}NET/Socket : Using [0]eth0:10.4.0.1<0>",
                f"{_INFO}comm 0x7f5d rank 0 nranks 4 cudaDev 0 busId 9a000 commId 0xdf33 - Init START",
            ),
            id="rccl-without-a-plugin",
        ),
        pytest.param(
            (
                "libibverbs: Warning: couldn't load driver 'libsiw-rdmav34.so': libsiw-rdmav34.so: cannot "
                "open shared object",
                f"{_INFO}NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.4.0.1<0>",
                f"{_INFO}Using network IB",
            ),
            id="driver-of-another-card",
        ),
        pytest.param(
            (
                f"[pod/trainer-launcher/main] {_INFO}Bootstrap : Using eth0:10.4.0.1<0>",
                f"[pod/trainer-launcher/main] {_PEER}Bootstrap : Using eth0:10.4.0.2<0>",
                f"[pod/trainer-launcher/main] {_INFO}Using network IB",
            ),
            id="two-hosts-through-one-pod",
        ),
        pytest.param(
            (
                f"{_INFO}NCCL_IB_HCA set by environment to mlx5_ib",
                f"{_INFO}NET/IB : Using [0]mlx5_ib0:1/IB [1]mlx5_ib1:1/IB [RO]; OOB eth0:10.4.0.1<0>",
                f"{_INFO}Using network IB",
            ),
            id="prefix-that-is-meant",
        ),
        pytest.param(
            (
                f"{_INFO}Bootstrap : Using br-ex:10.4.0.1<0>",
                f"{_PEER}Bootstrap : Using br-ex:10.4.0.2<0>",
                f"{_INFO}NET/IB : Using [0]mlx5_0:1/RoCE [RO]; OOB br-ex:10.4.0.1<0>",
            ),
            id="bridge-that-holds-the-host's-own-port",
        ),
        pytest.param(
            (
                f"{_INFO}Bootstrap : Using lo:10.4.0.1<0>",
                f"{_PEER}Bootstrap : Using lo:10.4.0.2<0>",
                f"{_INFO}Using network IB",
            ),
            id="routed-address-on-loopback",
        ),
        pytest.param(
            (
                f"{_INFO}Bootstrap : Using tailscale0:100.64.0.1<0>",
                f"{_PEER}Bootstrap : Using tailscale0:100.64.0.2<0>",
                f"{_INFO}Connected all rings",
                f"{_PEER}Connected all rings",
            ),
            id="tunnel-that-works",
        ),
        pytest.param(
            (
                f"{_INFO}Bootstrap : Using eth0:10.4.0.1<0>",
                "gpu-a:511:402 [1] NCCL INFO Bootstrap : Using eth0:10.4.0.2<0>",
                f"{_INFO}Connected all rings",
            ),
            id="one-name-for-two-machines-that-work",
        ),
        pytest.param(
            (
                f"{_INFO}Using network IB",
                f"{_PEER}Using network IB",
                "gpu-a:911:902 [1] NCCL INFO Using network Socket",
                "gpu-b:911:902 [1] NCCL INFO Using network Socket",
            ),
            id="two-runs-over-different-networks",
        ),
        pytest.param(
            (
                f"{_INFO}Bootstrap : Using ib0:10.4.0.1<0>",
                f"{_INFO}NET/IB : No device found.",
                f"{_INFO}NET/Socket : Using [0]ib0:10.4.0.1<0>",
                f"{_INFO}Using network Socket",
                f"{_INFO}comm 0x7f5d rank 0 nRanks 8 nNodes 1 localRanks 8 localRank 0 MNNVL 0",
            ),
            id="within-a-node-no-network-is-needed",
        ),
        pytest.param(
            (
                f"{_INFO}NCCL_NET set by environment to Socket.",
                f"{_INFO}NET/Socket : Using [0]ib0:10.4.0.1<0>",
                f"{_INFO}Using network Socket",
                f"{_PEER}Using network Socket",
            ),
            id="sockets-that-are-asked-for",
        ),
        pytest.param(
            (
                f"{_INFO}Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0",
                f"{_INFO}Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct",
                f"{_INFO}Connected all rings",
            ),
            id="gpus-without-peer-to-peer",
        ),
        pytest.param(
            (
                f"{_INFO}Could not find real path of /sys/class/net/eth0/device",
                f"{_INFO}include/net.h:19 -> 2",
                f"{_INFO}comm 0x7fef94002590 rank 0 nranks 16 cudaDev 0 nvmlDev 5 - Init COMPLETE",
            ),
            id="a-call-that-nccl-does-without",
        ),
        pytest.param(
            (f"{_INFO}NCCL version 2.27.6+cuda13.0", f"{_PEER}NCCL version 2.2"), id="cut-within-a-version"
        ),
        pytest.param(
            (f"{_INFO}NET/Plugin : dlerror=libnccl-net.so: cannot open sha",),
            id="cut-within-a-missing-plugin",
        ),
        pytest.param(
            (
                f"{_INFO}P2P plugin IBext_v8",
                f"{_INFO}NET/IB : No device found.",
                f"{_INFO}NET/Socket : Using [0]eth0:10.4.0.1<0>",
                f"{_INFO}Using network Socket",
                f"{_INFO}Channel 00/0 : 0[0] -> 1[1] via P2P/IPC/read",
                f"{_INFO}comm 0x7fdcec rank 0 nranks 2 cudaDev 0 busId 10000 - Init COMPLETE",
            ),
            id="the-plugin-of-an-image-on-a-machine-without-rdma",
        ),
        pytest.param(
            (
                "Call to ibv_set_ece failed with error Operation not supported errno 95",
                f"{_INFO}Using network IB",
            ),
            id="ece-is-not-needed",
        ),
    ],
)
def test_healthy_lines_about_the_network_are_no_fault(lines):
    assert not any(each.is_fault for each in explained("\n".join(lines) + "\n").diagnoses)
