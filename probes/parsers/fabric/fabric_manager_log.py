"""The Fabric Manager's log (`/var/log/fabricmanager.log`, or its lines of the journal).

Errors of NVSwitches, failed set-ups, and an inventory at each start.
"""

from __future__ import annotations

import re

from probes.base.evidence import line_ref
from probes.facts import Gpu, LogEvent, PciDevice
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.kernel.kernel_gpu import pci_device
from probes.parsers.kernel.log_tally import Sighting, Tally
from probes.parsers.topology.pci_addresses import normal_address

_LINE = re.compile(
    r"\[([A-Z][a-z]{2} [ \d]\d \d{4} \d\d:\d\d:\d\d)\] "
    r"\[(INFO|WARNING|ERROR|CRITICAL|FATAL|NOTICE|DEBUG)\] (?:\[tid \d{1,10}\] )?(.*)"
)
_JOURNAL = re.compile(
    r"(\S{3,5} {1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) \S{1,100} "
    r"(?:nv-fabricmanager|nvidia-fabricmanager[\w.-]{0,20}|systemd)\[\d{1,10}\]: (.*)"
)
_SERVICE = "nvidia-fabricmanager.service: "
_BAD_NEWS = re.compile(r"\b(?:fail(?:ed|ure)?|error|abort(?:ed|ing)?|don't match|mismatch)\b", re.IGNORECASE)
"""Lines of the journal bear no level."""
_START = "Fabric Manager Log initializing at"
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) on fid \d{1,4}"
    r"(?: on NVSwitch pci bus id ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\.\d)?(?:.{0,40}?port (\d{1,3}))?"
)
_TROUBLE = frozenset({"ERROR", "CRITICAL", "FATAL"})
_HARMLESS = re.compile(r"NV_WARN_NOTHING_TO_DO")
"""The driver's answer where there is nothing to tell."""
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]{7,}\b")
_ABORTED = re.compile(
    r"aborting fabric manager|fabric manager (?:is )?(?:aborted|exiting)|failed to (?:start|initialize|configure all)",
    re.IGNORECASE,
)
_VERSION = re.compile(r"Fabric Manager version (\d{2,4}(?:\.\d{1,4}){1,3}) is running")
_SWITCH = re.compile(
    r"Index: \d{1,3}  ?Physical Id: (\d{1,3})\s+PCI Bus ID: ([0-9A-Fa-f:.]{7,16})\b", re.IGNORECASE
)
_GPU = re.compile(
    r"Physical ID: \d{1,3}\s+Index: \d{1,6}\s+Handle: [0-9a-f]{1,16}\s+PCI Bus ID: ([0-9A-Fa-f:.]{7,16})\b",
    re.IGNORECASE,
)
_SIGNS = (
    _START,
    "detected NVSwitch ",
    "multicast team",
    "fabric manager",
    "Fabric Manager",
    "NVSwitch",
    "NVLink",
    "inband",
)


def recognise(text: str) -> bool:
    for line in text.split("\n"):
        if line.startswith(_START):
            return True
        match = _LINE.fullmatch(line.rstrip()) if line.startswith("[") else None
        if match is not None and any(sign in match[3] for sign in _SIGNS):
            return True
        if "fabricmanager" in line and _of_journal(line) is not None:
            return True
    return False


def parse_fabric_manager_log(text: str) -> tuple[LogEvent, ...]:
    """Errors of NVSwitches (`sxid`) and of the Fabric Manager itself (`fabric-manager`), equal ones counted.

    What the log said before a start of the Fabric Manager is settled, as far as it was not an error of a
    switch.
    """
    tally = Tally()
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(_START):
            tally.settle(kinds=frozenset({"fabric-manager"}))
            continue
        match = _LINE.fullmatch(line.rstrip()) if line.startswith("[") else None
        time, level, message = match.groups() if match is not None else _of_journal(line) or ("", "", "")
        if message and (sighting := _sighting(level, message)) is not None:
            tally.add(sighting, number, time)
    return tally.events()


def _of_journal(line: str) -> tuple[str, str, str] | None:
    """Time, level and message of a line that the Fabric Manager, or systemd of its service, left in the
    journal.
    """
    match = _JOURNAL.fullmatch(line.rstrip()) if "fabricmanager" in line and len(line) < 2000 else None
    if match is None or (" systemd[" in line and not match[2].startswith(_SERVICE)):
        return None
    return match[1], "ERROR" if _BAD_NEWS.search(match[2]) else "INFO", match[2]


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    """The NVSwitches of the inventories, each once."""
    found: dict[str, PciDevice] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _SWITCH.search(line)
        address = normal_address(match[2]) if match else None
        if isinstance(address, str):
            found.setdefault(
                address, PciDevice(bus_id=address, kind="nvswitch", evidence=(line_ref(number),))
            )
    return tuple(found.values())


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The GPUs of the inventories, each once. The log numbers them by their place on the board."""
    found: dict[str, Gpu] = {}
    for number, line in enumerate(text.split("\n"), 1):
        match = _GPU.search(line)
        address = normal_address(match[1]) if match else None
        if isinstance(address, str):
            found.setdefault(address, Gpu(index=UNNUMBERED, pci_bus_id=address, evidence=(line_ref(number),)))
    return tuple(found.values())


def parse_version(text: str) -> str | None:
    """The Fabric Manager's version at its last start; None where the log does not hold one."""
    versions = _VERSION.findall(text)
    return str(versions[-1]) if versions else None


def _sighting(level: str, message: str) -> Sighting | None:
    switch = _SWITCH_ERROR.search(message)
    if switch is not None:
        return Sighting(
            kind="sxid",
            message=message,
            device=pci_device(switch[3]) if switch[3] else None,
            code=int(switch[2]),
            fatal=switch[1] == "fatal",
        )
    if level not in _TROUBLE or _HARMLESS.search(message):
        return None
    return Sighting(
        kind="fabric-manager",
        message=message,
        fatal=True if _ABORTED.search(message) else None,
        variant=_NUMBERS.sub("#", message)[:200],
    )


def sighting_of(line: str) -> Sighting | None:
    """What one line says; None for a line of somebody else or without bad news."""
    match = _LINE.fullmatch(line.rstrip()) if line.startswith("[") else None
    _, level, message = match.groups() if match is not None else _of_journal(line) or ("", "", "")
    return _sighting(level, message) if message else None
