"""Transports between ranks in logs of several versions of NCCL."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.parsers.tools.nccl_log import transports


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read", "P2P/CUMEM"),
        ("gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC", "P2P/IPC"),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00 : 0[1b000] -> 1[43000] via P2P/IPC comm 0x7f12 nRanks 08",
            "P2P/IPC",
        ),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/direct pointer/read",
            "P2P/direct pointer",
        ),
        ("gpu-7:41:48 [0] NCCL INFO Channel 01/1 : 0[0] -> 1[1] via P2P/indirect/3[3]", "P2P/indirect"),
        ("gpu-7:41:48 [0] NCCL INFO Channel 03 : 2[2] -> 3[3] via SHM/direct/direct", "SHM/direct"),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            "NET/IB/GDRDMA",
        ),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IB/3(5)/GDRDMA/Shared",
            "NET/IB/GDRDMA",
        ),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/IBext_v8/3/GDRDMA(PCI)",
            "NET/IBext_v8/GDRDMA",
        ),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA",
            "NET/AWS Libfabric/GDRDMA",
        ),
        ("gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0", "NET/Socket"),
        (
            "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via COLLNET/SHARP/0/GDRDMA",
            "COLLNET/SHARP",
        ),
        ("gpu-7:41:48 [0] NCCL INFO Connected NVLS tree", "NVLS"),
        (
            "gpu-7:41:48 [0] NCCL INFO NVLS comm 0x5598478aaae0 headRank 3 nHeads 8 buffSize 4194304 "
            "memSize 2097152",
            "NVLS",
        ),
        (
            "gpu-7:41:48 [0] NCCL INFO NVLS comm 0x9f3c20 headRank 3 nHeads 8 nvlsRanks 8 buffSize 2097152",
            "NVLS",
        ),
    ],
)
def test_the_transport_of_a_line(line, name):
    assert transports(line + "\n") == (name,)


def test_each_transport_is_reported_once_and_possible_ones_are_not():
    log = (
        "via NET/IB/1\nvia P2P/CUMEM\nvia NET/IB/0\nNVLS multicast support is available on dev 0\n"
        "Using network IB\n"
    )
    assert transports(log) == ("NET/IB", "P2P/CUMEM")


@given(st.text(alphabet="via P2NETSHM/IBGDRcomm0123()\n", max_size=200))
def test_any_text_is_read(text):
    assert all(name.count("/") <= 2 for name in transports(text))
