"""Name GPUs by their PCI device, for texts that come from no driver."""

from __future__ import annotations

from probes.catalogue.hardware import load_catalogue


def driver_name(device_id: str, words: str = "") -> str | None:
    """Return the driver's name of a GPU by its PCI device (`10de:2330`), else by lspci's words; else None."""
    row = load_catalogue().gpu_on_bus(device_id, words) if device_id or words else None
    return None if row is None else row.driver_name
