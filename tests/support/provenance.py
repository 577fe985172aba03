"""Check that names and identities in the facts come from the text.

Tests with this check fail if a parser invents one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from probes.base.record import known
from probes.facts import Gpu, MachineFacts, Nic

_GPU = (
    "name",
    "uuid",
    "serial",
    "vbios_version",
    "driver_version",
    "gsp_firmware_version",
    "inforom_version",
)
_NIC = ("name", "node_guid", "port_guid", "firmware_version", "board_id")
UNNAMED = "unnamed"
"""Name in the facts for a port that the text does not name."""
_NOISE = re.compile(r"[^a-z0-9]")


def plain(text: str) -> str:
    """Return letters and digits in lower case, without the maker, because other characters vary by tool."""
    return _NOISE.sub("", text.lower()).removeprefix("nvidia")


def invented(facts: MachineFacts, text: str) -> list[tuple[str, str]]:
    """Return field and value of identities that do not come from `text`.

    An identity may also follow from a PCI id, or from AMD's number of a GPU in the text.
    """
    there = plain(text)
    return [
        (name, value)
        for name, value, token in _identities(facts)
        if plain(value) not in there and plain(token) not in there
    ]


def _identities(facts: MachineFacts) -> Iterator[tuple[str, str, str]]:
    """Yield field, value, and another word of the text that may stand for the value."""
    gpus: tuple[Gpu, ...] = facts.gpus if known(facts.gpus) else ()
    nics: tuple[Nic, ...] = facts.nics if known(facts.nics) else ()
    for gpu in gpus:
        device = gpu.pci_device_id if known(gpu.pci_device_id) else ":no device"
        name = gpu.name if known(gpu.name) else ""
        other = plain(name).removeprefix("amdgfx") if name.startswith("AMD gfx") else device.partition(":")[2]
        yield from (
            (field, value, other if field == "name" else value) for field, value in _strings(gpu, _GPU)
        )
    for nic in nics:
        for field, value in _strings(nic, _NIC):
            # A description that only counts devices has no port names, so the parser makes them by rule.
            # Short forms of addresses and GUIDs lack leading zeros.
            is_numbered = value.startswith("mlx5_") and not any(
                ref.detail.startswith("line") for ref in nic.evidence
            )
            yield field, value, "hca_type" if is_numbered else value.removeprefix("0000:").lstrip("0")
    yield from (
        (field, value, value) for field, value in _strings(facts.software, ("driver_version", "kernel"))
    )


def _strings(record: object, fields: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for field in fields:
        value = getattr(record, field)
        if isinstance(value, str) and value != UNNAMED:
            yield field, value
