"""Read policy.toml and check that its checks, thresholds, GPU models and versions are valid."""

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from probes.base.errors import InputError
from probes.base.nearest import did_you_mean, nearest
from probes.base.record import Unknown, quoted
from probes.base.versions import numbers_of
from probes.catalogue.hardware import Catalogue
from probes.catalogue.thresholds import Number, Thresholds, Version, load_thresholds
from probes.judging.check_table import CHECKS
from probes.judging.policies.compared import VERSIONS
from probes.judging.policies.expected_versions import complaint_of, setting_complaint
from probes.judging.policies.host_sections import names_complaint, tables_of, with_section
from probes.judging.policies.policy import SCHEMA_VERSION, Policy
from probes.judging.policies.strict_toml import convert_strict, read_strict, suggestion
from probes.parsers.topology.pci_addresses import normal_address

_MISSING = (
    "a waiver needs check, reason and expires (a date such as 2027-01-31); a site check needs name and "
    "command"
)
_SYSCTL = re.compile(r"[a-z]+(?:[.][A-Za-z0-9_:@-]+(?:/[A-Za-z0-9_:@-]+)*)+")
"""Name of a kernel setting, in which a slash stands for a dot in the name of an interface (sysctl(8))."""


def load_policy(text: str, name: str, catalogue: Catalogue) -> Policy:
    """Parse the policy in `text`; `name` is the name of the file for messages.

    Raises InputError for the first fault, with its field.
    """
    policy = read_strict(text, name, Policy, schema_version=SCHEMA_VERSION, missing=_MISSING)
    for place, problem, advice in _faults(policy, catalogue):
        raise InputError(f"{name}: {place}: {problem}", advice)
    for index, section in enumerate(policy.hosts):
        place = f"{name}: hosts[{index}]"
        complaint = names_complaint(section.get("names"))
        if complaint is not None:
            raise InputError(f"{place}.names: {complaint}", 'for example names = ["gpu-a*", "gpu-b0[1-8]"]')
        if "hosts" in section or "schema_version" in section:
            raise InputError(
                f"{place}: hosts and schema_version are allowed only outside of sections for hosts",
                "write them at the top of the file",
            )
        convert_strict(tables_of(section), place, Policy, missing=_MISSING)
        for field, problem, advice in _faults(with_section(policy, section), catalogue):
            raise InputError(f"{place}: {field}: {problem}", advice)
    return policy


def thresholds_under(policy: Policy) -> Thresholds:
    """Return rigtune's limits, in which the policy's own values replace the defaults."""
    limits = load_thresholds()
    if not policy.thresholds:
        return limits
    changed: dict[str, Any] = {
        name: type(getattr(limits, name))(value=value, source="the policy", date="")
        for name, value in policy.thresholds.items()
    }
    numbers = {**limits.numbers, **{name: row for name, row in changed.items() if name in limits.numbers}}
    others = {name: row for name, row in changed.items() if name not in limits.numbers}
    return msgspec.structs.replace(limits, numbers=numbers, **others)


def _faults(policy: Policy, catalogue: Catalogue) -> Iterator[tuple[str, str, str]]:
    """Yield the field of each fault, the fault, and the advice."""
    yield from _check_faults(policy)
    limits = load_thresholds()
    for name, value in policy.thresholds.items():
        yield from _threshold_faults(name, value, limits)
    model = policy.gpu.model
    if model is not None and catalogue.gpu(model) is None:
        ids = [row.id for row in catalogue.gpus]
        begun = [each for each in ids if each.startswith(model.lower())]
        near = begun or nearest(model, ids, cutoff=0.8)
        if near:
            yield "gpu.model", f"there is no GPU {quoted(model)}", f"did you mean {' or '.join(near)}?"
    for device, bus_id in policy.nic.places.items():
        if isinstance(normal_address(bus_id), Unknown):
            yield (
                f"nic.places.{device[:60]}",
                f"{quoted(bus_id)} is not a PCI address",
                "write it as lspci does: 0000:1a:00.0",
            )
    yield from _site_check_faults(policy)
    yield from _setting_faults(policy)
    for place, wanted in _versions(policy):
        complaint = complaint_of(wanted)
        if complaint is not None:
            yield (
                place,
                complaint,
                'write an exact version, a pattern such as "550.90.*", or a range such as ">=550.90,<581"',
            )


