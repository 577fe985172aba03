"""Recognise and parse a copy of /proc/driver/nvidia/version."""

from __future__ import annotations

from probes.base.record import Unknown
from probes.parsers.host.version_outputs import DriverModule, parse_driver_module


def recognise(text: str) -> bool:
    """Return whether the text contains the line of the loaded module.

    In a kernel log the same words follow a time stamp.
    """
    return any(line.startswith("NVRM version:") for line in text[:20_000].splitlines())


def parse_driver_version(text: str) -> DriverModule | Unknown:
    """Return the loaded module."""
    return parse_driver_module(text)
