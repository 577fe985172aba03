"""Collect power and sensors from the management controller. Starts ipmitool, in deep checks only."""

from __future__ import annotations

from probes.base.record import DEEP_ONLY, NOT_RECORDED, EvidenceRef, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.facts import Power
from probes.reading.outputs import outputs
from probes.sources.base import Source

_KIND = "ipmi"
_READING = ("ipmitool", "dcmi", "power", "reading")
_SENSORS = ("ipmitool", "sdr", "elist")
_SUPPLIES = ("dmidecode", "-t", "39")
_TIMEOUT_S = 20.0
"""Deadline in seconds; a management controller answers a few sensors per second."""


def collect(source: Source, options: CollectOptions) -> dict[str, object]:
    """Return the field `power`."""
    if not options.deep:
        return {"power": _all(DEEP_ONLY)}
    evidence: list[EvidenceRef] = []
    failed, beyond = _sensors(source, evidence)
    system_w = _first(source, _KIND, _READING, evidence)
    capacity_w = _first(source, "dmidecode", _SUPPLIES, evidence)
    return {
        "power": Power(
            system_w=system_w,
            supply_capacity_w=capacity_w,
            failed_supplies=failed,
            sensor_alarms=beyond,
            evidence=tuple(dict.fromkeys(evidence)),
        )
    }


def _all(unknown: Unknown) -> Power:
    return Power(system_w=unknown, supply_capacity_w=unknown, failed_supplies=unknown, sensor_alarms=unknown)


def _first(source: Source, kind: str, argv: tuple[str, ...], evidence: list[EvidenceRef]) -> float | Unknown:
    """Return the value of the first text of the kind that contains it."""
    texts = outputs(source, kind, argv, timeout_s=_TIMEOUT_S)
    if isinstance(texts, Unknown):
        return texts
    # Quick checks do not load this module.
    from probes.parsers.host.ipmi import parse_capacity, parse_power  # noqa: PLC0415

    read = parse_power if kind == _KIND else parse_capacity
    unknown: Unknown = NOT_RECORDED
    for output in texts:
        value = read(output.text)
        if not isinstance(value, Unknown):
            evidence.append(output.evidence)
            return value
        unknown = value if output.evidence.source == "command" else NOT_RECORDED
    return unknown


def _sensors(
    source: Source, evidence: list[EvidenceRef]
) -> tuple[tuple[str, ...] | Unknown, tuple[str, ...] | Unknown]:
    """Return the power supplies that failed, and the sensors beyond a critical limit."""
    texts = outputs(source, _KIND, _SENSORS, timeout_s=_TIMEOUT_S, even_failed=True)
    if isinstance(texts, Unknown):
        return texts, texts
    from probes.parsers.host.ipmi import alarms, failed_supplies, has_supplies, parse_sensors  # noqa: PLC0415

    sensors = tuple(sensor for output in texts for sensor in parse_sensors(output.text))
    if not sensors:
        return NOT_RECORDED, NOT_RECORDED
    evidence += [output.evidence for output in texts]
    none = Unknown(Reason.NOT_SUPPORTED, "no sensor of a power supply")
    return failed_supplies(sensors) if has_supplies(sensors) else none, alarms(sensors)