def _setting_faults(policy: Policy) -> Iterator[tuple[str, str, str]]:
    for setting, value in policy.host.sysctl.items():
        place = f"host.sysctl.{setting[:60]}"
        if _SYSCTL.fullmatch(setting) is None:
            yield place, "is not the name of a kernel setting", "write it in quotes as sysctl does"
        for expected in () if isinstance(value, int) else (value,) if isinstance(value, str) else value:
            complaint = setting_complaint(expected)
            if complaint is not None:
                yield place, complaint, 'write a number, a text, or a range such as ">=4096"'


def _site_check_faults(policy: Policy) -> Iterator[tuple[str, str, str]]:
    names: set[str] = set()
    for index, check in enumerate(policy.site_checks):
        place = f"site_checks[{index}]"
        if check.name in names:
            yield f"{place}.name", f"{check.name} occurs twice", "give each site check a different name"
        names.add(check.name)
        program = check.command[0]
        if "/" in program and not program.startswith("/"):
            advice = "write its absolute path, or only its name if the program is on the PATH"
            yield f"{place}.command", f"{quoted(program)} depends on the current folder", advice
        if any("\0" in word for word in check.command):
            yield f"{place}.command", "contains a zero byte", "remove it"


def _check_faults(policy: Policy) -> Iterator[tuple[str, str, str]]:
    ids = [row.id for row in CHECKS]
    named: tuple[tuple[str, Iterable[str]], ...] = (
        ("checks.required", policy.checks.required),
        ("checks.not_required", policy.checks.not_required),
        ("checks.off", policy.checks.off),
        *((f"waivers[{index}].check", (waiver.check,)) for index, waiver in enumerate(policy.waivers)),
    )
    for place, names in named:
        for name in names:
            if name not in ids:
                yield place, f"there is no check {quoted(name)}", suggestion(name, ids, "checks")
    for name in policy.checks.required:
        if name in policy.checks.not_required or name in policy.checks.off:
            other = "not_required" if name in policy.checks.not_required else "off"
            yield "checks.required", f"{name} is also in {other}", "keep it in only one of them"


def _threshold_faults(
    name: str, value: float | str | tuple[str, ...], limits: Thresholds
) -> Iterator[tuple[str, str, str]]:
    place, settable = f"thresholds.{name[:60]}", limits.settable
    row = settable.get(name)
    if row is None and hasattr(limits, name):
        yield (
            place,
            "is a table of several rows, which a policy cannot change",
            f"a policy can set: {', '.join(settable)}",
        )
    elif row is None:
        yield (
            place,
            "there is no such threshold",
            did_you_mean(name, settable, cutoff=0.4) or f"thresholds: {', '.join(settable)}",
        )
    elif isinstance(row, Number):
        if not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
            yield place, f"is {value!r:.60}", f"give a number of 0 or more; the default is {row.value:g}"
    elif isinstance(row, Version):
        if not isinstance(value, str) or not numbers_of(value):
            yield place, f"is {value!r:.60}", f'give a version in quotes; the default is "{row.value}"'
    elif not isinstance(value, tuple):
        yield place, f"is {value!r:.60}", "give a list of names in quotes"


def _versions(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield every expected version with its field."""
    fields: list[tuple[str, str | tuple[str, ...] | None]] = [
        ("gpu.vbios", policy.gpu.vbios),
        *((row.place, getattr(getattr(policy, row.section), row.field)) for row in VERSIONS),
        *((f"nic.firmware.{kind}", wanted) for kind, wanted in policy.nic.firmware.items()),
    ]
    for place, wanted in fields:
        for version in (wanted,) if isinstance(wanted, str) else wanted or ():
            yield place, version
