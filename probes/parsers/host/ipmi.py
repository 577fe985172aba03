"""Parse ipmitool: sensors (`sdr`, `sdr elist`, `sensor`), power (`dcmi power reading`) and `mc info`.

The capacity of the power supplies is parsed from `dmidecode -t 39`.
"""

import re

from probes.base.record import NOT_RECORDED, Reason, Record, Unknown, quoted

_READING = re.compile(r"^[ \t]*Instantaneous power reading\s*[:|]\s*(\d{1,6}) Watts", re.MULTILINE)
_CAPACITY = re.compile(r"^[ \t]*Max Power Capacity\s*:\s*(\d{1,6}) W\b", re.MULTILINE)
_FIRMWARE = re.compile(
    r"^Device Revision\s*: .{0,80}\nFirmware Revision[ \t]*: ?(\S{1,40})[ \t]*\nIPMI Version", re.MULTILINE
)
_STATES = frozenset({"ok", "ns", "nc", "cr", "nr", "us", "na"})
_BEYOND = frozenset({"cr", "nr"})
"""States of a sensor beyond a limit: critical and not recoverable (ipmitool(1))."""
_SUPPLY = re.compile(r"\b(?:psu?|power supply|pwr supply)[ _-]?\d*", re.IGNORECASE)
_FAILURE = re.compile(r"failure|power supply ac lost|ac lost|predictive|config error", re.IGNORECASE)
_FEWEST_ROWS = 3


class Sensor(Record, kw_only=True):
    """One row of the sensors."""

    line: int
    name: str
    state: str
    """`ok`; `ns` or `na`: nothing read; `nc`: beyond a non-critical limit; `cr`: critical; `nr`: not
    recoverable; `us`: unspecified; `0x0180`: bits of a discrete sensor, in hexadecimal."""
    words: str
    """The reading, or the events of a discrete sensor."""


def recognise(text: str) -> bool:
    is_power_or_info = "Instantaneous power reading" in text or _FIRMWARE.search(text[:20_000]) is not None
    return is_power_or_info or len(parse_sensors(text[:20_000])) >= _FEWEST_ROWS


def parse_firmware(text: str) -> str | Unknown:
    """Return the firmware of the management controller, from `ipmitool mc info`."""
    match = _FIRMWARE.search(text)
    return match[1] if match else NOT_RECORDED


def parse_power(text: str) -> float | Unknown:
    """Return the current power draw of the machine, in W."""
    if match := _READING.search(text):
        return float(match[1])
    return Unknown(Reason.UNPARSABLE, f"ipmitool dcmi power: {quoted(text.strip())}")


def parse_capacity(text: str) -> float | Unknown:
    """Return the total capacity of all power supplies, in W, from `dmidecode -t 39`."""
    watts = [int(match[1]) for match in _CAPACITY.finditer(text)]
    return (
        float(sum(watts))
        if any(watts)
        else Unknown(Reason.NOT_SUPPORTED, "the firmware states no power capacity")
    )


def parse_sensors(text: str) -> tuple[Sensor, ...]:
    """Return the sensors of `sdr`, `sdr elist` and `sensor`.

    Rows are `name | reading | state` (sdr), `name | id | state | entity | reading` (elist), or have ten cells
    (sensor).
    """
    sensors: list[Sensor] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line[:400].split("|")]
        if len(cells) == 3 and cells[2] in _STATES:
            sensors.append(Sensor(line=number, name=cells[0], state=cells[2], words=cells[1]))
        elif len(cells) == 5 and cells[2] in _STATES and cells[1].endswith("h"):
            sensors.append(Sensor(line=number, name=cells[0], state=cells[2], words=cells[4]))
        elif len(cells) == 10 and (cells[3] in _STATES or cells[3].startswith("0x")):
            sensors.append(Sensor(line=number, name=cells[0], state=cells[3], words=f"{cells[1]} {cells[2]}"))
    return tuple(sensor for sensor in sensors if sensor.name)


def failed_supplies(sensors: tuple[Sensor, ...]) -> tuple[str, ...]:
    """Return the power supplies that report a failure or lost input."""
    return tuple(
        sensor.name for sensor in sensors if _SUPPLY.search(sensor.name) and _FAILURE.search(sensor.words)
    )


def alarms(sensors: tuple[Sensor, ...]) -> tuple[str, ...]:
    """Return the sensors beyond a critical limit, with their reading."""
    return tuple(f"{sensor.name} ({sensor.words})" for sensor in sensors if sensor.state in _BEYOND)


def has_supplies(sensors: tuple[Sensor, ...]) -> bool:
    """Return whether the sensors contain a power supply that could be read."""
    return any(_SUPPLY.search(sensor.name) and sensor.state not in ("ns", "na") for sensor in sensors)
