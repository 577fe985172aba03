"""Select the sections of a policy for one host, and merge them into the rest of the policy.

The field `names` of a section lists the hosts to which the section applies. Sections are merged in the order
of the file: a table is merged field by field, and a value or a list replaces the earlier one. Waivers and
site checks are added, but a site check replaces an earlier one of the same name.
"""

import datetime
import fnmatch
from typing import Any

import msgspec

from probes.base.patterns import pattern
from probes.base.record import Unknown, quoted
from probes.judging.policies.policy import Policy

_ADDED = {"waivers": (), "site_checks": ("name",)}
"""Lists that a section adds to; an item replaces an earlier item that is equal in the named fields."""
_RANGE = pattern(r"\[[0-9]*(?:[0-9]{2}|,)[0-9,-]*\]")
"""Brackets that mean a range of numbers in Slurm, but a single character in a pattern."""


def names_complaint(names: object) -> str | None:
    """Return the mistake in the `names` of a section; None if they can be compared with a host."""
    if not isinstance(names, (list, tuple)) or not names or not all(isinstance(n, str) and n for n in names):
        return "give a list of strings, each the name of a host or a pattern"
    ranges = [name for name in names if _RANGE.search(name)]
    return f"{quoted(ranges[0])} has digits in brackets, which match one character" if ranges else None


def matching_sections(policy: Policy, hostname: str) -> tuple[dict[str, Any], ...]:
    """Return the sections that name the host, by its full name or its name before the first dot."""
    full = hostname.lower()
    names = (full, full.partition(".")[0])
    return tuple(
        section
        for section in policy.hosts
        if any(fnmatch.fnmatchcase(name, pattern.lower()) for pattern in section["names"] for name in names)
    )


def for_host(policy: Policy, hostname: str | Unknown) -> Policy:
    """Return the policy with the sections for this host, or with no section if the host's name is unknown."""
    sections = () if isinstance(hostname, Unknown) else matching_sections(policy, hostname)
    for section in sections:
        policy = with_section(policy, section)
    return policy


def with_section(policy: Policy, section: dict[str, Any]) -> Policy:
    """Return the policy with one section merged into it; msgspec.ValidationError if the result is invalid."""
    document = msgspec.to_builtins(policy, builtin_types=(datetime.date,))
    for name, value in tables_of(section).items():
        if name in _ADDED:
            keys = _ADDED[name]
            new = [tuple(item[key] for key in keys) for item in value] if keys else []
            kept = [item for item in document[name] if tuple(item[key] for key in keys) not in new]
            document[name] = [*kept, *value]
        elif isinstance(value, dict):
            document[name] = _merged(document[name], value)
        else:
            document[name] = value
    return msgspec.convert(document, Policy)


def tables_of(section: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a section that is a policy."""
    return {name: value for name, value in section.items() if name != "names"}


def _merged(general: dict[str, Any], special: dict[str, Any]) -> dict[str, Any]:
    both = {
        name: _merged(general[name], value)
        for name, value in special.items()
        if isinstance(value, dict) and isinstance(general.get(name), dict)
    }
    return {**general, **special, **both}
