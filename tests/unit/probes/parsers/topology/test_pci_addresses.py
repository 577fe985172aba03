"""PCI addresses, speeds and distances."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import NOT_RECORDED, Unknown
from probes.parsers.topology.pci_addresses import link_generation, link_width, normal_address, pci_distance

ROOT = "/sys/devices/pci0000:15"
SWITCH = f"{ROOT}/0000:15:01.0/0000:16:00.0"
OTHER_SWITCH = f"{ROOT}/0000:15:03.0/0000:26:00.0"
NESTED = f"{SWITCH}/0000:17:04.0/0000:1a:00.0"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("00000000:1B:00.0", "0000:1b:00.0"),
        ("0000:1b:00.0", "0000:1b:00.0"),
        ("1b:00.1", "0000:1b:00.1"),
        ("00000019:06:00.0", "0019:06:00.0"),
        ("10000:e1:00.0", "10000:e1:00.0"),
    ],
)
def test_addresses_are_written_as_sysfs_does(text: str, address: str) -> None:
    assert normal_address(text) == address


@pytest.mark.parametrize("text", ["", "N/A", "1b", "0000:1b:00", "0000:1b:00.9", "FFFFFFFFFF:00:00.0"])
def test_an_invalid_address_is_unknown(text: str) -> None:
    assert isinstance(normal_address(text), Unknown)


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe", 1), ("16.0 GT/s PCIe", 4), ("32 GT/s", 5), ("64.0 GT/s PCIe", 6)],
)
def test_link_generation(speed: str, generation: int) -> None:
    assert link_generation(speed) == generation


@pytest.mark.parametrize("speed", ["Unknown", "Unknown speed", "", "32.0", "7 GT/s PCIe"])
def test_no_link_speed_is_unknown(speed: str) -> None:
    assert isinstance(link_generation(speed), Unknown)


@pytest.mark.parametrize("width", ["0", "63", "255", "", "-1", "x", "16x8", "¹⁶"])
def test_no_link_width_is_unknown(width: str) -> None:
    assert isinstance(link_width(width), Unknown)


@pytest.mark.parametrize(
    ("a", "b", "kind"),
    [
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{SWITCH}/0000:17:01.0/0000:19:00.0", "PIX"),
        (f"{ROOT}/0000:15:01.0/0000:16:00.0", f"{ROOT}/0000:15:01.0/0000:16:00.1", "PIX"),
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{NESTED}/0000:1b:00.0/0000:1c:00.0", "PXB"),
        (f"{SWITCH}/0000:17:00.0/0000:18:00.0", f"{OTHER_SWITCH}/0000:27:00.0/0000:28:00.0", "PHB"),
        ("/sys/devices/pci0000:00/0000:00:05.0", "/sys/devices/pci0000:00/0000:00:06.0", "PHB"),
    ],
    ids=["one switch", "two ports of a card", "two switches", "two root ports", "flat virtual bus"],
)
def test_distance_below_one_host_bridge(a: str, b: str, kind: str) -> None:
    assert pci_distance(a, b, 0, 0) == kind
    assert pci_distance(b, a, 1, 0) == kind


@pytest.mark.parametrize(("numa_a", "numa_b", "kind"), [(0, 0, "NODE"), (0, 1, "SYS"), (None, None, "NODE")])
def test_distance_between_host_bridges(numa_a: int | None, numa_b: int | None, kind: str) -> None:
    a, b = (
        "/sys/devices/pci0000:15/0000:15:01.0/0000:16:00.0",
        "/sys/devices/pci0000:37/0000:37:01.0/0000:38:00.0",
    )
    assert pci_distance(a, b, numa_a, numa_b) == kind


@pytest.mark.parametrize(("numa_a", "numa_b"), [(0, None), (NOT_RECORDED, 0), (0, NOT_RECORDED)])
def test_distance_between_host_bridges_needs_both_nodes(
    numa_a: int | Unknown | None, numa_b: int | Unknown | None
) -> None:
    assert isinstance(
        pci_distance("/sys/devices/pci0000:15/x", "/sys/devices/pci0000:37/y", numa_a, numa_b), Unknown
    )


def test_virtual_functions_of_azure_sit_on_buses_of_their_own() -> None:
    base = "/sys/devices/LNXSYSTM:00/LNXSYBUS:00/ACPI0004:00/VMBUS:01"
    a, b = f"{base}/47505500-0001/pci0001:00/0001:00:00.0", f"{base}/47505500-0002/pci0002:00/0002:00:00.0"
    assert pci_distance(a, b, 0, 1) == "SYS"


@given(st.text(), st.text())
def test_any_paths_have_an_answer(a: str, b: str) -> None:
    pci_distance(a, b, 0, 0)
