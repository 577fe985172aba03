"""Outputs of dmidecode, and its slots as a table."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import line_ref
from probes.parsers.topology.dmidecode import parse_dmi, parse_slots, recognise
from tests.support.damage import damaged

TEXT = """\
# dmidecode 3.3
Handle 0x0001, DMI type 1, 27 bytes
System Information
\tManufacturer: Some Maker
\tProduct Name: Box 9

Handle 0x0002, DMI type 9, 19 bytes
System Slot Information
\tDesignation: SLOT 3
\tType: x16 PCI Express 5 x16
\tCurrent Usage: In Use
\tBus Address: 0000:1a:00.0
"""
TABLE = "0000:1a:00.0    CPU1 Slot10 PCI-E 3.0 X16\n0000:88:00.0    CPU2 Slot1 PCI-E 3.0 X16\n"


def test_slots_and_names() -> None:
    assert recognise(TEXT)
    assert [(device.bus_id, device.slot) for device in parse_slots(TEXT)] == [("0000:1a:00.0", "SLOT 3")]
    assert (parse_dmi(TEXT).system_vendor, parse_dmi(TEXT).product_name) == ("Some Maker", "Box 9")


def test_a_slot_cites_the_line_of_its_handle() -> None:
    (slot,) = parse_slots(TEXT)
    assert slot.evidence == (line_ref(7),)
    assert TEXT.splitlines()[7 - 1].startswith("Handle 0x0002")


def test_table() -> None:
    assert recognise(TABLE)
    assert [device.slot for device in parse_slots(TABLE)] == [
        "CPU1 Slot10 PCI-E 3.0 X16",
        "CPU2 Slot1 PCI-E 3.0 X16",
    ]


@pytest.mark.parametrize("text", ["", "0000:1a:00.0 3D controller: NVIDIA", "[1] pci 0000:1a:00.0: PCIe"])
def test_other_texts_are_not_recognised(text: str) -> None:
    assert not recognise(text)


@given(st.one_of(st.text(max_size=200), damaged(TEXT), damaged(TABLE)))
def test_damage_raises_nothing(text: str) -> None:
    recognise(text)
    parse_dmi(text)
    assert all(device.bus_id[5:] in text.lower() for device in parse_slots(text))
