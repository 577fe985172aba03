"""/proc/driver/nvidia/version, as a file that somebody copied."""

from __future__ import annotations

from probes.base.record import Unknown
from probes.parsers.host.version_outputs import DriverModule, parse_driver_module


def recognise(text: str) -> bool:
    """The line of the loaded module; the same words in a kernel log stand behind a time stamp."""
    return any(line.startswith("NVRM version:") for line in text[:20_000].splitlines())


def parse_driver_version(text: str) -> DriverModule | Unknown:
    """The loaded module."""
    return parse_driver_module(text)
