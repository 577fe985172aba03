"""Read an environment variable from the facts."""

from __future__ import annotations

from probes.base.record import items_of
from probes.facts import MachineFacts


def value_of(facts: MachineFacts, name: str) -> str | None:
    """Return the effective value; None if the variable is not set or the environment is unknown."""
    rows = items_of(facts.environment)
    return next((row.value for row in rows if row.name == name and row.is_effective), None)
