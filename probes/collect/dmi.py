"""Collect maker and model, as stated by the firmware."""

from __future__ import annotations

from probes.base.evidence import file_ref
from probes.base.record import Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Dmi
from probes.sources.base import Source, read_text

_FOLDER = "/sys/class/dmi/id"


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `dmi`."""
    values = {
        field: _value(source, name)
        for field, name in (
            ("system_vendor", "sys_vendor"),
            ("product_name", "product_name"),
            ("board_name", "board_name"),
            ("bios_version", "bios_version"),
        )
    }
    is_stated = any(isinstance(value, str) for value in values.values())
    return {"dmi": Dmi(**values, evidence=(file_ref(_FOLDER),) if is_stated else ())}


def _value(source: Source, name: str) -> str | Unknown:
    text = read_text(source, f"{_FOLDER}/{name}")
    return (
        text
        if isinstance(text, Unknown) or text
        else Unknown(Reason.NOT_SUPPORTED, f"the firmware leaves {name} empty")
    )
