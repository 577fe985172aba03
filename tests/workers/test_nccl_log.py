"""Test the path from NCCL's log file to the application's reading of the answer, without torch."""

from __future__ import annotations

from probes.parsers.tools.nccl_log import transports
from probes.workers.rigtune_worker.transport_log import transport_lines

LOG = """\
gpu-7:41:41 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-7:41:41 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu-7:41:41 [0] NCCL INFO Using network Socket
gpu-7:41:41 [0] NCCL INFO NVLS comm 0x5598478aaae0 headRank 0 nHeads 8 nvlsRanks 8 buffSize 4194304
gpu-7:41:41 [0] NCCL INFO Channel 00/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA
"""


def test_each_transport_of_the_own_process_is_listed_once(tmp_path):
    (tmp_path / "nccl-debug.gpu-7.41").write_text(LOG)
    (tmp_path / "nccl-debug.gpu-7.42").write_text("via SHM/direct\n")
    logged = transport_lines(str(tmp_path / "nccl-debug.%h.%p"), 41)
    assert [line.split(" headRank")[0] for line in logged.splitlines()] == [
        "via P2P/CUMEM/read",
        "NVLS comm 0x5598478aaae0",
        "via NET/IB/0/GDRDMA",
    ]
    assert transports(logged) == ("NET/IB/GDRDMA", "NVLS", "P2P/CUMEM")


def test_a_missing_log_has_no_transport_lines(tmp_path):
    assert transport_lines("", 41) == ""
    assert transport_lines(str(tmp_path / "nccl-debug.%h.%p"), 41) == ""
