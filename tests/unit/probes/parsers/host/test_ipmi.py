"""Outputs of ipmitool."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.parsers.host.ipmi import (
    alarms,
    failed_supplies,
    has_supplies,
    parse_capacity,
    parse_power,
    parse_sensors,
    recognise,
)

ELIST = """Inlet Temp       | 04h | cr  |  7.1 | 52 degrees C
Fan1A            | 30h | ok  |  7.1 | 9000 RPM
PS1 Status       | 85h | ok  | 10.1 | Presence detected
PS2 Status       | 86h | ok  | 10.2 | Presence detected, Power Supply AC lost
GPU9 Temp        | 99h | ns  |  7.1 | No Reading
"""
SDR = (
    "Temp         | 35 degrees C  | ok\nPSU1         | 0x01          | ok\n"
    "PSU2         | disabled      | ns\n"
)
SENSOR = "CPU1 Temp | 95.000 | degrees C | nr | na | na | na | 80.000 | 85.000 | 90.000\n"
READING = (
    "\n    Instantaneous power reading:                  2410 Watts\n"
    "    Minimum during sampling period:  100 Watts\n"
)


def test_sensors_of_every_form() -> None:
    assert [(row.line, row.name, row.state) for row in parse_sensors(ELIST)][:2] == [
        (1, "Inlet Temp", "cr"),
        (2, "Fan1A", "ok"),
    ]
    assert [row.words for row in parse_sensors(SDR)] == ["35 degrees C", "0x01", "disabled"]
    assert alarms(parse_sensors(SENSOR)) == ("CPU1 Temp (95.000 degrees C)",)


def test_failed_supplies_and_alarms_are_named() -> None:
    sensors = parse_sensors(ELIST)
    assert failed_supplies(sensors) == ("PS2 Status",)
    assert alarms(sensors) == ("Inlet Temp (52 degrees C)",)
    assert has_supplies(sensors)
    assert not has_supplies(parse_sensors("Temp | 35 degrees C | ok\n"))


def test_power() -> None:
    assert parse_power(READING) == 2410.0
    assert isinstance(parse_power("Could not open device"), Unknown)
    assert (
        parse_capacity("\tMax Power Capacity: 3300 W\n\tName: PSU\n\tMax Power Capacity: 3300 W\n") == 6600.0
    )
    assert isinstance(parse_capacity("\tMax Power Capacity: Unknown\n"), Unknown)


def test_recognised_by_content() -> None:
    assert recognise(ELIST)
    assert recognise(READING)
    assert not recognise("| NVIDIA-SMI 550.54 | Driver Version: 550.54 | CUDA Version: 12.4 |\n" * 9)


@given(st.one_of(st.text(), st.text(alphabet="|ok cr \nPSU1failure0xh", max_size=300)))
def test_nothing_breaks_and_nothing_is_invented(text: str) -> None:
    recognise(text)
    sensors = parse_sensors(text)
    assert all(sensor.name in text for sensor in sensors)
    assert len(failed_supplies(sensors)) <= len(sensors)
    assert len(alarms(sensors)) <= len(sensors)
    parse_power(text)
    parse_capacity(text)
