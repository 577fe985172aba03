"""Test facts of a run from other lines than NCCL's: ranks by process, first failures, transports between ranks,
and measurements of tools.
"""

from __future__ import annotations

import pytest

from probes.logs.facts import Facts
from probes.logs.gather import SourceReader
from tests.support.log_cases.reading import explained
from tests.support.recordings import MACHINES, needs_recordings


def facts(*texts: str) -> dict[str, object]:
    """Return the facts of a run from some logs."""
    values = Facts()
    for place, text in enumerate(texts):
        reader = SourceReader(f"{place}.log", values.add)
        reader.feed(text.encode())
        reader.end()
    return values.as_dict()


def init(process: tuple[str, int], rank: int, ranks: int, step: str = "START", comm: str = "0xc0") -> str:
    """Return the line of a process that begins or ends its initialisation."""
    host, pid = process
    return (
        f"{host}:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} nranks {ranks} "
        f"cudaDev 0 nvmlDev 0 "
        f"busId {rank}a000 commId {comm} - Init {step}\n"
    )


RETRY = (
    "kit-7:72:99 [1] transport/net_ib.cc:1950 NCCL WARN NET/IB : Got completion from peer 10.9.0.4<52> "
    "with status=12 opcode=0 "
    "len=0 vendor err 129 (Recv)\n"
)


def test_a_failure_has_the_rank_of_its_process() -> None:
    text = init(("kit-7", 72), 5, 16) + init(("kit-7", 72), 1, 4, comm="0xd1") + RETRY
    values = facts(text)["first_failure"]
    assert isinstance(values, dict)
    assert (values["host"], values["rank"]) == ("kit-7", 5)
    first = explained(text).diagnoses[0]
    assert "kit-7, rank 5" in first.summary
    assert first.evidence[0].rank == 5


def test_a_process_with_several_ranks_names_none() -> None:
    text = init(("kit-7", 72), 0, 2) + init(("kit-7", 72), 1, 2) + RETRY
    values = facts(text)["first_failure"]
    assert isinstance(values, dict)
    assert "rank" not in values
    assert "rank" not in explained(text).diagnoses[0].summary


def test_the_first_failure_is_the_earliest_of_all_files() -> None:
    late = (
        "[2026-05-04 10:00:09] kit-1:11:11 [0] include/alloc.h:9 NCCL WARN Cuda failure 2 'out of memory'\n"
    )
    early = (
        "[2026-05-04 09:59:59] kit-2:22:22 [0] include/alloc.h:9 NCCL WARN Cuda failure 2 'out of memory'\n"
    )
    begin = "[2026-05-04 09:59:00] " + init(("kit-1", 11), 0, 2)
    values = facts(begin + late, init(("kit-2", 22), 1, 2) + early)
    first = values["first_failure"]
    assert isinstance(first, dict)
    assert (first["host"], first["rank"], first["source"], first["after_s"]) == ("kit-2", 1, "1.log", 59.0)
    assert values["failed_ranks"] == [1, 0]


def test_hosts_report_how_many_nodes_there_are_once_all_ranks_came() -> None:
    text = "".join(init((f"kit-{rank // 2}", rank + 10), rank, 4, "COMPLETE") for rank in range(4))
    assert {name: facts(text)[name] for name in ("ranks", "nodes", "ranks_per_node")} == {
        "ranks": 4,
        "nodes": 2,
        "ranks_per_node": 2,
    }
    some = "".join(text.splitlines(keepends=True)[:3])
    assert "nodes" not in facts(some)


def test_ways_between_pairs_of_ranks() -> None:
    line = "kit-1:1:1 [{0}] NCCL INFO Channel {2:02d}/0 : {0}[{0}] -> {1}[{1}] via {3}\n"
    text = "".join(
        line.format(a, b, channel, way)
        for a, b, way in ((0, 1, "P2P/CUMEM"), (1, 2, "SHM/direct/direct"), (2, 3, "P2P/CUMEM"))
        for channel in range(2)
    )
    assert facts(text)["pairs"] == {"P2P/CUMEM": ["0>1", "2>3"], "SHM/direct": ["1>2"]}


def test_refused_pairs_and_the_distance_of_adapters() -> None:
    text = (
        "kit-1:1:1 [0] NCCL INFO Could not enable P2P between dev 1(=2a000) and dev 0(=1a000)\n"
        "kit-1:1:1 [1] NCCL INFO Could not enable P2P between dev 0(=1a000) and dev 1(=2a000)\n"
        "kit-1:1:1 [0] NCCL INFO GPU/0-1a000 :GPU/0-1a000 (0/5000.0/LOC) GPU/0-2a000 (2/240.0/NVL) NET/0-0 "
        "(6/12.0/SYS)"
        " NET/0-1 (3/24.0/PIX)\n"
        "kit-1:1:1 [0] NCCL INFO NET/0-0 :GPU/0-1a000 (6/12.0/SYS) CPU/0-1 (2/24.0/PHB)\n"
    )
    values = facts(text)
    assert values["p2p_refused"] == ["0-1"]
    assert values["gpu_to_nic"] == {"PIX": 1}


