"""Reader of the log of NVIDIA's Fabric Manager, and of its lines in the journal.

Source: `probes/parsers/fabric/fabric_manager_log.py`; NVIDIA Fabric Manager user guide (read 2026-11).
"""

import re

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.kernel_log_events import (
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
from probes.parsers.fabric.fabric_manager_log import device_of, sighting_of, version_of
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
_FEW_LINES = 12
"""Maximum number of lines from the name of a service to its state in the output of `systemctl status`."""
_MISMATCH = pattern(
    r"version.{0,80}(?:don't match|does(?:n't| not) match|mismatch)|(?:mismatch|match).{0,60}version",
    re.IGNORECASE,
)
_INTERFACE = pattern(
    r"driver interface version (\d[\d.]{2,16}\d) (?:don't|doesn't|does not) match(?: with driver version "
    r"(\d[\d.]{2,16}\d))?"
)
_MULTICAST = pattern(r"multicast|Request ID: \d{1,24} {1,4}Request Memory", re.IGNORECASE)
"""A refused multicast team: as a sentence, or as a list of the team's members on a separate line."""
_PORT = pattern(r"\bport (\d{1,3})\b")
_GOOD_NEWS = (
    ("Successfully configured all the available ", FabricConfigured()),
    ("successfully setup multicast team", FabricTeam()),
)
_LONGEST = 200


def _record(line: LogLine) -> FabricManagerRecord | None:
    """Return the record of one line of the Fabric Manager; None for other lines."""
    if (versions := _INTERFACE.search(line.text)) is not None:
        return FabricMismatch(reason=versions[0][:_LONGEST], version=versions[1], driver=versions[2])
    if (device := device_of(line.text)) is not None:
        return FabricDevice(kind=device[0], bus=device[1].lower())
    for words, news in _GOOD_NEWS:
        if words in line.text:
            return news
    for text in dict.fromkeys((line.raw, line.text)):
        if (version := version_of(text)) is not None:
            return FabricStarted(version=version)
        if (sighting := sighting_of(text)) is not None:
            return _trouble(sighting)
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
    """Reads the lines of one source; the output of `systemctl status` covers several lines."""

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
        """Return the state of the service, from a line shortly below the name of the service."""
        if not self._named_at or line.number - self._named_at >= _FEW_LINES:
            return None
        active = _ACTIVE.match(line.text)
        if active is None:
            return None
        self._named_at = 0
        return (
            FabricRunning() if active[1] == "active" else FabricFailed(reason="its service failed", aborted=1)
        )
