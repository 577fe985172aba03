"""Parse the log of the Fabric Manager: `/var/log/fabricmanager.log`, or its lines in the journal.

The log contains errors of NVSwitches, failed set-ups, and an inventory at each start.
"""

import re

from probes.base.record import line_ref
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
    r"(?P<time>\S{3,5} {1,2}\d{1,2} \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\S{8,30}) \S{1,100} "
    r"(?:nv-fabricmanager|nvidia-fabricmanager[\w.-]{0,20}|systemd)\[\d{1,10}\]: (?P<message>.*)"
)
_CUT = re.compile(
    r"(?P<time>)(?:(?:nv-|nvidia-)fabricmanager[\w.-]{0,20}\[\d{1,10}\]|nvidia-fabricmanager\.service): "
    r"(?P<message>.{1,600})"
)
"""Line of the journal from which time and host were removed."""
_SERVICE = "nvidia-fabricmanager.service: "
_ERROR_WORDS = re.compile(
    r"\b(?:fail(?:ed|ure)?|error|abort(?:ed|ing)?|don't match|does(?:n't| not) match|mismatch"
    r"|invalid value)\b",
    re.IGNORECASE,
)
"""Words that mark an error in lines of the journal, which have no level."""
_LONGEST_LINE = 2000
_START = "Fabric Manager Log initializing at"
_SWITCH_ERROR = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) on fid \d{1,4}"
    r"(?: on NVSwitch pci bus id ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})\.\d)?"
    r"(?:.{0,40}?port (\d{1,3}))?"
)
_TROUBLE = frozenset({"ERROR", "CRITICAL", "FATAL"})
_HARMLESS = re.compile(r"NV_WARN_NOTHING_TO_DO")
"""Message of the driver that means no fault, although its level is "error"."""
_NUMBERS = re.compile(r"\b(?:0x)?[0-9a-fA-F]*\d[0-9a-fA-F]{7,}\b")
_ABORTED = re.compile(
    r"aborting fabric manager|fabric manager (?:is )?(?:aborted|exiting)"
    r"|failed to (?:start|initialize|configure all)",
    re.IGNORECASE,
)
_VERSION = re.compile(r"Fabric Manager version (\d{2,4}(?:\.\d{1,4}){1,3}) is running")
_DEVICE = re.compile(
    r"Index: \d{1,3} {1,2}Physical Id: \d{1,3}\s+PCI Bus ID: (?P<switch>[0-9A-Fa-f:.]{7,16})\b|"
    r"Physical ID: \d{1,3}\s+Index: \d{1,6}\s+Handle: [0-9a-f]{1,16}"
    r"\s+PCI Bus ID: (?P<gpu>[0-9A-Fa-f:.]{7,16})\b",
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
        match = _LINE.fullmatch(line.rstrip()) if line.startswith("[") else None
        is_own = match is not None and any(sign in match[3] for sign in _SIGNS)
        if is_own or line.startswith(_START) or _journal_fields(line) is not None:
            return True
    return False


def parse_fabric_manager_log(text: str) -> tuple[LogEvent, ...]:
    """Return errors of NVSwitches (`sxid`) and of the Fabric Manager, each with its count.

    Equal errors become one event. A start of the Fabric Manager ends its own earlier errors
    (`fabric-manager`), but it does not end errors of a switch.
    """
    tally = Tally()
    for number, line in enumerate(text.split("\n"), 1):
        time, level, message = _fields_of(line)
        if line.startswith(_START):
            tally.settle(kinds=frozenset({"fabric-manager"}))
        elif message and (sighting := _sighting(level, message)) is not None:
            tally.add(sighting, number, time)
    return tally.events()


def _fields_of(line: str) -> tuple[str, ...]:
    """Return time, level and message of a line of the log or the journal; empty for other lines."""
    match = _LINE.fullmatch(line.rstrip()) if line.startswith("[") else None
    return match.groups() if match is not None else _journal_fields(line) or ("", "", "")


def _journal_fields(line: str) -> tuple[str, str, str] | None:
    """Return time, level and message of a journal line of the Fabric Manager or its service."""
    if "fabricmanager" not in line or len(line) >= _LONGEST_LINE:
        return None
    match = _JOURNAL.fullmatch(line.rstrip()) or _CUT.match(line)
    if match is None or (" systemd[" in line and match["time"] and not match["message"].startswith(_SERVICE)):
        return None
    level = "ERROR" if _ERROR_WORDS.search(match["message"]) else "INFO"
    return match["time"] or "", level, match["message"]


def device_of(line: str) -> tuple[str, str] | None:
    """Return the `switch` or `gpu` that a line of the inventory names, with its PCI address as printed."""
    match = _DEVICE.search(line)
    kind = match.lastgroup if match else None
    return None if match is None or kind is None else (kind, match[kind])


def version_of(line: str) -> str | None:
    """Return the version of the Fabric Manager that a line reports as running."""
    match = _VERSION.search(line)
    return match[1] if match else None


def parse_devices(text: str) -> tuple[PciDevice, ...]:
    """Return the NVSwitches of the inventories, each once."""
    return tuple(
        PciDevice(bus_id=address, kind="nvswitch", evidence=(line_ref(number),))
        for address, number in _inventory(text, "switch").items()
    )


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs of the inventories, without repetitions; the log does not contain their indices."""
    return tuple(
        Gpu(index=UNNUMBERED, pci_bus_id=address, evidence=(line_ref(number),))
        for address, number in _inventory(text, "gpu").items()
    )


def _inventory(text: str, kind: str) -> dict[str, int]:
    """Return the addresses of devices of one kind with the number of the first line that contains each."""
    first_lines: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        device = device_of(line)
        address = normal_address(device[1]) if device is not None and device[0] == kind else None
        if isinstance(address, str):
            first_lines.setdefault(address, number)
    return first_lines


def parse_version(text: str) -> str | None:
    """Return the Fabric Manager's version at its last start; None if the log contains none."""
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
    """Return the error that a line reports; None for lines without an error or of other programs."""
    _, level, message = _fields_of(line)
    return _sighting(level, message) if message else None
