"""Test parsers and collectors on recorded outputs of real servers, whose facts INDEX.csv states.

The recordings are outside the project, in the folder that RIGTUNE_SHARED names.
"""

from __future__ import annotations

import re
from collections import Counter

import pytest

from probes.base.record import Reason, Unknown
from probes.collect import gpu as gpu_collector
from probes.collect import infiniband as infiniband_collector
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.collect.topology import collect_topology
from probes.facts import Gpu, Link, Nic
from probes.parsers.fabric.infiniband_files import parse_ibstat
from probes.parsers.nvidia_smi.nvlink_status import NvlinkStatus, parse_nvlink_status
from probes.parsers.nvidia_smi.nvsmi_xml import SmiLog, parse_smi_xml
from probes.parsers.topology.topo_matrix import TopoMatrix, parse_topo_matrix
from probes.sources.base import Source
from probes.sources.loose import open_loose
from tests.support.fake_source import FakeSource
from tests.support.recordings import MACHINES, index, needs_recordings

pytestmark = needs_recordings


def paths(folder: str, name: str = "") -> list[str]:
    return sorted(path for path in index() if path.startswith(f"{folder}/{name}"))


def text_of(path: str) -> str:
    return (MACHINES / path).read_text("utf-8", "replace")


NOT_A_MATRIX = ("p2p", "rocm-smi", "windows-591.86")
CUT = ("truncated", "two-rows", "rows-only", "numa-off", "no-nic-rows", "all-sys-nic")
"""Parts of the names of matrices whose rows do not state some pairs."""


@pytest.mark.parametrize("path", paths("topo_m"))
def test_matrices_have_the_devices_and_pairs_that_the_index_states(path: str) -> None:
    matrix = parse_topo_matrix(text_of(path))
    if any(word in path for word in NOT_A_MATRIX):
        assert isinstance(matrix, Unknown)
        return
    assert isinstance(matrix, TopoMatrix)
    row = index()[path]
    assert len(matrix.gpus) == int(row["n_gpus"])
    if row["n_nics"].split()[0].isdigit() and "not in matrix" not in row["n_nics"]:
        assert len(matrix.devices) - len(matrix.gpus) == int(row["n_nics"].split()[0])
    pairs = len(matrix.devices) * (len(matrix.devices) - 1) // 2
    assert len(matrix.links) == pairs or any(word in path for word in CUT)
    assert not [link for link in matrix.links if isinstance(link.kind, Unknown)]


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split()]


RAILS = {
    "h100-8x-vm-9nic-reversed-rails.txt": ("PIX", numbers("8 7 6 5 4 3 2 1")),
    "h100-8x-12nic-numa-off.txt": ("PIX", numbers("0 1 2 5 6 7 8 11")),
    "h20-8x-8nic-rail-optimized.txt": ("PIX", numbers("0 1 2 3 4 5 6 7")),
    "b300-8x-8bond-cx8-complete.txt": ("PXB", numbers("0 1 2 3 4 5 6 7")),
    "b200-8x-12nic-glued-cpu-affinity-truncated.txt": ("PIX", numbers("0 3 4 5")),
    "b200-8x-16nic-two-rows.txt": ("PXB", numbers("4 7")),
}


@pytest.mark.parametrize("name", RAILS)
def test_the_nic_next_to_each_gpu(name: str) -> None:
    matrix = parse_topo_matrix(text_of(f"topo_m/{name}"))
    assert isinstance(matrix, TopoMatrix)
    kind, nics = RAILS[name]
    near = {
        link.a: link.b
        for link in matrix.links
        if link.kind == kind and link.a.startswith("GPU") and link.b.startswith("NIC")
    }
    assert near == {f"GPU{gpu}": f"NIC{nic}" for gpu, nic in enumerate(nics)}


NVLINKS = {
    "dgx-a100-8x-12mlx5.txt": {12: 28},
    "a800-8x-8bond-vm-complete.txt": {8: 28},
    "h100-8x-nv18-52core.txt": {18: 28},
    "dgx1-p100-8x-4mlx5-glued-header.txt": {1: 16},
    "azure-ndv2-v100-8x.txt": {1: 8, 2: 8},
    "2gpu-nv2-numa-na.txt": {2: 1},
    "gb200-4x-8nic-gpu-numa-id.txt": {18: 6},
    "pcie-8x-all-sys.txt": {},
}


