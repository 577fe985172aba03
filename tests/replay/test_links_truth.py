"""Test links, switches and tools' results of recorded servers against the statements of INDEX.csv.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names. A truth is one fact or one
fault that the index states; `-s` prints how many rigtune reports.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from probes.base.record import known
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.text_kinds import KINDS
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence, Finding, Status
from probes.judging.policies.selection import missing
from probes.sources.loose import open_loose
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings

FOLDERS = ("topo_m", "nvlink", "dcgm", "nvbandwidth", "nccl_tests", "perftest")
GROUPS = frozenset({"fabric", "tools", "pcie", "logs", "input"})
"""Groups of checks that can judge such texts."""

Truth = Callable[[MachineFacts], bool]

EXPECTED_KINDS = {
    "topo_m": {"topology"},
    "nvlink": {"nvlink"},
    "dcgm": {"dcgm-diagnostic"},
    "nvbandwidth": {"nvbandwidth"},
    "nccl_tests": {"nccl-tests"},
    "perftest": {"perftest"},
}
KINDS_BY_NAME = {
    "amd-rocm": {"rocm-topology"},
    "p2p-": {"peer-access"},
    "dcgmi-nvlink": {"dcgm-nvlink"},
    "errors-": {"nvlink-errors"},
    "fabricmanager-": {"fabric-manager-log"},
    "cuda-memory": {"cuda-bandwidth"},
    "superbench": {"cuda-bandwidth"},
    "fi_rma": {"fabtests"},
    "gpcnet": {"gpcnet"},
}
"""Kinds of text by the beginning of the file's name; some tables of nccl-tests also contain NCCL's log."""


@functools.cache
def recorded() -> dict[str, dict[str, str]]:
    return {path: row for path, row in index().items() if row["kind"] in FOLDERS}


@functools.cache
def facts_of(path: str) -> MachineFacts:
    source = open_loose([(Path(path).name, (MACHINES / path).read_bytes())])
    return assemble(source.title, list(gather(source, CollectOptions(ask_interpreters=False))))


@functools.cache
def problems(path: str) -> tuple[Finding, ...]:
    evidence = Evidence(facts=facts_of(path), catalogue=load_catalogue())
    rows = [row for row in CHECKS if row.group in GROUPS and missing(row.needs, evidence) is None]
    findings = [finding for row in rows for finding in row.run(evidence)]
    return tuple(finding for finding in findings if finding.status in (Status.WARN, Status.FAIL))


def bandwidth(test: str, subject: str, gb_per_s: float) -> Truth:
    """Return a test of facts: a measured rate differs by at most 0.5 % from the rate in the index."""

    def holds(facts: MachineFacts) -> bool:
        results = facts.tool_results if known(facts.tool_results) else ()
        values = [
            r.value for r in results if r.test == test and r.subject == subject and isinstance(r.value, float)
        ]
        return any(abs(value / 1e9 - gb_per_s) <= 0.005 * gb_per_s for value in values)

    return holds


def latency(test: str, subject: str, us: float) -> Truth:
    """Return a test of facts: the latency of the smallest message is the stated latency."""

    def holds(facts: MachineFacts) -> bool:
        results = facts.tool_results if known(facts.tool_results) else ()
        mine = [r for r in results if r.test == test and r.subject == subject and isinstance(r.value, float)]
        smallest = min(mine, key=lambda result: result.size_bytes or 0)
        return isinstance(smallest.value, float) and abs(smallest.value * 1e6 - us) < 0.005

    return holds


def pairs(kind: str, count: int, links: int | None = None) -> Truth:
    """Return a test of facts: this number of pairs of GPUs is connected in this way."""

    def holds(facts: MachineFacts) -> bool:
        known_links = facts.links if known(facts.links) else ()
        mine = [link for link in known_links if link.a.startswith("GPU") and link.b.startswith("GPU")]
        return sum(link.kind == kind and link.nvlink_count == links for link in mine) == count

    return holds


def near(*wanted: tuple[str, str, str]) -> Truth:
    """Return a test of facts: the links of these pairs of devices have the stated kinds."""

    def holds(facts: MachineFacts) -> bool:
        known_links = facts.links if known(facts.links) else ()
        kinds = {frozenset((link.a, link.b)): link.kind for link in known_links}
        return all(kinds.get(frozenset((a, b))) == kind for a, b, kind in wanted)

    return holds


def gpus(count: int) -> Truth:
    return lambda facts: known(facts.gpus) and len(facts.gpus) == count


def named(name: str) -> Truth:
    return lambda facts: known(facts.gpus) and all(gpu.name == name for gpu in facts.gpus)


def ports(count: int, *, up: int | None = None, rate: float | None = None) -> Truth:
    """Return a test of facts: each GPU has `count` NVLink ports, `up` of them up, with `rate` in GB/s."""

    def holds(facts: MachineFacts) -> bool:
        listed = [gpu.nvlinks for gpu in facts.gpus] if known(facts.gpus) else []
        if not listed or not all(isinstance(links, tuple) and len(links) == count for links in listed):
            return False
        alive = [sum(link.active is True for link in links) for links in listed if isinstance(links, tuple)]
        rates = {link.bandwidth_bytes_per_s for links in listed if isinstance(links, tuple) for link in links}
        return alive == [count if up is None else up] * len(alive) and (rate is None or rates == {rate * 1e9})

    return holds


def no_link_errors(count: int) -> Truth:
    """Return a test of facts: there are `count` links in all, and all their error counters are 0."""

    def holds(facts: MachineFacts) -> bool:
        links = (
            [link for gpu in facts.gpus if known(gpu.nvlinks) for link in gpu.nvlinks]
            if known(facts.gpus)
            else []
        )
        return len(links) == count and all(
            (link.replay_errors, link.recovery_errors, link.crc_errors) == (0, 0, 0) for link in links
        )

    return holds


def passed(*tests: str) -> Truth:
    def holds(facts: MachineFacts) -> bool:
        known_diagnoses = facts.diagnoses if known(facts.diagnoses) else ()
        good = {diagnosis.test.lower() for diagnosis in known_diagnoses if diagnosis.result == "PASS"}
        return set(tests) <= good and all(diagnosis.result == "PASS" for diagnosis in known_diagnoses)

    return holds


def average(gb_per_s: float) -> Truth:
    return bandwidth("average", "host", gb_per_s)


def peer_status(status: str, count: int) -> Truth:
    return lambda facts: (
        known(facts.peer_access) and [pair.status for pair in facts.peer_access] == [status] * count
    )


def switch_errors(code: int, *devices: str) -> Truth:
    def holds(facts: MachineFacts) -> bool:
        known_events = facts.events if known(facts.events) else ()
        return {event.device for event in known_events if event.code == code} == set(devices)

    return holds


A100, H100, RTX2080 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 2080 SUPER"

TRUTHS: dict[str, tuple[Truth, ...]] = {
    "dcgm/dcgmi-diag-r2-p4de-nvlinks-expected.txt": (passed("pcie", "gpu memory"), gpus(8)),
    "dcgm/dcgmi-diag-r4-a100-all-pass.txt": (
        passed("blacklist", "targeted stress", "memory bandwidth", "pulse test"),
    ),
    "dcgm/dcgmi-diag-thermal-violation-fragment.txt": (gpus(8),),
    "nvlink/dcgmi-nvlink-e-gpu0-link0.txt": (no_link_errors(1),),
    "nvlink/dcgmi-nvlink-s-a100-8x-all-up.txt": (gpus(8), ports(12)),
    "nvlink/dcgmi-nvlink-s-a100-8x-one-down-two-disabled.txt": (gpus(8),),
    "nvlink/errors-a100-vm-8x-hdr100-all-zero.txt": (gpus(8), no_link_errors(96)),
    "nvlink/errors-h100-all-zero-excerpt.txt": (no_link_errors(3), named(H100)),
    "nvlink/errors-v100-2gpu-crc-saturated.txt": (named("Tesla V100-SXM2-32GB-LS"),),
    "nvlink/fabricmanager-h100-multicast-then-12028.log": (switch_errors(12028, "0000:86:00"),),
    "nvlink/fabricmanager-h100-nvswitch-nonfatal-12028.log": (
        switch_errors(12028, "0000:83:00", "0000:84:00", "0000:85:00", "0000:86:00"),
        lambda facts: known(facts.pci_devices) and sum(d.kind == "nvswitch" for d in facts.pci_devices) == 4,
        lambda facts: facts.software.fabric_manager_version == "535.161.08",
        gpus(8),
    ),
    "nvlink/status-a100-8x-sxm4-all-25gbs.txt": (gpus(8), ports(12, rate=25), named(A100)),
    "nvlink/status-a100-gpu7-good.txt": (ports(12, rate=25), named(A100)),
    "nvlink/status-gb200-gpu0-mock.txt": (ports(18, rate=53.125), named("NVIDIA GB200")),
    "nvlink/status-h100-sxm-vm-590.48.01.txt": (ports(18, rate=26.562), named(H100)),
    "nvlink/status-h200-sxm-vm-590.48.01.txt": (ports(18, rate=26.562), named("NVIDIA H200")),
    "nvlink/status-l40s-vm-595.80.txt": (ports(0), named("NVIDIA L40S")),
    "nvlink/status-p4de-gpu0.txt": (ports(12, rate=25), named(A100)),
    "nvlink/status-rtx2080super-linux-595.71.05.txt": (ports(1, up=0), named(RTX2080)),
    "nvlink/status-rtx4080super-linux-595.71.05.txt": (ports(0),),
    "nvbandwidth/a100-8x-d2d-write-ce.txt": (
        bandwidth("device_to_device_memcpy_write_ce", "GPU0-GPU1", 276),
        gpus(8),
    ),
    "nvbandwidth/a100-8x-h2d-bidir-ce.txt": (
        bandwidth("host_to_device_bidirectional_memcpy_ce", "GPU1", 18.4),
    ),
    "nvbandwidth/a100-8x-h2d-ce.txt": (bandwidth("host_to_device_memcpy_ce", "GPU0", 26),),
    "nvbandwidth/cuda-memory-h2d-bw.txt": (
        bandwidth("H2D-Pinned", "GPU0", 12.4),
        named("Tesla V100-PCIE-32GB"),
    ),
    "nvbandwidth/cuda-memory-d2h-bw.txt": (bandwidth("D2H-Pinned", "GPU0", 13.2),),
    "nvbandwidth/gh200-1gpu-v0.6.txt": (
        bandwidth("host_to_device_memcpy_ce", "GPU0", 370),
        bandwidth("device_to_host_memcpy_ce", "GPU0", 295),
        named("NVIDIA GH200 480GB"),
    ),
    "nvbandwidth/nvbandwidth-json-mixed-with-warnings.txt": (
        bandwidth("host_to_device_memcpy_ce", "GPU0", 12.4),
    ),
    "nvbandwidth/superbench-gpu-copy-a100.txt": (
        bandwidth("cpu_to_gpu_by_dma", "GPU0", 26.2),
        bandwidth("gpu_to_gpu_write_by_dma", "GPU0-GPU1", 279),
        bandwidth("gpu_to_gpu_write_by_sm", "GPU0-GPU1", 258),
    ),
    "nccl_tests/a100-40g-8x-1node-allgather.txt": (average(58.2651), gpus(8), named("A100-SXM4-40GB")),
    "nccl_tests/a100-40g-8x-1node-allreduce.txt": (average(68.4048), bandwidth("all_reduce", "host", 235.26)),
    "nccl_tests/a100-40g-8x-1node-alltoall.txt": (average(58.6481),),
    "nccl_tests/a100-40g-8x-1node-broadcast.txt": (average(64.8653),),
    "nccl_tests/a100-40g-8x-1node-reduce.txt": (average(65.018),),
    "nccl_tests/a100-40g-8x-1node-reducescatter.txt": (average(60.168),),
    "nccl_tests/aws-p5-2node-allreduce-excerpt.txt": (
        bandwidth("all_reduce", "host", 437.79),
        lambda facts: known(facts.tool_results) and {r.ranks for r in facts.tool_results if r.ranks} == {16},
    ),
    "nccl_tests/gcp-a3-high-2node-allgather-tcpx.txt": (bandwidth("all_gather or alltoall", "host", 71),),
    "nccl_tests/gcp-a3-mega-2node-allgather.txt": (
        bandwidth("all_gather or alltoall", "host", 188),
        average(53.9),
    ),
    "nccl_tests/h100-4x-2node-ring-after-acs-disabled.txt": (
        bandwidth("all_reduce", "host", 95),
        lambda facts: known(facts.tool_results) and {r.ranks for r in facts.tool_results if r.ranks} == {8},
    ),
    "nccl_tests/issue-allreduce-cliff-above-32m.txt": (
        bandwidth("all_reduce", "host", 29.5),
        lambda facts: known(facts.tool_results) and {r.ranks for r in facts.tool_results if r.ranks} == {24},
    ),
    "topo_m/2gpu-nv1-16core.txt": (pairs("NVLINK", 1, 1),),
    "topo_m/2gpu-nv2-numa-na.txt": (pairs("NVLINK", 1, 2),),
    "topo_m/2gpu-phb-numa-na.txt": (pairs("PHB", 1),),
    "topo_m/4gpu-phb-all-48core.txt": (pairs("PHB", 6),),
    "topo_m/a100-8x-nv12-24core.txt": (pairs("NVLINK", 28, 12), gpus(8)),
    "topo_m/amd-rocm-smi-showtopotype-8x-xgmi.txt": (pairs("NVLINK", 28),),
    "topo_m/b300-8x-8bond-cx8-complete.txt": (
        near(("GPU0", "mlx5_bond_0", "PXB"), ("GPU7", "mlx5_bond_7", "PXB")),
    ),
    "topo_m/dgx-a100-8x-12mlx5.txt": (
        pairs("NVLINK", 28, 12),
        near(("GPU0", "mlx5_0", "PXB"), ("GPU5", "mlx5_7", "PXB"), ("GPU3", "mlx5_10", "SYS")),
    ),
    "topo_m/dgx1-p100-8x-4mlx5-glued-header.txt": (
        pairs("NVLINK", 16, 1),
        pairs("SYS", 12),
        near(("GPU0", "mlx5_0", "PIX"), ("GPU6", "mlx5_3", "PIX")),
    ),
    "topo_m/gb200-4x-8nic-gpu-numa-id.txt": (pairs("NVLINK", 6, 18), gpus(4)),
    "topo_m/h100-4x-nv4-3nic-cgroup.txt": (pairs("NVLINK", 6, 4),),
    "topo_m/h100-8x-nv18-52core.txt": (pairs("NVLINK", 28, 18),),
    "topo_m/h20-8x-8nic-rail-optimized.txt": (near(("GPU0", "mlx5_1", "PIX"), ("GPU7", "mlx5_8", "PIX")),),
    "topo_m/p2p-p-8x-ok.txt": (peer_status("OK", 56), gpus(8)),
    "topo_m/p2p-r-h100-8x-ok.txt": (peer_status("OK", 56), gpus(8)),
    "topo_m/p2p-r-l4-2x-cns.txt": (peer_status("CNS", 2), gpus(2)),
    "topo_m/p2p-rw-rtx5090-2x-gns.txt": (peer_status("GNS", 2), gpus(2)),
    "topo_m/pcie-8x-all-sys.txt": (pairs("SYS", 28),),
    "topo_m/rtx4090-8x-sys-2nic-phb-gpu6.txt": (pairs("SYS", 28),),
    "topo_m/rtx5090-2x-phb.txt": (pairs("PHB", 1),),
    "topo_m/v100-pcie-2x-sys-odd-even.txt": (pairs("SYS", 1),),
    "perftest/fi_rma_bw-aws-p5-efa-cuda-write.txt": (bandwidth("fabtests", "host", 11.8439),),
    "perftest/gpcnet-network-test.txt": (
        lambda facts: known(facts.tool_results) and len(facts.tool_results) == 8,
    ),
    "perftest/ib_write_bw-loopback-8M.txt": (bandwidth("ib_write_bw", "ib0", 25.225),),
    "perftest/ib_write_bw-loopback-all-sizes.txt": (bandwidth("ib_write_bw", "ib0", 24.37),),
    "perftest/ib_write_lat-hdr200-2node-all-sizes.txt": (latency("ib_write_lat", "mlx5_0", 1.87),),
}

FAULTS = {
    "dcgm/dcgmi-diag-r3-a100-pcie-xid79-summary.txt": {"dcgm-diagnosis host"},
    "dcgm/dcgmi-diag-thermal-violation-fragment.txt": {"dcgm-diagnosis GPU0"},
    "nccl_tests/dcgm-mock-fail-bw.txt": {"collective-bandwidth host", "tool-complaints host"},
    "nccl_tests/dcgm-mock-fail-oob.txt": {"collective-results host"},
    "nccl_tests/issue-allreduce-cliff-above-32m.txt": {"collective-bandwidth host"},
    "nvbandwidth/nvbandwidth-json-mixed-with-warnings.txt": {"tool-complaints host"},
    "nvlink/dcgmi-nvlink-s-a100-8x-one-down-two-disabled.txt": {"nvlink-active GPU5"},
    "nvlink/errors-v100-2gpu-crc-saturated.txt": {"nvlink-errors GPU0", "nvlink-errors GPU2"},
    "nvlink/fabricmanager-error-lines.txt": {
        "nvswitch-faults host",
        "nvswitch-faults 0000:47:00",
        "nvswitch-faults 0000:86:00",
    },
    "nvlink/fabricmanager-h100-multicast-then-12028.log": {"nvswitch-faults 0000:86:00"},
    "nvlink/fabricmanager-h100-nvswitch-nonfatal-12028.log": {
        "nvswitch-faults 0000:83:00, 0000:84:00, 0000:85:00, 0000:86:00",
    },
    "nvlink/status-a100-gpu6-all-links-inactive.txt": {"nvlink-active GPU6"},
    "perftest/gpcnet-network-test-one-node-error.txt": {"tool-complaints host"},
    "topo_m/h100-8x-12nic-numa-off.txt": {"numa-hidden host"},
    "topo_m/p2p-r-l4-2x-cns.txt": {"peer-access GPU0-1"},
    "topo_m/p2p-rw-rtx5090-2x-gns.txt": {"peer-access GPU0-1"},
    "topo_m/pcie-8x-all-sys.txt": {"peer-access GPU0-7"},
    "topo_m/rtx2080super-windows-591.86.txt": {"input-readable host"},
}


@pytest.mark.parametrize("path", recorded())
def test_each_file_is_of_its_kind(path: str) -> None:
    folder, _, name = path.partition("/")
    text = (MACHINES / path).read_bytes().decode("utf-8", "replace").replace("\r\n", "\n")
    wanted = next(
        (kinds for prefix, kinds in KINDS_BY_NAME.items() if name.startswith(prefix)), EXPECTED_KINDS[folder]
    )
    recognised_kinds = {row.id for row in KINDS if row.recognise(text)}
    assert wanted <= recognised_kinds
    assert recognised_kinds - wanted <= ({"nccl-log"} if folder == "nccl_tests" else set())


@pytest.mark.parametrize("path", [path for path, row in recorded().items() if row["state"] == "healthy"])
def test_healthy_ones_do_not_fail(path: str) -> None:
    assert [
        f"{finding.check_id} {finding.subject}" for finding in problems(path) if finding.status is Status.FAIL
    ] == []


@pytest.mark.parametrize("path", [path for path, row in recorded().items() if row["state"] == "fault"])
def test_each_fault_is_found_by_its_check(path: str) -> None:
    assert FAULTS[path] <= {f"{finding.check_id} {finding.subject}" for finding in problems(path)}


@pytest.mark.parametrize("path", TRUTHS)
def test_facts_agree_with_the_index(path: str) -> None:
    assert [number for number, truth in enumerate(TRUTHS[path]) if not truth(facts_of(path))] == []


def test_score() -> None:
    """Print the numbers of files, stated truths and reported truths; all stated truths must be reported."""
    files, stated, met = defaultdict(int), defaultdict(int), defaultdict(int)
    for path, row in recorded().items():
        folder = row["kind"]
        files[folder] += 1
        said = {f"{finding.check_id} {finding.subject}" for finding in problems(path)}
        truths = [truth(facts_of(path)) for truth in TRUTHS.get(path, ())] + [
            fault in said for fault in FAULTS.get(path, ())
        ]
        if row["state"] == "healthy":
            truths.append(not any(finding.status is Status.FAIL for finding in problems(path)))
        stated[folder] += len(truths)
        met[folder] += sum(truths)
    print(f"\n{'kind':<12} {'files':>5} {'truths':>6} {'found':>5}")  # noqa: T201 - the score
    for folder in FOLDERS:
        print(f"{folder:<12} {files[folder]:>5} {stated[folder]:>6} {met[folder]:>5}")  # noqa: T201 - likewise
    assert dict(met) == dict(stated)
