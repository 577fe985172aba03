"""Test the rows of GPUs that no recording has shown: they are complete, cited and plausible."""

from __future__ import annotations

import re

import pytest

from probes.catalogue.hardware import GpuModel, load_catalogue

CATALOGUE = load_catalogue()
UNCHECKED = [row for row in CATALOGUE.gpus if not row.checked]
each = pytest.mark.parametrize("gpu", UNCHECKED, ids=lambda row: row.id)


@each
def test_a_row_is_complete_and_cited(gpu: GpuModel):
    assert gpu.multiprocessors is not None
    assert gpu.power_limit_w is not None
    assert len(gpu.source) > 30
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", gpu.date)


@each
def test_figures_are_plausible(gpu: GpuModel):
    peaks = gpu.peak_flops_per_s
    assert set(peaks) <= {"fp32", "tf32", "bf16", "fp16", "fp8", "nvfp4", "mxfp4"}
    ordered = [peaks[dtype] for dtype in ("fp32", "tf32", "bf16", "fp8", "nvfp4", "mxfp4") if dtype in peaks]
    assert ordered == sorted(ordered)
    if "fp8" in peaks and gpu.architecture != "gaudi":
        assert peaks["fp8"] / peaks["bf16"] == pytest.approx(2, rel=0.03)
    wide = peaks.get("fp16", peaks["fp32"])
    # FLOP per byte of memory, and per watt: what chips of these years can do.
    assert 5 < wide / gpu.memory_bandwidth_bytes_per_s < 600
    assert 0.02e12 < wide / gpu.power_limit_w < 3e12
    assert 8 * 1024**3 <= gpu.memory_bytes <= 288 * 1024**3
    assert all(peaks[dtype] * 0.3 < rate < peaks[dtype] for dtype, rate in gpu.achievable_flops_per_s.items())


@each
def test_links_are_plausible(gpu: GpuModel):
    assert bool(gpu.nvlink_count) == bool(gpu.nvlink_bandwidth_bytes_per_s)
    assert gpu.nvlink_count * gpu.nvlink_bandwidth_bytes_per_s <= 900e9
    assert (gpu.link_kind == "xgmi") == gpu.architecture.startswith("cdna")


@each
def test_checks_get_no_unchecked_gpu(gpu: GpuModel):
    for name in (gpu.id, gpu.driver_name):
        assert CATALOGUE.gpu(name) == gpu
        assert CATALOGUE.checked_gpu(name) is None