@pytest.mark.parametrize("name", NVLINKS)
def test_nvlinks_between_gpus(name: str) -> None:
    matrix = parse_topo_matrix(text_of(f"topo_m/{name}"))
    assert isinstance(matrix, TopoMatrix)
    assert Counter(link.nvlink_count for link in matrix.links if link.nvlink_count) == NVLINKS[name]


def test_names_of_the_legend() -> None:
    matrix = parse_topo_matrix(text_of("topo_m/1gpu-4nic-caret-escapes.txt"))
    assert isinstance(matrix, TopoMatrix)
    near = {link.b for link in matrix.named_links() if link.a == "GPU0" and link.kind == "NODE"}
    assert near == {"mlx5_7", "mlx5_8"}


@pytest.mark.parametrize("path", paths("topo_m"))
def test_a_pasted_matrix_alone_gives_gpus_and_links(path: str) -> None:
    source = FakeSource(commands={"nvidia-smi topo -m": text_of(path)}, missing=Reason.NOT_RECORDED)
    gpus = gpu_collector.collect(source, CollectOptions())["gpus"]
    links = collect_topology(source, CollectOptions())["links"]
    if any(word in path for word in NOT_A_MATRIX):
        assert isinstance(gpus, Unknown)
        assert isinstance(links, Unknown)
        return
    assert isinstance(gpus, tuple)
    assert isinstance(links, tuple)
    assert [gpu.index for gpu in gpus if isinstance(gpu, Gpu)] == list(range(int(index()[path]["n_gpus"])))
    assert all(isinstance(link, Link) and link.evidence for link in links)


@pytest.mark.parametrize("path", paths("nvsmi_xml"))
def test_xml(path: str) -> None:
    text = text_of(path)
    log = parse_smi_xml(text)
    assert isinstance(log, SmiLog)
    assert log.problem == ""
    assert len(log.gpus) == text.count("<gpu id=")
    named = re.search(r"\d{3}\.\d+(\.\d+)?", index()[path]["what_the_truth_is"])
    assert named is None or log.driver_version == named[0]
    for gpu in log.gpus:
        assert isinstance(gpu.name, str)
        assert gpu.name.removeprefix("NVIDIA ") in index()[path]["gpu"] or "NVIDIA " in gpu.name
        assert isinstance(gpu.pci_bus_id, str)
        assert isinstance(gpu.memory_bytes, int) or "lost" in path
        assert gpu.memory_bytes != 0


def xml_gpus(name: str) -> tuple[Gpu, ...]:
    log = parse_smi_xml(text_of(f"nvsmi_xml/{name}"))
    assert isinstance(log, SmiLog)
    return log.gpus


def test_a_lost_gpu_has_no_values_and_no_zeros() -> None:
    lost = xml_gpus("mock-gb200-lost.xml")[1]
    for value in (
        lost.memory_bytes,
        lost.temperature_c,
        lost.power_w,
        lost.sm_clock_mhz,
        lost.utilization_percent,
        lost.fabric_state,
    ):
        assert isinstance(value, Unknown)
        assert value.reason is Reason.ERROR
        assert "GPU is lost" in value.detail


def test_remapped_rows_that_failed() -> None:
    bad, good = xml_gpus("mock-gb200-ecc-injected.xml")
    assert (bad.row_remap_failed, good.row_remap_failed) == (True, False)


def test_links_narrower_than_possible() -> None:
    for name in ("hw-l40s.xml", "hw-t4.xml", "a10g-telegraf.xml"):
        (gpu,) = xml_gpus(name)
        assert (gpu.pcie.width, gpu.pcie.width_max) == (8, 16)


def test_fabric_of_switched_machines() -> None:
    assert {gpu.fabric_state for gpu in xml_gpus("hw-h100.xml")} == {"completed"}


@pytest.mark.parametrize("path", paths("nvlink", "status-"))
def test_nvlink_status(path: str) -> None:
    status = parse_nvlink_status(text_of(path))
    assert isinstance(status, tuple)
    assert len(status) == int(index()[path]["n_gpus"]) or len(status) == 1
    for gpu in status:
        assert isinstance(gpu, NvlinkStatus)
        expected = ports(index()[path]["what_the_truth_is"], gpu.name)
        assert expected is None or (isinstance(gpu.nvlinks, tuple) and len(gpu.nvlinks) == expected)
        assert expected is not None or isinstance(gpu.nvlinks, Unknown)


def ports(truth: str, name: str) -> int | None:
    """Return the number of ports that the index states; None if unstated, or unreadable for the tool."""
    if "not a fault" in truth or "no NVLink at all" in truth:
        return 0
    stated = re.search(r"(\d+) (?:links )?x [\d.]+|(\d+) NVLinks", truth)
    return int(stated[1] or stated[2]) if stated and "2080" not in name else None


