"""Recognise accelerators of vendors other than NVIDIA: rows of `probes/data/accelerators.toml`."""

import functools
import re
from collections.abc import Iterable, Iterator

from probes.base.record import Unknown
from probes.base.rows import load_rows
from probes.catalogue.thresholds import Cited


class AcceleratorRow(Cited, kw_only=True):
    """One family of accelerators."""

    title: str
    vendor: str = ""
    """PCI vendor id, four hex digits; empty if only device files show the family."""
    classes: tuple[str, ...] = ()
    """PCI classes of the family, four hex digits each; empty if the class does not matter."""
    devices: tuple[str, ...] = ()
    """First characters of the family's PCI device ids; empty if the id does not matter."""
    nodes: tuple[str, ...] = ()
    """Regular expressions for the names of its device files in /dev."""


@functools.cache
def _rows() -> tuple[AcceleratorRow, ...]:
    return load_rows("probes", "accelerators", AcceleratorRow)


def accelerator_title(class_code: str | Unknown, device_id: str | Unknown) -> str | None:
    """Return the family of a PCI device; None if the device is not a known accelerator of another vendor.

    `device_id` is `1002:74a1`, or `1002:` if only the vendor is known.
    """
    if isinstance(class_code, Unknown) or isinstance(device_id, Unknown):
        return None
    vendor, _, device = device_id.partition(":")
    for row in _rows():
        is_class = not row.classes or class_code in row.classes
        is_device = not row.devices or device.startswith(row.devices)
        if vendor == row.vendor and is_class and is_device:
            return row.title
    return None


def accelerator_nodes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield family and name of each device file of an accelerator among the names in /dev."""
    for name in names:
        for row in _rows():
            if any(re.fullmatch(node, name) for node in row.nodes):
                yield row.title, name
