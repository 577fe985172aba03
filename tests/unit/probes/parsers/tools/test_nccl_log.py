"""Logs of NCCL, of several versions, launchers and plugins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.parsers.tools.nccl_log import parse_nccl_log, recognise

HEALTHY = """\
[rank0]: gpu-7:41:41 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.5<0>
 0: gpu-7:41:41 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation
 0: gpu-7:41:41 [0] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v5 symbol.
 0: gpu-7:41:48 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.0.5<0>
 0: gpu-7:41:48 [0] NCCL INFO Using network IB
 0: gpu-7:41:48 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 0.
 0: gpu-7:41:48 [0] NCCL INFO MNNVL 1 cliqueId 7ffe cliqueSize 8 cliqueRank 0 healthMask 0xaa
 0: gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
 0: gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/1/Shared
 0: gpu-7:41:48 [0] NCCL INFO Could not enable P2P between dev 1(=81000) and dev 0(=41000)
 0: gpu-7:41:48 [0] NCCL INFO comm 0x7f0000000000 rank 0 nranks 16 cudaDev 0 busId 18000 - Init COMPLETE
"""


def test_a_healthy_log_has_no_event() -> None:
    assert recognise(HEALTHY)
    assert parse_nccl_log(HEALTHY) == ()


def test_plain_sockets_are_right_where_nothing_faster_is_there() -> None:
    text = """\
