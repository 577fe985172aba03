"""Test the catalogue's rows: each name matches one row, and the figures are plausible and consistent."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest

import probes
from probes.catalogue.hardware import Catalogue, GpuModel, MachineModel, load_catalogue

CATALOGUE = load_catalogue()
CHECKED = [row for row in CATALOGUE.gpus if row.checked]
SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "machines"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded outputs of RIGTUNE_SHARED")

each_gpu = pytest.mark.parametrize("gpu", CHECKED, ids=lambda row: row.id)
each_machine = pytest.mark.parametrize("machine", CATALOGUE.machines, ids=lambda row: row.id)

DRIVER_NAMES = {
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "Tesla V100-SXM2-32GB": "v100-sxm2-32gb",
    "Tesla V100-SXM2-32GB-LS": "v100-sxm2-32gb",
    "Tesla V100-PCIE-16GB": "v100-pcie-16gb",
    "Tesla T4": "t4",
    "A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100-SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100-SXM4-80GB": "a100-sxm4-80gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A800-SXM4-80GB": "a800-sxm4-80gb",
    "NVIDIA A10": "a10",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H800": "h800-sxm",
    "NVIDIA H20": "h20",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA B200": "b200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB200": "gb200",
    "NVIDIA GB300": "gb300",
    "GeForce RTX 3090": "rtx-3090",
    "NVIDIA GeForce RTX 4090": "rtx-4090",
    "NVIDIA GeForce RTX 5090": "rtx-5090",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtx-pro-6000-server",
}

OTHER_NAMES = [
    "",
    "NVIDIA A10G",
    "NVIDIA A100-SXM4-64GB",
    "NVIDIA T4G",
    "NVIDIA H100",
    "NVIDIA H100 80GB HBM2e",
    "NVIDIA H20-3e",
    "NVIDIA GH200 144G HBM3e",
    "NVIDIA GH200 480GB",
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
    "NVIDIA GB10",
    "Tesla V100-SXM3-32GB",
]


# Published bandwidth of all links of a GPU, both directions together, in GB/s.
NVLINK_TOTALS = {
    "v100-sxm2-16gb": 300,
    "v100-sxm2-32gb": 300,
    "a100-sxm4-40gb": 600,
    "a100-sxm4-80gb": 600,
    "a100-pcie-40gb": 600,
    "a100-pcie-80gb": 600,
    "a800-sxm4-80gb": 400,
    "a800-pcie-80gb": 400,
    "a30": 200,
    "a40": 112.5,
    "h100-sxm": 900,
    "h100-pcie": 600,
    "h100-nvl": 600,
    "h800-sxm": 400,
    "h20": 900,
    "h200-sxm": 900,
    "h200-nvl": 900,
    "b200": 1800,
    "b300": 1800,
    "gb200": 1800,
    "gb300": 1800,
    "rtx-3090": 112.5,
}


def assert_cited(row: GpuModel | MachineModel) -> None:
    """Check that a row names a document or a recording and the month of the reading."""
    assert len(row.source) > 30
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.date)


def _rows_of(name: str) -> list[str]:
    return [row.id for row in CATALOGUE.gpus if Catalogue(gpus=(row,)).gpu(name)]


@pytest.mark.parametrize(("name", "row"), DRIVER_NAMES.items())
def test_a_drivers_name_finds_exactly_its_row(name, row):
    assert _rows_of(name) == [row]
    assert _rows_of(f" {name.lower()} ") == [row]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_a_name_like_it_finds_no_checked_row(name):
    assert CATALOGUE.checked_gpu(name) is None


@each_gpu
def test_each_row_is_found_by_its_id_and_its_own_name_alone(gpu):
    assert gpu.driver_name
    assert _rows_of(gpu.driver_name) == [gpu.id]
    assert _rows_of(gpu.id.upper()) == [gpu.id]


@needs_shared
def test_recorded_names_and_sizes_agree_with_the_rows():
    with (SHARED / "machines" / "gpu-names-memory-driver.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows
    for row in rows:
        gpu = CATALOGUE.gpu(row["name"])
        assert gpu is not None, row["name"]
        assert gpu.memory_bytes == int(row["memory_total"].split()[0]) * 1024**2


@needs_shared
def test_whole_gpus_of_recorded_outputs_have_the_memory_and_power_of_their_rows():
    compared = set()
    for path in sorted((SHARED / "nvsmi_xml").glob("hw-*.xml")):
        text = path.read_text()
        name, memory, power = (
            re.findall(pattern, text)[0]
            for pattern in (
                r"<product_name>(.*?)<",
                r"<fb_memory_usage>\s*<total>(\d+) MiB",
                r"<default_power_limit>([\d.]+) W",
            )
        )
        gpu = CATALOGUE.gpu(name)
        assert gpu is not None, name
        assert gpu.memory_bytes == int(memory) * 1024**2
        assert gpu.power_limit_w in {None, float(power)}
        compared.add(gpu.id)
    assert len(compared) > 5


@each_gpu
def test_figures_are_plausible(gpu: GpuModel):
    assert_cited(gpu)
    assert set(gpu.peak_flops_per_s) <= {"fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4"}
    assert set(gpu.achievable_flops_per_s) <= set(gpu.peak_flops_per_s)
    for dtype, rate in gpu.achievable_flops_per_s.items():
        assert 0.5 * gpu.peak_flops_per_s[dtype] < rate < gpu.peak_flops_per_s[dtype], dtype
    # A sparse or doubled figure would break the order and the ratios of the dense ones.
    ordered = [
        gpu.peak_flops_per_s[dtype]
        for dtype in ("fp32", "tf32", "bf16", "fp8", "nvfp4")
        if dtype in gpu.peak_flops_per_s
    ]
    assert ordered == sorted(ordered)
    assert 5e12 < gpu.peak_flops_per_s["fp32"] < 130e12
    if "fp8" in gpu.peak_flops_per_s:
        assert gpu.peak_flops_per_s["fp8"] / gpu.peak_flops_per_s["bf16"] == pytest.approx(2, rel=0.03)
    if "bf16" in gpu.peak_flops_per_s:
        assert gpu.peak_flops_per_s["bf16"] == gpu.peak_flops_per_s["fp16"]
        assert float(gpu.compute_capability) >= 8.0
    assert 0.2e12 < gpu.memory_bandwidth_bytes_per_s < 10e12
    assert 8 * 1024**3 < gpu.memory_bytes < 300 * 1024**3
    assert gpu.pcie_generation in {3, 4, 5, 6}


@each_gpu
def test_nvlink_figures_are_plausible(gpu: GpuModel):
    total = gpu.nvlink_count * gpu.nvlink_bandwidth_bytes_per_s
    assert bool(gpu.nvlink_count) == bool(gpu.nvlink_bandwidth_bytes_per_s)
    assert gpu.nvlink_count or not gpu.nvlink_bridge
    if gpu.nvlink_count:
        by_architecture = {"volta": 25e9, "ampere": 25e9, "hopper": 25e9, "blackwell": 50e9}
        assert gpu.nvlink_bandwidth_bytes_per_s in {by_architecture[gpu.architecture], 14.0625e9}
        assert total <= 900e9
    if gpu.ring_bus_bandwidth_bytes_per_s is not None:
        assert 0.7 * total < gpu.ring_bus_bandwidth_bytes_per_s < total


def test_nvlinks_add_up_to_the_published_aggregate():
    """Compare both directions of all links with the published total; a GPU without one has no NVLink."""
    totals = {
        row.id: 2 * row.nvlink_count * row.nvlink_bandwidth_bytes_per_s / 1e9
        for row in CHECKED
        if row.nvlink_count
    }
    assert totals == NVLINK_TOTALS


def test_ids_are_unique():
    for rows in (CATALOGUE.gpus, CATALOGUE.machines):
        assert len({row.id for row in rows}) == len(rows)


@each_machine
def test_a_machine_fits_its_gpu_and_itself(machine):
    gpu = CATALOGUE.gpu(machine.gpu)
    assert gpu is not None
    assert_cited(machine)
    assert machine.nvlink_count in {0, gpu.nvlink_count}
    assert not machine.nvswitch or machine.nvlink_count
    assert len(machine.gpu_numa_nodes) in {0, machine.gpu_count}
    assert all(node < machine.numa_nodes for node in machine.gpu_numa_nodes)
    assert machine.sockets * machine.cores_per_socket % machine.numa_nodes == 0
    assert bool(machine.nic_count) == bool(machine.nic_rate_gbps) == bool(machine.nic_type)


def test_files_hold_no_words_about_memory_instead_of_sources():
    folder = Path(probes.__file__).parent / "data"
    for path in (folder / "machines.toml", *sorted((folder / "gpus").glob("*.toml"))):
        assert not re.search(r"from memory|without the .* at hand|were entered", path.read_text("utf-8")), (
            path.name
        )


def test_the_machines_that_users_are_reported_of_are_there():
    expected = {"dgx-h100", "dgx-a100", "hgx-h200", "hgx-b200", "dgx-b200", "l40s-pcie-8", "rtx4090-2"}
    assert expected <= {machine.id for machine in CATALOGUE.machines}
    assert CATALOGUE.machine(" DGX-H100 ") is CATALOGUE.machine("dgx-h100")
    assert CATALOGUE.machine("dgx") is None


def test_rows_looked_for_alone_are_those_of_the_whole_table():
    whole = Catalogue(gpus=CATALOGUE.gpus, machines=CATALOGUE.machines)
    for name in [
        *(name for row in CATALOGUE.gpus for name in (row.id, row.driver_name)),
        "h100 pcie",
        "",
        "x",
    ]:
        assert CATALOGUE.gpu(name) == whole.gpu(name), name
    for device, words in [
        *((device, "") for row in CATALOGUE.gpus for device in row.pci_device_ids),
        *(
            ("10de:", f"NVIDIA Corporation GA100 [{words}] (rev a1)")
            for row in CATALOGUE.gpus
            for words in row.lspci_words
        ),
        ("10de:ffff", "Device"),
        ("", ""),
    ]:
        assert CATALOGUE.gpu_on_bus(device, words) == whole.gpu_on_bus(device, words), (device, words)
    for product in [*(row.dmi.get("product_name", "") for row in CATALOGUE.machines), "DGX", '"']:
        assert CATALOGUE.machines_sold_as(product) == whole.machines_sold_as(product), product


def test_the_vendor_of_a_gpu_is_that_of_its_pci_id_and_its_links():
    vendor_ids = {"10de": "nvidia", "1002": "amd", "1da3": "intel"}
    for gpu in CATALOGUE.gpus:
        assert {vendor_ids[each.partition(":")[0]] for each in gpu.pci_device_ids} <= {gpu.vendor}, gpu.id
        assert gpu.link_kind == {"nvidia": "nvlink", "amd": "xgmi", "intel": "ethernet"}[gpu.vendor], gpu.id
