"""The log of NVIDIA's Fabric Manager, and its lines in the journal.

Kinds: fabric_manager.switch-error{error, bus, port, fatal}: an NVSwitch reported an error, by its SXid
number. fabric_manager.mismatch{reason, version, driver}: its version is not the driver's.
fabric_manager.failed{reason, aborted}: any other trouble; aborted is 1 where it gave up.
fabric_manager.multicast{reason}: no multicast team could be set up (NVLink SHARP). fabric_manager.team: it
set up a multicast team. fabric_manager.started{version}. fabric_manager.configured: it set up all switches.
fabric_manager.running: systemd says so. fabric_manager.device{kind, bus}: a `switch` or `gpu` of its
inventory.

Source: `probes/parsers/fabric/fabric_manager_log.py`; NVIDIA Fabric Manager user guide (read 2026-11).
"""

from __future__ import annotations

import re

from probes.base.patterns import pattern
from probes.logs.event import Event, Value, event_of
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
    ("Successfully configured all the available ", "fabric_manager.configured"),
    ("successfully setup multicast team", "fabric_manager.team"),
)
_LONGEST = 200


def read(line: LogLine) -> tuple[Event, ...]:
    """The event of one line of the Fabric Manager."""
    if (versions := _INTERFACE.search(line.text)) is not None:
        fields: dict[str, Value] = {"reason": versions[0][:_LONGEST], "version": versions[1]}
        return (
            event_of(
                "fabric_manager.mismatch", line, fields | ({"driver": versions[2]} if versions[2] else {})
            ),
        )
    if (device := _DEVICE.search(line.text)) is not None:
        kind = "switch" if device["switch"] else "gpu"
        return (event_of("fabric_manager.device", line, {"kind": kind, "bus": device[kind].lower()}),)
    for words, kind in _GOOD_NEWS:
        if words in line.text:
            return (event_of(kind, line),)
    for text in dict.fromkeys((line.raw, line.text)):
        if (version := _VERSION.search(text)) is not None:
            return (event_of("fabric_manager.started", line, {"version": version[1]}),)
        if (sighting := sighting_of(text)) is not None:
            return (_trouble(line, sighting),)
    if (cut := _CUT.match(line.text)) is not None and _BAD_NEWS.search(cut["said"]):
        return (event_of("fabric_manager.failed", line, {"reason": cut["said"][:_LONGEST], "aborted": 0}),)
    return ()


def _trouble(line: LogLine, sighting: Sighting) -> Event:
    reason = sighting.message[:_LONGEST]
    if sighting.kind == "sxid":
        return event_of(
            "fabric_manager.switch-error",
            line,
            _switch(sighting.code, sighting.device, reason, sighting.fatal),
        )
    fields: dict[str, Value] = {"reason": reason}
    if _MISMATCH.search(reason):
        return event_of("fabric_manager.mismatch", line, fields)
    if _MULTICAST.search(reason):
        return event_of("fabric_manager.multicast", line, fields)
    return event_of("fabric_manager.failed", line, fields | {"aborted": int(bool(sighting.fatal))})


class Reader:
    """The lines of one source; what `systemctl status` prints of the service stands on several."""

    def __init__(self) -> None:
        self._named_at = 0

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """The event of one line."""
        if _STATUS.match(line.text):
            self._named_at = line.number
            return ()
        if (
            self._named_at
            and line.number - self._named_at < _FEW_LINES
            and (active := _ACTIVE.match(line.text)) is not None
        ):
            self._named_at = 0
            if active[1] == "active":
                return (event_of("fabric_manager.running", line),)
            return (event_of("fabric_manager.failed", line, {"reason": "its service failed", "aborted": 1}),)
        return read(line)

    def end(self) -> tuple[Event, ...]:
        """Nothing is held back."""
        return ()


def _switch(code: int | None, bus: str | None, reason: str, fatal: bool | None) -> dict[str, Value]:
    fields: dict[str, Value] = {"error": code or 0, "fatal": int(bool(fatal))}
    if bus:
        fields["bus"] = bus
    if (port := _PORT.search(reason)) is not None:
        fields["port"] = int(port[1])
    return fields
