"""Test the numbers behind advice: each figure changes an answer, and the tables of parts are consistent."""

from __future__ import annotations

import functools
from typing import Any
from unittest.mock import patch

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.base.rows import load_rows
from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import Cpu, GpuLimits
from recipes.advice import machine_parts
from recipes.advice.machine_parts import Processor, load_figures, processor_of
from recipes.machine.mig_profiles import MigModel, divisions, load_mig_models, memory_of
from tests.support.advice_cases import (
    CASES,
    NODE,
    NUMA,
    ROCE,
    advised,
    changed,
    of_model,
    parts,
    with_memory,
)
from tests.support.machines import with_gpus, with_part

QUESTIONS: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("hardware", NODE, {}),
    ("hardware", with_memory(1000 * GIB), {}),
    ("hardware", with_part(NODE, "cpu", physical_cores=50), {}),
    ("hardware", with_gpus(NODE, limits=GpuLimits(temperature_margin_c=7)), {}),
    ("hardware", parts(cpu="EPYC 9654", network="4x200G RoCE"), {"supplies_w": 2200.0}),
    ("container", NODE, {}),
    ("container", with_memory(20 * GIB), {}),
    ("kubelet", NUMA, {}),
    ("network", ROCE, {}),
    ("mig", of_model("NVIDIA B200"), {"need_gib": 25.0}),
)


def answers() -> list[Any]:
    """Return the lines and texts of representative questions."""
    return [
        msgspec.to_builtins(advised(subject, facts, **question))  # type: ignore[arg-type]
        for subject, facts, question in QUESTIONS
    ] + [kubelet_of_many_nodes()]


def kubelet_of_many_nodes() -> Any:
    return msgspec.to_builtins(advised("kubelet", CASES["kubelet"]["many-nodes"][0].facts))


@functools.cache
def present() -> list[Any]:
    return answers()


@pytest.mark.parametrize("name", load_figures())
def test_twice_a_figure_gives_other_advice(name: str) -> None:
    before, row = present(), load_figures()[name]
    twice = msgspec.structs.replace(row, value=2 * row.value)
    with patch.dict(load_figures(), {name: twice}):
        assert answers() != before, "no question depends on the figure: add one"
    assert all((row.source, row.date, row.unit, row.meaning))


PROCESSORS = load_rows("recipes", "processors", Processor, file="advice/processors")
MODELS = [
    ("AMD EPYC 7742 64-Core Processor", 225, 128, 160),
    ("AMD EPYC 7763 64-Core Processor", 280, 128, 160),
    ("AMD EPYC 9654 96-Core Processor", 360, 128, 160),
    ("AMD EPYC 9575F 64-Core Processor", 400, 128, 160),
    ("Intel(R) Xeon(R) Platinum 8280 CPU @ 2.70GHz", 205, 48, 96),
    ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", 270, 64, 128),
    ("Intel(R) Xeon(R) Platinum 8480C", 350, 80, 160),
    ("INTEL(R) XEON(R) PLATINUM 8570", 350, 80, 160),
    ("Intel(R) Xeon(R) Gold 6448Y", 225, 80, 160),
    ("AMD Ryzen Threadripper PRO 3975WX 32-Cores", 280, 128, 128),
    ("AMD Ryzen 9 7950X 16-Core Processor", 170, 24, 24),
]


@pytest.mark.parametrize(("model", "power_w", "lanes", "of_two"), MODELS)
def test_processors_are_known_by_the_names_of_the_kernel(
    model: str, power_w: float, lanes: int, of_two: int
) -> None:
    family = processor_of(model)
    assert family is not None
    assert (family[1], family[0].lanes, family[0].lanes_of_two) == (power_w, lanes, of_two)


SUMS_W = (1615, 2450, 3150, 2460, 850, 1640, 3925, 1680, 340)
"""Sum of the powers of each family of processors; a wrong figure in the table changes the sum."""