def test_no_nvls_channels_means_that_it_is_not_used() -> None:
    text = "kit-1:1:1 [0] NCCL INFO 8 coll channels, 8 collnet channels, {} nvls channels, 8 p2p channels\n"
    assert facts(text.format(0))["nvls"] is False
    assert facts(text.format(8))["nvls"] is True


def test_the_average_bandwidth_is_read_without_its_table() -> None:
    assert facts("# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 31.25 \n#\n")["bandwidth"] == {
        "collective": {"busbw_average": 31.25}
    }


@needs_recordings
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "a100-40g-8x-1node-allgather.txt",
            {"ranks": 8, "nodes": 1, "gpus": {"A100-SXM4-40GB": 8}, "busbw_average": 58.2651},
        ),
        ("a100-40g-8x-1node-allreduce.txt", {"ranks": 8, "busbw_average": 68.4048}),
        ("a100-40g-8x-1node-alltoall.txt", {"ranks": 8, "busbw_average": 58.6481}),
        ("a100-40g-8x-1node-broadcast.txt", {"ranks": 8, "busbw_average": 64.8653}),
        ("a100-40g-8x-1node-reduce.txt", {"ranks": 8, "busbw_average": 65.018}),
        ("a100-40g-8x-1node-reducescatter.txt", {"ranks": 8, "busbw_average": 60.168}),
        ("aws-p4d-2node-16gpu-allreduce.txt", {"ranks": 16, "nodes": 2, "busbw_average": 20.2635}),
        (
            "aws-p5-2node-allreduce-excerpt.txt",
            {"ranks": 16, "largest_bytes": 2 << 30, "busbw_of_largest": 437.89},
        ),
        ("dcgm-mock-fail-bw.txt", {"busbw_average": 0.0}),
        ("dcgm-mock-fail-oob.txt", {"wrong_values": 2}),
        ("dcgm-mock-pass.txt", {"gpus": {"NVIDIA Test GPU": 1}}),
        (
            "gcp-a3-high-2node-allgather-tcpx.txt",
            {"ranks": 16, "largest_bytes": 512 << 20, "busbw_of_largest": 71.35},
        ),
        (
            "gcp-a3-mega-2node-allgather.txt",
            {"largest_bytes": 8 << 30, "busbw_of_largest": 188.9, "busbw_average": 53.8932},
        ),
        (
            "h100-4x-2node-ring-after-acs-disabled.txt",
            {"ranks": 8, "busbw_of_largest": 95.1, "busbw_average": 95.3009},
        ),
        ("issue-allreduce-cliff-above-32m.txt", {"ranks": 24, "busbw_of_largest": 5.33, "busbw_best": 29.5}),
    ],
)
def test_measurements_that_the_index_states(path: str, expected: dict[str, object]) -> None:
    values = facts((MACHINES / "nccl_tests" / path).read_text("utf-8"))
    tables = values.get("bandwidth")
    assert isinstance(tables, dict)
    (table,) = tables.values()
    assert {name: values.get(name, table.get(name)) for name in expected} == expected


@needs_recordings
@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("aws-p4d-2node-16gpu-efa-2.16-healthy.log", {"nodes": 2, "ranks_per_node": 8, "nvls": False}),
        (
            "dgx-a100-cannot-disable-ibext.log",
            {"environment": {"NCCL_IBEXT_DISABLE": 1, "NCCL_SOCKET_IFNAME": "en"}},
        ),
        ("duplicate-gpu-horovod.log", {"failed_ranks": [2, 4, 0]}),
        ("gdr-missing-low-busbw-then-fixed.log", {"bandwidth": {"collective": {"busbw_average": 33.3227}}}),
        (
            "h100-16rank-init-complete-then-hang.log",
            {"nvls": False, "plugins_missing": ["net", "tuner"], "channels": 16},
        ),
        ("healthy-topology-paths-h100-pxb.log", {"gpu_to_nic": {"PXB": 2}}),
        ("ib-error12-different-switches-gid.log", {"hosts": 1}),
        ("p2p-could-not-enable-a100-2gpu.log", {"p2p_refused": ["0-1"]}),
        ("p2p-disabled-azure-a100-pcie-vm.log", {"p2p_refused": ["0-1"], "plugins": ["net IBext"]}),
        ("shm-posix-fallocate-no-space.log", {"within_node": {"SHM/direct": 3}}),
        ("socket-wrong-type-stale-process.log", {"gpus": {"NVIDIA A100-SXM4-80GB": 2}}),
        ("vm-flat-topology-no-link-speed.log", {"p2p_refused": ["0-2", "0-3", "1-2"]}),
    ],
)
def test_more_facts_that_the_index_states(path: str, expected: dict[str, object]) -> None:
    values = facts((MACHINES / "nccl_log" / path).read_text("utf-8"))
    assert {name: values.get(name) for name in expected} == expected


def test_how_many_came_to_the_rendezvous() -> None:
    text = "RuntimeError: Timed out after 901 seconds waiting for clients. 6/8 clients joined.\n"
    assert facts(text)["store_joined"] == "6 of 8"
