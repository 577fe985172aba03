"""The log of NVIDIA's Fabric Manager, and its lines in the journal.

Its records stand in `probes/logs/events/fabric_manager_events.py`.

Source: `probes/parsers/fabric/fabric_manager_log.py`; NVIDIA Fabric Manager user guide (read 2026-11).
"""

from __future__ import annotations

import re

from probes.base.patterns import pattern
from probes.logs.event import Event, event_of
from probes.logs.events.fabric_manager_events import (
    FabricConfigured,
    FabricDevice,
    FabricFailed,
    FabricManagerRecord,
    FabricMismatch,
    FabricMulticast,
    FabricRunning,
    FabricStarted,
    FabricSwitchError,
    FabricTeam,
)
from probes.logs.line import LogLine
from probes.parsers.fabric.fabric_manager_log import sighting_of
from probes.parsers.kernel.log_tally import Sighting

SIGNS: tuple[bytes, ...] = (
    b"] [ERROR] ",
    b"] [CRITICAL] ",
    b"] [FATAL] ",
    b"detected NVSwitch ",
    b"Fabric Manager version ",
    b"fabric manager NVIDIA GPU driver interface version",
    b"fabricmanager",
    b"PCI Bus ID: ",
    b"Successfully configured all the available ",
    b"successfully setup multicast team",
    b"Active: failed",
    b"Active: active (running)",
)
_STATUS = pattern(r"^\S{0,3} ?nvidia-fabricmanager\.service - ")
_ACTIVE = pattern(r"^\s{1,12}Active: (failed|active) \([^)]{1,40}\)")
_CUT = pattern(
    r"^(?:(?:nv-|nvidia-)fabricmanager[\w.-]{0,20}\[\d{1,10}\]|nvidia-fabricmanager\.service): (?P<said>.{1,600})"
)
"""Lines of the journal that somebody cut the time and host off."""
_BAD_NEWS = pattern(
    r"\b(?:fail(?:ed|ure)?|error|abort(?:ed|ing)?|don't match|does(?:n't| not) match|invalid value)\b",
    re.IGNORECASE,
)
_FEW_LINES = 12
"""From the name of a service to its state in what `systemctl status` prints."""
_MISMATCH = pattern(
    r"version.{0,80}(?:don't match|does(?:n't| not) match|mismatch)|(?:mismatch|match).{0,60}version",
    re.IGNORECASE,
)
_INTERFACE = pattern(
    r"driver interface version (\d[\d.]{2,16}\d) (?:don't|doesn't|does not) match(?: with driver version (\d[\d.]{2,16}\d))?"
)
_MULTICAST = pattern(r"multicast|Request ID: \d{1,24} {1,4}Request Memory", re.IGNORECASE)
"""In words, or the list of a team that was refused, on a line of its own."""
_VERSION = pattern(r"Fabric Manager version (\d{2,4}(?:\.\d{1,4}){1,3}) is running")
_PORT = pattern(r"\bport (\d{1,3})\b")
_DEVICE = pattern(
    r"Index: \d{1,3} {1,2}Physical Id: \d{1,3}\s+PCI Bus ID: (?P<switch>[0-9A-Fa-f:.]{7,16})\b|"
    r"Physical ID: \d{1,3}\s+Index: \d{1,6}\s+Handle: [0-9a-f]{1,16}\s+PCI Bus ID: (?P<gpu>[0-9A-Fa-f:.]{7,16})\b",
    re.IGNORECASE,
)
_GOOD_NEWS = (
    ("Successfully configured all the available ", FabricConfigured()),
    ("successfully setup multicast team", FabricTeam()),
)
_LONGEST = 200


def _record(line: LogLine) -> FabricManagerRecord | None:
    """Return what one line of the Fabric Manager reports."""
    if (versions := _INTERFACE.search(line.text)) is not None:
        return FabricMismatch(reason=versions[0][:_LONGEST], version=versions[1], driver=versions[2])
    if (device := _DEVICE.search(line.text)) is not None:
        kind = "switch" if device["switch"] else "gpu"
        return FabricDevice(kind=kind, bus=device[kind].lower())
    for words, news in _GOOD_NEWS:
        if words in line.text:
            return news
    for text in dict.fromkeys((line.raw, line.text)):
        if (version := _VERSION.search(text)) is not None:
            return FabricStarted(version=version[1])
        if (sighting := sighting_of(text)) is not None:
            return _trouble(sighting)
    if (cut := _CUT.match(line.text)) is not None and _BAD_NEWS.search(cut["said"]):
        return FabricFailed(reason=cut["said"][:_LONGEST], aborted=0)
    return None


def _trouble(sighting: Sighting) -> FabricManagerRecord:
    reason = sighting.message[:_LONGEST]
    if sighting.kind == "sxid":
        port = _PORT.search(reason)
        return FabricSwitchError(
            error=sighting.code or 0,
            fatal=int(bool(sighting.fatal)),
            bus=sighting.device,
            port=int(port[1]) if port else None,
        )
    if _MISMATCH.search(reason):
        return FabricMismatch(reason=reason)
    if _MULTICAST.search(reason):
        return FabricMulticast(reason=reason)
    return FabricFailed(reason=reason, aborted=int(bool(sighting.fatal)))


class Reader:
    """The lines of one source; what `systemctl status` prints of the service stands on several."""

    def __init__(self) -> None:
        self._named_at = 0

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the event of one line."""
        if _STATUS.match(line.text):
            self._named_at = line.number
            return ()
        record = self._state(line) or _record(line)
        return () if record is None else (event_of(record, line),)

    def _state(self, line: LogLine) -> FabricManagerRecord | None:
        """Return the state of the service that a line names, a few lines below the service's own name."""
        if not self._named_at or line.number - self._named_at >= _FEW_LINES:
            return None
        active = _ACTIVE.match(line.text)
        if active is None:
            return None
        self._named_at = 0
        return (
            FabricRunning() if active[1] == "active" else FabricFailed(reason="its service failed", aborted=1)
        )

    def end(self) -> tuple[Event, ...]:
        """Return nothing, as nothing is held back."""
        return ()