@pytest.mark.parametrize(("row", "power_w"), list(zip(PROCESSORS, SUMS_W, strict=True)))
def test_figures_of_a_family(row: Processor, power_w: float) -> None:
    assert sum(row.power_w.values()) == power_w
    assert row.generation in {3, 4, 5}
    assert row.source
    assert row.date


@pytest.mark.parametrize(
    "model",
    [
        "Intel(R) Xeon(R) 6530P",
        "AMD EPYC 7R13 Processor",
        "Neoverse-V2",
        "AMD EPYC 7V13 64-Core Processor",
        "",
    ],
)
def test_processors_without_a_published_power_stay_unknown(model: str) -> None:
    family = processor_of(model)
    assert family is None or family[1] is None


def test_every_family_of_processors_has_a_model() -> None:
    named = {processor_of(model)[0].name for model, *_ in MODELS}  # type: ignore[index]
    assert named == {row.name for row in PROCESSORS}


@pytest.mark.parametrize(
    ("model", "estimate"),
    [
        ("NVIDIA B200", "14.56 kW"),  # the datasheet of the DGX B200 names 14.3 kW
        ("NVIDIA H100 80GB HBM3", "10.19 kW"),
        ("NVIDIA GB200", ""),
        ("NVIDIA H100 NVL", ""),
    ],
)
def test_modules_of_a_board_need_the_power_of_a_whole_machine(model: str, estimate: str) -> None:
    limit = 1000.0 if "200" in model else 700.0
    node = of_model(model, power_limit_w=limit)
    node = with_part(with_part(node, "power", supply_capacity_w=NOT_RECORDED), "cpu", model="Neoverse-V2")
    lines = {line.id: line.text for line in advised("hardware", node).lines}
    assert ("supplies-unknown" in lines) == bool(estimate)
    assert estimate in lines.get("supplies-unknown", "")


def test_power_of_processors_counts_sockets() -> None:
    node = with_part(of_model("NVIDIA L40S", power_limit_w=350.0), "power", supply_capacity_w=5000.0)
    words = {
        sockets: next(
            line.fact
            for line in advised("hardware", changed(node, cpu=Cpu(model="EPYC 9654", sockets=sockets))).lines
            if line.id.startswith("supplies")
        )
        for sockets in (1, 2)
    }
    assert "processors 0.36 kW" in words[1]
    assert "processors 0.72 kW" in words[2]


@pytest.mark.parametrize("model", load_mig_models(), ids=lambda model: model.ids[0])
def test_profiles_belong_to_the_catalogue_and_get_larger(model: MigModel) -> None:
    rows = [load_catalogue().gpu(each) for each in model.ids]
    assert all(row is not None for row in rows)
    for row in rows:
        assert row is not None
        sizes = [memory_of(profile, model, row).size_bytes for profile in model.profiles]
        assert sizes == sorted(sizes)
        whole = model.profiles[-1]
        assert (whole.slices, whole.count) == (model.slices, 1)
        for profile, size in zip(model.profiles, sizes, strict=True):
            assert profile.slices * profile.count <= model.slices
            assert size * profile.count <= row.memory_bytes * 1.02
            nominal = float(profile.name.partition(".")[2].removesuffix("gb")) * 1e9
            # The name states gigabytes; the driver's size may be that many binary gigabytes, 7.4 % more.
            assert 0.93 * nominal <= size <= 1.075 * nominal, profile.name


@pytest.mark.parametrize("model", load_mig_models(), ids=lambda model: model.ids[0])
def test_instances_have_whole_slices_of_the_memory(model: MigModel) -> None:
    for count, computing, eighths in divisions(model):
        assert eighths in (1, 2, 4)
        # An instance has as many slices of the memory as of the multiprocessors, or a little more.
        assert computing / model.slices <= 8 / 7 * eighths / 8
        assert count == min(model.slices // computing, 8 // eighths)


def test_figures_of_lines_come_from_rows() -> None:
    assert machine_parts.figure("board_power_factor") == load_figures()["board_power_factor"].value
