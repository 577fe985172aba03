"""Test which cards and machine layouts the rows recognise, and which devices are accelerators."""

from __future__ import annotations

import pytest

from probes.base.record import NOT_RECORDED, Unknown
from probes.catalogue.accelerators import accelerator_nodes, accelerator_title
from probes.catalogue.gpu_names import form_distance, parts_of, size_distance, with_unit
from probes.catalogue.nic_models import Layout, NicModels, Place, load_nic_models
from probes.facts import Interface
from tests.support.machines import h100_node, ndr_port

ADDRESSES = tuple(f"0000:{number:02x}:00.0" for number in range(8))
LAYOUT = Layout(
    id="board",
    title="Board",
    rate_gbps=400.0,
    rails=tuple(Place(address=address, device="mlx5") for address in ADDRESSES),
    interfaces=("eno1", "eno2"),
    source="test",
    date="2026-11",
)
BARE = Layout(id="bare", title="Bare", rate_gbps=400.0, rails=LAYOUT.rails, source="test", date="2026-11")
MODELS = NicModels(cards=(), layouts=(LAYOUT,))


@pytest.mark.parametrize(("present", "fits"), [(8, True), (6, True), (5, False), (0, False)])
def test_three_quarters_of_the_addresses_identify_a_machine(present: int, fits: bool) -> None:
    ports = tuple(ndr_port(index, pci_bus_id=address) for index, address in enumerate(ADDRESSES[:present]))
    assert MODELS.layout(h100_node(nics=ports)) == (LAYOUT if fits else None)
    unplaced = tuple(ndr_port(index, pci_bus_id=NOT_RECORDED) for index in range(8))
    assert MODELS.layout(h100_node(nics=unplaced)) is None
    assert MODELS.layout(h100_node(nics=NOT_RECORDED)) is None


@pytest.mark.parametrize(
    ("names", "fits"), [(("eno1", "eno2", "lo"), True), (("eno1",), False), ((), False), (None, False)]
)
def test_all_front_end_interfaces_identify_a_machine(names: tuple[str, ...] | None, fits: bool) -> None:
    interfaces: object = NOT_RECORDED if names is None else tuple(Interface(name=name) for name in names)
    facts = h100_node(interfaces=interfaces)
    assert MODELS.front_end(facts) == (LAYOUT if fits else None)
    assert NicModels(cards=(), layouts=(BARE,)).front_end(facts) is None


def test_a_card_is_recognised_by_its_part() -> None:
    card = load_nic_models().card(ndr_port(0))
    assert card is not None
    assert (card.part, card.dpu) == ("MT4129", False)
    assert load_nic_models().card(ndr_port(0, device_type=NOT_RECORDED)) is None


@pytest.mark.parametrize(
    ("class_code", "device_id", "is_accelerator"),
    [
        ("1200", "1002:74a1", True),
        ("0200", "1002:74a1", False),
        ("1200", "10de:2330", False),
        (NOT_RECORDED, "1002:74a1", False),
        ("1200", NOT_RECORDED, False),
    ],
)
def test_accelerators_of_other_vendors(
    class_code: str | Unknown, device_id: str | Unknown, is_accelerator: bool
) -> None:
    assert (accelerator_title(class_code, device_id) is not None) is is_accelerator


def test_device_files_without_an_accelerator_are_ignored() -> None:
    assert list(accelerator_nodes(("null", "sda", "nvidia0"))) == []


@pytest.mark.parametrize(
    ("stated", "in_row", "distance"),
    [
        ("", "sxm", 0),
        ("sxm", "", 0),
        ("pcie", "pcie", 0),
        ("sxm4", "sxm", 1),
        ("sxm", "sxm3", 2),
        ("sxm", "pcie", 3),
        ("pcie", "sxm", 3),
        ("nvl", "pcie", 3),
    ],
)
def test_the_distance_of_forms(stated: str, in_row: str, distance: int) -> None:
    assert form_distance(stated, in_row) == distance


@pytest.mark.parametrize(
    ("stated", "in_row", "is_same"),
    [
        (80.0, 80.0, True),
        # 80 GB are 74.5 GiB: units explain a difference of 7 %.
        (80.0, 74.5, True),
        (80.0, 71.2, True),
        (80.0, 70.0, False),
        (40.0, 80.0, False),
        (None, 80.0, True),
        (80.0, None, True),
        (80.0, 0.0, True),
    ],
)
def test_sizes_are_the_same_within_rounding(
    stated: float | None, in_row: float | None, is_same: bool
) -> None:
    assert (size_distance(stated, in_row) == 0) is is_same
    assert size_distance(stated, in_row) == pytest.approx(size_distance(in_row, stated))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("NVIDIA A100-SXM4-80GB", ("a100", "sxm4", 80.0, None)),
        ("A100 PCI-E 40 GB", ("a100", "pcie", 40.0, None)),
        ("H100SXM5", ("h100", "sxm5", None, None)),
        ("8x H100 PCIe 350 W", ("h100", "pcie", None, 350.0)),
        ("RTX PRO 6000 Max-Q Workstation", ("rtxpro6000", "maxq", None, None)),
        ("A100 80.5GiB", ("a100", "", 80.5, None)),
    ],
)
def test_the_parts_of_a_name(name: str, parts: tuple[object, ...]) -> None:
    assert tuple(parts_of(name)) == parts


def test_a_bare_number_at_the_end_is_memory() -> None:
    assert with_unit("A100-80") == "A100 80GB"
    assert with_unit("RTX 3090") == "RTX 3090"
