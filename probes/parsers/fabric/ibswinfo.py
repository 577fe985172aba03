"""Parse `ibswinfo`: parts and sensors of an unmanaged InfiniBand switch."""

from __future__ import annotations

import itertools
import re

from probes.base.evidence import line_ref
from probes.base.record import NOT_RECORDED, Unknown
from probes.facts import FabricSwitch, states

_FIELD = re.compile(r"[ \t]{0,10}([A-Za-z][\w#()./ -]{0,30}?)[ \t]{1,30}\|[ \t]*([^|\n]{0,120})")
_SUPPLY = re.compile(r"PSU(\d{1,2}) status")
_FAN = re.compile(r"fan#(\d{1,3}) \(rpm\)")
_RULE = re.compile(r"={10,200}")
_TEMPERATURE = re.compile(r"-?\d{1,3}")


def recognise(text: str) -> bool:
    """Return whether the text is the output of `ibswinfo`."""
    return "part number " in text and "|" in text and bool(_values_of(text.splitlines()))


def parse_switches(text: str) -> tuple[FabricSwitch, ...]:
    """Return the switches; values that a switch leaves empty are unknown.

    States are in the tool's words (`OK`, `ERROR`).
    """
    switches: list[FabricSwitch] = []
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("part number ")]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        values = _values_of(lines[start:end])
        if values:
            switches.append(_switch(_title(lines, start), values, start + 1))
    return tuple(switches)


def _title(lines: list[str], start: int) -> str:
    """Return the description of the node, which is printed between two rules above its first field."""
    above = [line.strip() for line in lines[max(0, start - 3) : start]]
    return next((line for line in above if line and not _RULE.fullmatch(line)), "")


def _values_of(lines: list[str]) -> list[tuple[str, str]]:
    fields = [
        (match[1].strip(), match[2].strip())
        for line in lines
        if (match := _FIELD.fullmatch(line)) is not None
    ]
    return fields if any(name == "part number" for name, _ in fields) else []


def _switch(title: str, values: list[tuple[str, str]], line: int) -> FabricSwitch:
    # The first of several equal fields counts, so it is inserted last.
    single = dict(reversed([pair for pair in values if pair[1]]))
    supplies: dict[str, str] = {}
    fans: dict[str, str] = {}
    supply = ""
    for name, value in values:
        if (match := _SUPPLY.fullmatch(name)) is not None:
            supply = f"PSU{match[1]}"
            if value:
                supplies[supply] = value
        elif name == "fan status" and value:
            # Among the lines of a power supply, this is the supply's own fan.
            if supply:
                supplies[f"{supply} fan"] = value
            else:
                fans["all"] = value
        elif name == "DC power" and supply and value:
            supplies[f"{supply} DC power"] = value
        elif name.startswith(("temperature", "max temp")):
            supply = ""
        elif (fan := _FAN.fullmatch(name)) is not None:
            supply = ""
            if value:
                fans[f"fan{fan[1]}"] = f"{value} rpm" if value.isdecimal() else value
    temperature = _TEMPERATURE.fullmatch(single.get("temperature (C)", ""))
    return FabricSwitch(
        name=title or single.get("product name", NOT_RECORDED),
        part_number=single.get("part number", NOT_RECORDED),
        firmware_version=single.get("firmware version", NOT_RECORDED),
        temperature_c=int(temperature[0]) if temperature else NOT_RECORDED,
        power_supplies=states(supplies) if supplies else _none("power supply"),
        fans=states(fans) if fans else _none("fan"),
        evidence=(line_ref(line),),
    )


def _none(what: str) -> Unknown:
    return Unknown(NOT_RECORDED.reason, f"no {what} in the output of ibswinfo")
