"""Names of GPUs by their PCI device, for texts that come from no driver.

A GPU of the catalogue is named by its row, others by `probes/data/pci_gpus.toml`.
"""

from __future__ import annotations

import functools

import msgspec

from probes.base.record import StrictRecord
from probes.base.rows import read_rows
from probes.catalogue.hardware import load_catalogue


class PciNames(StrictRecord, kw_only=True):
    """The table for GPUs without a row in the catalogue."""

    source: str
    date: str
    names: dict[str, str]
    """The driver's name by device: `10de:2237`."""
    words: dict[str, str]
    """The device by the words in brackets that lspci prints where it is not asked for numbers."""


@functools.lru_cache(maxsize=1)
def load_pci_names() -> PciNames:
    """The rows shipped with rigtune."""
    return msgspec.convert(read_rows("pci_gpus"), PciNames)


def driver_name(device_id: str, words: str = "") -> str | None:
    """The driver's name of a GPU by its device (`10de:2330`), else by lspci's words; None for others."""
    if not device_id and not words:
        return None
    bracket = words.rpartition("[")[2].partition("]")[0]
    return _name_of(device_id) or _name_of(load_pci_names().words.get(bracket, ""))


def _name_of(device_id: str) -> str | None:
    row = load_catalogue().gpu_by_device(device_id) if device_id else None
    return row.driver_name if row is not None else load_pci_names().names.get(device_id)