gpu-7:41:41 [0] NCCL INFO NET/IB : No device found.
gpu-7:41:41 [0] NCCL INFO NET/Socket : Using [0]ens3:172.31.12.21<0>
"""
    assert parse_nccl_log(text) == ()


@pytest.mark.parametrize(
    ("line", "plugin"),
    [
        ("NCCL INFO P2P plugin IBext_v10", "IBext_v10"),
        ("NCCL INFO NET/OFI Initializing aws-ofi-nccl", "OFI"),
        ("NCCL INFO NET/Plugin: NET/Libfabric loaded", "Libfabric"),
    ],
)
def test_a_plugin_without_a_device_is_named(line: str, plugin: str) -> None:
    lines = (line, "NCCL INFO NET/IB : No device found.", "NCCL INFO Using network Socket")
    (event,) = parse_nccl_log("".join(f"n:1:1 [0] {each}\n" for each in lines))
    assert f"although the plugin for RDMA ({plugin}) is loaded" in event.message


FATAL = {
    "Cuda failure": "gpu-7:41:48 [2] transport/nvls.cc:254 NCCL WARN Cuda failure 1 'invalid argument'",
    "NET/IB: Got": (
        "[2025-01-21 04:41:44] gpu-7:41:48 [2] net_ib.cc:1023 (f) NCCL WARN NET/IB: Got completion "
        "with status=12"
    ),
    "Duplicate": (
        "[1,2]<stdout>:gpu-7:41:48 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0"
    ),
    "Call to connect": (
        "gpu-7:41:48 [0] include/socket.h:360 WARN Call to connect failed : Connection timed out"
    ),
    "Error: failed": (
        "gpu-7:41:48 [0] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-a to 12 bytes"
    ),
    "NET/OFI Couldn't": (
        "WARN: Function: find_ofi_provider Line: 543: NET/OFI Couldn't find any optimal provider"
    ),
    "NCCL error in": (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1727, invalid usage"
    ),
    "Watchdog caught": (
        "[E ProcessGroupNCCL.cpp:563] [Rank 3] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=7)"
    ),
    "Some NCCL operations": (
        "RuntimeError: Some NCCL operations have failed or timed out. Due to the asynchronous nature"
    ),
    "system not yet": "gpu-7: Test CUDA failure common.cu:941 'system not yet initialized'",
    "Caught signal": "gpu-7:41:48 [0] Caught signal 11 (Segmentation fault)",
}
SLOW = {
    "P2P is disabled": (
        "gpu-7:41:48 [0] NCCL INFO P2P is disabled between connected GPUs 1 and 0. You can repress"
    ),
    "NCCL_P2P_DISABLE": "gpu-7:41:48 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.",
    "InfiniBand and RoCE": (
        "gpu-7:41:48 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_bond_0:1/RoCE [RO]; OOB eth0"
    ),
    "NICs do not write": "gpu-7:41:48 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0",
    "Could not enable": (
        "gpu-7:41:48 [0] NCCL INFO Could not enable P2P between dev 1(=200000) and dev 0(=100000)"
    ),
    "the NVLink fabric is degraded": "gpu-7:41:48 [0] NCCL INFO MNNVL 1 cliqueId 7ffe healthMask 0xa9",
    "NCCL uses TCP over the InfiniBand": (
        "gpu-7:41:48 [0] NCCL INFO NET/Socket : Using [0]ibp12s0:10.149.0.32<0>"
    ),
    "NCCL uses TCP over eth0": "gpu-7:41:48 [0] NCCL INFO NET/Socket : Using [0]eth0:10.149.0.32<0>",
    "Could not find": "gpu-7:41:48 [0] graph/xml.cc:12 NCCL WARN Could not find real path of /sys/class",
}


@pytest.mark.parametrize(("beginning", "line"), [*FATAL.items(), *SLOW.items()])
def test_each_problem_is_reported_with_its_line(beginning: str, line: str) -> None:
    text = f"gpu-7:41:41 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.5<0>\n{line}\n{line}\n"
    assert recognise(text)
    (event,) = parse_nccl_log(text)
    assert event.kind == "nccl-warning"
    assert event.fatal is (beginning in FATAL)
    assert event.message.startswith(beginning)
    assert event.line == 2


def test_lines_that_differ_in_numbers_count_as_one() -> None:
    text = "".join(
        f"gpu-7:41:{rank} [{rank}] init.cc:1 NCCL WARN Socket recv failed, op 0x{rank}\n" for rank in range(8)
    )
    (event,) = parse_nccl_log(text)
    assert (event.count, event.line, event.last_line) == (8, 1, 8)


def test_other_texts_are_no_log_of_nccl() -> None:
    assert not recognise("")
    assert not recognise("[    1.234567] NVRM: Xid (PCI:0000:17:00): 13, x\n")
    assert not recognise("#       size         count      type   redop    root     time   algbw   busbw\n")


@pytest.mark.parametrize(
    "words",
    [
        "socketStartConnect: Connect to 192.0.2.2<45763> failed : Software caused connection abort",
        "[Proxy Service 0] Failed to execute operation Connect from rank 0, retcode 2",
        "Failed to CUDA calloc 6291456 bytes",
        "[Rem Allocator] Allocation failed (segment 0, fd 130)",
        "Error while attaching to shared memory segment /dev/shm/nccl-1 (size 192814336), error: No such "
        "file (2)",
        "NET/OFI Couldn't open AV. RC: -22, ERROR: Invalid argument",
        "NET/OFI Creating new endpoint for domain 0x7f9b failed: Invalid argument",
    ],
)
def test_warnings_that_end_a_run_are_fatal(words: str) -> None:
    (event,) = parse_nccl_log(f"[2026-03-13 22:26:02] node7:33:44 [5] file.cc:262 NCCL WARN {words}\n")
    assert event.fatal is True


@given(
    st.text(max_size=200),
    st.sampled_from([*FATAL.values(), *SLOW.values(), *HEALTHY.splitlines()]),
    st.integers(0, 150),
)
def test_any_text_and_any_cut_line_is_read(noise: str, line: str, place: int) -> None:
    recognise(noise)
    assert parse_nccl_log(noise) == () or any(word in noise for word in ("WARN", "failure", "signal", "NCCL"))
    for event in parse_nccl_log(f"{noise}\n{line[:place]}{noise}{line[place:]}"):
        assert event.kind == "nccl-warning"
        assert event.count >= 1
        assert event.message
