"""Test that GPU names as published tables write them select the right catalogue rows."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.catalogue.gpu_names import parts_of
from probes.catalogue.hardware import load_catalogue

CATALOGUE = load_catalogue()
SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data"
needs_shared = pytest.mark.skipif(
    not SHARED.is_dir(), reason="needs the published measurements of RIGTUNE_SHARED"
)

NAMES = {
    "A100-SXM-80GB": "a100-sxm4-80gb",
    "A100-SXM4-40GB": "a100-sxm4-40gb",
    "A100SXM4-40GB": "a100-sxm4-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "8xA100-SXM4-80GB": "a100-sxm4-80gb",
    "a100 40 GB": "a100-sxm4-40gb",
    "a100-80": "a100-sxm4-80gb",
    "A100 40": "a100-sxm4-40gb",
    "V100-32": "v100-sxm2-32gb",
    "A100-64GB": "a100-sxm4-64gb",
    "h100": "h100-sxm",
    "H100 80GB HBM3": "h100-sxm",
    "H100-SXM-96GB(HBM2e,500W)": "h100-sxm-96gb-500w",
    "H100 64GB": "h100-sxm-64gb",
    "H100 PCI-E": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "H800-SXM-80GB": "h800-sxm",
    "H20-141GB": "h20-141gb",
    "H200-NVL-141GB": "h200-nvl",
    "GH200-96GB": "gh200-96gb",
    "NVIDIA GH200 144G HBM3e": "gh200-144gb",
    "NVIDIA B300 SXM6 AC": "b300",
    "GB200 NVL72": "gb200",
    "V100-SXM3-32GB": "v100-sxm3-32gb",
    "V100-SXM3-32GB(450W)": "v100-sxm3-32gb-450w",
    "V100": "v100-sxm2-32gb",
    "Tesla V100-SXM2-16GB": "v100-sxm2-16gb",
    "V100 16GB PCIe": "v100-pcie-16gb",
    "P100 (Pascal)": "p100-sxm2-16gb",
    "P100-PCIe-16GB": "p100-pcie-16gb",
    "Tesla T4": "t4",
    "A10G": "a10g",
    "L40-48GB": "l40",
    "L40s": "l40s",
    "QuadroRTX8000": "quadro-rtx-8000",
    "Quadro RTX 6000": "quadro-rtx-6000",
    "RTX6000Ada": "rtx-6000-ada",
    "NVIDIA RTX 6000 Ada Generation": "rtx-6000-ada",
    "NVIDIA RTX A6000": "rtx-a6000",
    "A6000": "rtx-a6000",
    "RTX3090": "rtx-3090",
    "NVIDIA GeForce RTX 3090 Ti": "rtx-3090-ti",
    "RTX-PRO-6000-Blackwell": "rtx-pro-6000-server",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "rtx-pro-6000-max-q",
    "MI250X (GCD)": "mi250x",
    "AMD Instinct MI300X OAM": "mi300x",
    "MI355X": "mi355x",
    "Intel Gaudi 3": "gaudi3",
    "Gaudi2": "gaudi2",
}


@pytest.mark.parametrize(("name", "row"), NAMES.items())
def test_a_name_means_one_gpu(name, row):
    match = CATALOGUE.gpu_named(name)
    assert match is not None
    assert match.id == row
    again = CATALOGUE.gpu_named(f"  {name.upper()} ")
    assert again is not None
    assert again.id == row


@pytest.mark.parametrize(
    "name",
    ["", "TPU v4", "A100-SXM4-80GB MIG 1g.5gb", "RTX 4090 Laptop GPU", "Ascend 910B", "GPU", "80GB", "SXM"],
)
def test_no_row_is_guessed(name):
    assert CATALOGUE.gpu_named(name, 80.0) is None


@pytest.mark.parametrize(
    ("name", "memory_gb", "row"),
    [
        ("A100-SXM", 40.0, "a100-sxm4-40gb"),
        ("A100-SXM", 80.0, "a100-sxm4-80gb"),
        ("A100-PCIe", 40.0, "a100-pcie-40gb"),
        ("H100", 94.0, "h100-sxm-94gb"),
        ("V100", 16.0, "v100-sxm2-16gb"),
        ("RTX 6000", 48.0, "rtx-6000-ada"),
        ("RTX 6000", 24.0, "quadro-rtx-6000"),
        ("A100-SXM-40GB", 80.0, "a100-sxm4-40gb"),
    ],
)
def test_stated_memory_chooses_where_the_name_leaves_it_open(name, memory_gb, row):
    match = CATALOGUE.gpu_named(name, memory_gb)
    assert match is not None
    assert match.id == row


@pytest.mark.parametrize("gpu", CATALOGUE.gpus, ids=lambda row: row.id)
def test_the_drivers_name_and_the_title_lead_back_to_the_row(gpu):
    for name in (gpu.driver_name, gpu.title):
        if not re.search(
            r"one of|^HL-|-LS$|Leonardo|MareNostrum|480GB|-32GB-H$|NVIDIA H100$|H20-3e|PG5|A800 40GB Active",
            name,
        ):
            match = CATALOGUE.gpu_named(name, gpu.memory_bytes / 1024**3)
            assert match is not None, name
            assert match.id == gpu.id, name


@given(st.text(max_size=300))
def test_any_text_is_parts_of(text):
    said = parts_of(text)
    assert re.fullmatch(r"[a-z0-9.]*", said.model)
    CATALOGUE.gpu_named(text)


@given(
    st.sampled_from(["a100", "h100", "v100", "a800", "h800"]),
    st.sampled_from(["", "SXM", "PCIe"]),
    st.sampled_from([None, 16, 32, 40, 64, 80, 94]),
    st.permutations(range(3)),
)
def test_order_and_punctuation_do_not_matter(model, form, memory, order):
    words = [model, form, f"{memory}GB" if memory else ""]
    expected = CATALOGUE.gpu_named(" ".join(words))
    assert CATALOGUE.gpu_named("_".join(words[index] for index in order).replace("_", " / ")) == expected
    assert expected is not None


@needs_shared
def test_every_gpu_of_the_published_runs_is_known():
    unknown = set()
    for name in ("training_open", "collectives_open"):
        with (SHARED / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            unknown |= {
                row["gpu"]
                for row in csv.DictReader(file)
                if row["gpu"] and CATALOGUE.gpu_named(row["gpu"]) is None
            }
    assert {name for name in unknown if "not printed" not in name} == set()
