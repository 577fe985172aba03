"""The configuration space of a PCI device."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.grouping import folded
from probes.base.record import Reason, Unknown
from probes.parsers.host.cpulist import mask_cpus, mask_list
from probes.parsers.topology.pci_config import parse_config


def space(acs: int | None) -> bytes:
    """Return a space of 4 KiB with PCI Express and, unless `acs` is None, Access Control Services."""
    data = bytearray(4096)
    data[0x06] = 0x10
    data[0x34] = 0x40
    data[0x40:0x42] = bytes((0x01, 0x60))
    data[0x60] = 0x10
    data[0x64:0x68] = (2).to_bytes(4, "little")
    data[0x68:0x6A] = (1 << 5 | 5 << 12).to_bytes(2, "little")
    following = 0x148 << 20 if acs is not None else 0
    data[0x100:0x104] = (0x0001 | 1 << 16 | following).to_bytes(4, "little")
    if acs is not None:
        data[0x148:0x14C] = (0x000D | 1 << 16).to_bytes(4, "little")
        data[0x14E:0x150] = acs.to_bytes(2, "little")
    return bytes(data)


def test_sizes_and_controls() -> None:
    config = parse_config(space(0b0011101))
    assert (config.max_payload_bytes, config.max_payload_supported_bytes, config.max_read_request_bytes) == (
        256,
        512,
        4096,
    )
    assert config.acs == (
        "source_validation",
        "request_redirect",
        "completion_redirect",
        "upstream_forwarding",
    )
    assert parse_config(space(0)).acs == ()
    assert parse_config(space(None)).acs is None


def test_registers_that_the_kernel_hides_are_unknown() -> None:
    for value in (parse_config(space(0)[:64]).acs, parse_config(space(0)[:64]).max_payload_bytes):
        assert isinstance(value, Unknown)
        assert value.reason is Reason.PERMISSION
    assert parse_config(space(0)[:256]).max_payload_bytes == 256
    assert isinstance(parse_config(space(0)[:256]).acs, Unknown)


@given(st.binary(max_size=4096))
def test_any_bytes_are_survived(data: bytes) -> None:
    parse_config(data)
    parse_config(data.ljust(4096, b"\xff"))


@pytest.mark.parametrize(
    ("mask", "cpus"),
    [
        ("00000000,0000ffff", "0-15"),
        ("0x00000003,,0x1", "0,64-65"),
        ("0x000fffff", "0-19"),
        ("0", ""),
        ("f,0", "32-35"),
    ],
)
def test_masks_become_lists(mask: str, cpus: str) -> None:
    assert mask_list(mask) == cpus


@pytest.mark.parametrize("text", ["", "xyz", "0x", "1 2", "-1", "١"])
def test_an_invalid_mask_is_unknown(text: str) -> None:
    assert isinstance(mask_cpus(text), Unknown)


@given(st.sets(st.integers(0, 300)))
def test_lists_and_masks_agree(cpus: set[int]) -> None:
    value = sum(1 << cpu for cpu in cpus)
    words = ",".join(f"{value >> 32 * n & 0xFFFFFFFF:08x}" for n in reversed(range(10)))
    assert mask_list(words) == folded(cpus)


@pytest.mark.parametrize("following", [0x080, 0xFFC])
def test_a_chain_that_leaves_the_extended_space_ends(following: int) -> None:
    data = bytearray(space(None))
    data[0x100:0x104] = (0x0001 | 1 << 16 | following << 20).to_bytes(4, "little")
    data[following : following + 4] = (0x000D | 1 << 16).to_bytes(4, "little")
    assert parse_config(bytes(data)).acs is None