@pytest.mark.parametrize("path", paths("nvlink") + paths("nvsmi_text") + paths("kernel_log") + paths("ib"))
def test_other_outputs_never_raise(path: str) -> None:
    text = text_of(path)
    for parse in (parse_topo_matrix, parse_nvlink_status, parse_smi_xml, parse_ibstat):
        parse(text)


def sysfs_source(path: str) -> Source:
    return open_loose([(path, (MACHINES / path).read_bytes())])


PORTS = {
    "sysfs-a100-8xhdr200-good.json": {("ACTIVE", 200.0): 8},
    "sysfs-a100-2ports-stuck-init.json": {("ACTIVE", 200.0): 6, ("INIT", 200.0): 2},
    "sysfs-a100-rate-edr100-instead-of-hdr200.json": {("ACTIVE", 100.0): 8},
    "sysfs-a100-one-ipoib-down.json": {("ACTIVE", 200.0): 8},
    "sysfs-a100-misbound-interface.json": {("ACTIVE", 200.0): 8},
    "sysfs-hfi1-mlx4-mlx5.json": {("ACTIVE", 100.0): 1, ("ACTIVE", 40.0): 2, ("ACTIVE", 25.0): 1},
    "sysfs-mlx4-qdr-and-i40iw.json": {("ACTIVE", 10.0): 1, ("ACTIVE", 40.0): 2},
    "sysfs-h100-8xndr400-bond0.json": {("ACTIVE", 400.0): 8, ("ACTIVE", 200.0): 1},
}


@pytest.mark.parametrize("name", PORTS)
def test_ports_of_sysfs(name: str) -> None:
    nics = infiniband_collector.collect(sysfs_source(f"ib/{name}"), CollectOptions())["nics"]
    assert isinstance(nics, tuple)
    assert Counter((nic.state, nic.rate_gbps) for nic in nics if isinstance(nic, Nic)) == PORTS[name]


IBSTAT = {
    "ibstat-a100-1eth200-8xhdr200.txt": {("ACTIVE", 200.0): 9},
    "ibstat-a100-8xhdr200-mlx5_8-missing-ibpanic.txt": {("ACTIVE", 200.0): 8},
    "ibstat-a100-vm-8x-hdr100.txt": {("ACTIVE", 100.0): 8},
    "ibstat-h100-3eth-disabled.txt": {("ACTIVE", 400.0): 8, ("DOWN", 40.0): 3, ("ACTIVE", 100.0): 1},
    "ibstat-h100-8xndr400-plus-bond0.txt": {("ACTIVE", 400.0): 8, ("ACTIVE", 200.0): 1},
    "ibstat-h100-roce-1polling-1disabled.txt": {
        ("ACTIVE", 400.0): 6,
        ("ACTIVE", 100.0): 4,
        ("DOWN", 40.0): 2,
    },
    "ibstat-h100-roce-2x400-disabled.txt": {("ACTIVE", 400.0): 6, ("ACTIVE", 100.0): 4, ("DOWN", 40.0): 2},
    "ibstat-h100-roce-8x400-4x100-active.txt": {("ACTIVE", 400.0): 8, ("ACTIVE", 100.0): 4},
}


@pytest.mark.parametrize("name", IBSTAT)
def test_ports_of_ibstat(name: str) -> None:
    nics = [nic for nic in parse_ibstat(text_of(f"ib/{name}")) if isinstance(nic.state, str)]
    assert Counter((nic.state, nic.rate_gbps) for nic in nics) == IBSTAT[name]


def test_a_whole_paste_becomes_facts() -> None:
    commands = {
        "nvidia-smi -q -x": text_of("nvsmi_xml/hw-h100.xml"),
        "nvidia-smi topo -m": text_of("topo_m/h100-8x-vm-9nic-reversed-rails.txt"),
        "ibstat": text_of("ib/ibstat-h100-8xndr400-plus-bond0.txt"),
    }
    facts = assemble(
        "paste", gather(FakeSource(commands=commands, missing=Reason.NOT_RECORDED), CollectOptions())
    )
    assert isinstance(facts.gpus, tuple)
    assert isinstance(facts.links, tuple)
    assert isinstance(facts.nics, tuple)
    assert (len(facts.gpus), len(facts.links), len(facts.nics)) == (8, 136, 9)
    assert facts.software.driver_version == "580.105.08"
    assert facts.software.cuda_driver_version == "13.0"
