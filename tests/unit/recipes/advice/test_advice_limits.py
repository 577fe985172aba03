"""Sizes and limits of advice, at the limit and beside it."""

from __future__ import annotations

import pytest

from probes.base.record import NOT_RECORDED
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import GpuLimits, MachineFacts, NumaNode, Software
from recipes.advice.hardware_plan import planned_hardware
from recipes.advice.installation import advise_installation
from tests.support.advice_cases import NODE, NUMA, advised, changed, ids, with_memory
from tests.support.machines import with_gpus, with_part
from tests.unit.recipes.advice.test_installation import TODAY, UBUNTU


@pytest.mark.parametrize(
    ("gib", "flag"),
    [
        (2048, "16g"),  # 8 GiB for loaders, and 1 GiB for each of eight GPUs
        (32, "16g"),
        (31, "15872m"),  # at most half of the memory
        (20, "10g"),
        (1, "512m"),
        (0.0625, "64m"),
    ],
)
def test_shared_memory_is_at_most_half_of_the_memory(gib: float, flag: str):
    lines = advised("container", with_memory(int(gib * GIB))).lines
    texts = "".join(line.text + line.fact for line in lines)
    documents = "".join(each.text for each in advised("container", with_memory(int(gib * GIB))).documents)
    assert f"--shm-size={flag}" in documents + texts


def _of_gpu(now: object, **limits: object) -> MachineFacts:
    facts = with_gpus(NODE, 3, temperature_c=now, limits=GpuLimits(**limits))
    for index in (0, 1, 2, 4, 5, 6, 7):
        facts = with_gpus(facts, index, limits=GpuLimits(temperature_margin_c=40.0))
    return facts


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (_of_gpu(60.0, temperature_margin_c=5.0), "temperature-good"),
        (_of_gpu(60.0, temperature_margin_c=4.9), "temperature-high"),
        (_of_gpu(70.0, temperature_margin_c=0.0), "temperature-high"),
        (_of_gpu(69.9, temperature_margin_c=0.0), "temperature-unknown"),  # a known error of the driver
        (_of_gpu(NOT_RECORDED, temperature_margin_c=0.0), "temperature-high"),
        (_of_gpu(80.0, temperature_slowdown_c=87.0), "temperature-good"),
        (_of_gpu(80.0, temperature_slowdown_c=85.0), "temperature-good"),
        (_of_gpu(80.0, temperature_slowdown_c=84.0), "temperature-high"),
        (_of_gpu(80.0, temperature_slowdown_c=0.0), "temperature-unknown"),
        (_of_gpu(NOT_RECORDED, temperature_slowdown_c=87.0), "temperature-unknown"),
        (_of_gpu(80.0), "temperature-unknown"),
    ],
)
def test_a_gpu_near_its_limit_needs_better_cooling(facts: MachineFacts, line: str):
    assert {each for each in ids("hardware", facts) if each.startswith("temperature")} == {line}


@pytest.mark.parametrize(
    ("reasons", "words"),
    [((), "none"), (("gpu_idle",), "gpu_idle"), (("gpu_idle", "app_clocks"), "app_clocks")],
)
def test_other_reasons_for_lower_clocks_are_named(reasons: tuple[str, ...], words: str):
    facts = NODE
    for index in range(8):
        facts = with_gpus(facts, index, throttle_reasons=reasons)
    (line,) = (each for each in advised("hardware", facts).lines if each.id == "not-throttled")
    assert words in line.text + line.fact


@pytest.mark.parametrize(
    ("version", "state", "is_kept"),
    [("580.95.05", "active", True), ("580.95.04", "active", False), ("580.95.05", "inactive", False)],
)
def test_the_fabric_manager_stays_if_it_runs_in_the_drivers_version(version: str, state: str, is_kept: bool):
    software = Software(
        operating_system=UBUNTU,
        driver_version="580.95.05",
        fabric_manager=state,
        fabric_manager_version=version,
    )
    model = load_catalogue().gpu("h100-sxm")
    steps = advise_installation(
        MachineFacts(software=software), planned_hardware(model, 8), today=TODAY
    ).steps
    assert any(step.title == "Fabric Manager: keep it" for step in steps) is is_kept


def test_a_fabric_manager_of_unknown_version_is_not_said_to_fit():
    software = Software(operating_system=UBUNTU, fabric_manager="active")
    model = load_catalogue().gpu("h100-sxm")
    steps = advise_installation(
        MachineFacts(software=software), planned_hardware(model, 8), today=TODAY
    ).steps
    assert "Fabric Manager: keep it" not in [step.title for step in steps]


def test_the_newest_toolkit_that_the_driver_allows_is_chosen():
    model = load_catalogue().gpu("h100-sxm")
    steps = advise_installation(
        MachineFacts(software=Software(operating_system=UBUNTU)), planned_hardware(model, 8), today=TODAY
    ).steps
    assert [step.title for step in steps if "toolkit 1" in step.title] == [
        "CUDA toolkit 13.0, only to compile extensions"  # branch 580 is that of CUDA 13.0
    ]


@pytest.mark.parametrize(
    ("cpus", "threads", "reserved"),
    [
        ("0-1,64-65", 2, "0,64"),
        ("0-3,8-11,16-19", 3, "0,8,16"),
        ("0-7", 1, "0"),
        ("0,64", 2, None),  # one core, which jobs need
        ("0", 1, None),
        ("0-3", 2, None),  # the list does not show which CPUs share a core
        ("0-2,64-65", 2, None),
        ("0-1,64,66", 2, None),
    ],
)
def test_the_first_core_of_each_node_is_reserved(cpus: str, threads: int, reserved: str | None):
    facts = with_part(NUMA, "cpu", threads_per_core=threads)
    nodes = (NumaNode(index=0, cpus=cpus, memory_bytes=64 * GIB),)
    lines = {line.id: line for line in advised("kubelet", changed(facts, numa_nodes=nodes)).lines}
    assert ("reserved-cpus" in lines) is (reserved is not None)
    assert ("reserved-unknown" in lines) is (reserved is None)
    if reserved is not None:
        assert f"the kubelet: {reserved}." in lines["reserved-cpus"].text
