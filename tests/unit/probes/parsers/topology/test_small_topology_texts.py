"""Test small parts of texts about the bus: slots, kinds of devices, configuration spaces, masks of nodes."""

from __future__ import annotations

import pytest

from probes.base.record import Unknown
from probes.parsers.topology.dmidecode import parse_dmi, parse_slots
from probes.parsers.topology.numactl import numa_status_node
from probes.parsers.topology.pci_classes import kind_of
from probes.parsers.topology.pci_config import parse_config


def slot(name: str, address: str) -> str:
    return (
        f"Handle 0x0002, DMI type 9, 19 bytes\nSystem Slot Information\n\tDesignation: {name}\n"
        f"\tBus Address: {address}\n\n"
    )


@pytest.mark.parametrize(
    ("name", "address", "slots"),
    [
        ("SLOT 3", "0000:1a:00.0", [("0000:1a:00.0", "SLOT 3")]),
        ("s" * 81, "0000:1a:00.0", [("0000:1a:00.0", "s" * 80)]),
        ("SLOT 3", "unknown", []),
        ("", "0000:1a:00.0", []),
    ],
)
def test_a_slot_needs_a_name_and_an_address(name: str, address: str, slots: list[tuple[str, str]]) -> None:
    assert [(device.bus_id, device.slot) for device in parse_slots(slot(name, address))] == slots


def test_a_value_of_the_firmware_is_cut_after_200_characters() -> None:
    text = f"Handle 0x0001, DMI type 1, 27 bytes\nSystem Information\n\tManufacturer: {'m' * 201}\n"
    dmi = parse_dmi(f"{text}\tProduct Name:\n")
    assert dmi.system_vendor == "m" * 200
    assert isinstance(dmi.product_name, Unknown)


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("Node: 8\nStatus: online\n", 8),
        ("Node: -1\n", None),
        ("Node: 12345678901\n", 12345678901),
        ("Node: 123456789012\n", None),
        ("x\n" * 19 + "Node: 8\n", 8),
        ("x\n" * 20 + "Node: 8\n", None),
        ("Status: online\n", None),
    ],
)
def test_the_node_of_a_gpu_s_memory(text: str, node: int | None) -> None:
    assert numa_status_node(text) == node


@pytest.mark.parametrize(
    ("class_code", "device_id", "kind"),
    [
        ("0302", "10de:2330", "gpu"),
        ("0300", "10de:2330", "gpu"),
        ("0300", "1a03:2000", "other"),
        ("0680", "10de:22a3", "nvswitch"),
        ("0680", "8086:22a3", "other"),
        ("0200", "15b3:1021", "rdma"),
        ("0200", "1d0f:efa2", "rdma"),
        ("0200", "1d0f:ec20", "ethernet"),
        ("0200", "8086:efa2", "ethernet"),
        ("0207", "15b3:1021", "rdma"),
        ("0108", "144d:a80a", "nvme"),
        ("0604", "10b5:9797", "bridge"),
    ],
)
def test_the_kind_of_a_device_by_its_class_and_vendor(class_code: str, device_id: str, kind: str) -> None:
    assert kind_of(class_code, device_id) == kind


ACS = 0x0D


def config_space(first: bytes, control: int = 0b11111, length: int = 4096) -> bytes:
    """Return a space whose extended capabilities begin with `first`; access controls follow at 148h."""
    data = bytearray(4096)
    data[0x100:0x104] = first
    data[0x148:0x14C] = (ACS | 1 << 16).to_bytes(4, "little")
    data[0x14E:0x150] = control.to_bytes(2, "little")
    return bytes(data[:length])


def header(kind: int, following: int) -> bytes:
    return (kind | 1 << 16 | following << 20).to_bytes(4, "little")


@pytest.mark.parametrize(
    ("first", "controls"),
    [
        (header(1, 0x148), 5),
        (header(1, 0x149), 5),  # the two lowest bits are reserved
        (header(ACS, 0), 0),
        (header(1, 0), None),
        (header(1, 0x0FC), None),
        (b"\0\0\0\0", None),
        (b"\xff\xff\xff\xff", None),
        (header(1, 0x100), None),
    ],
)
def test_the_chain_of_extended_capabilities(first: bytes, controls: int | None) -> None:
    access_control = parse_config(config_space(first)).acs
    assert (len(access_control) if isinstance(access_control, tuple) else access_control) == controls


def test_a_cut_space_does_not_show_the_access_controls() -> None:
    assert isinstance(parse_config(config_space(header(1, 0x148), length=4095)).acs, Unknown)
