"""Look up an environment variable among the facts."""

from __future__ import annotations

from probes.base.record import items_of
from probes.facts import MachineFacts


def value_of(facts: MachineFacts, name: str) -> str | None:
    """The value that holds; None where nobody sets the variable, or the environment is not known."""
    rows = items_of(facts.environment)
    return next((row.value for row in rows if row.name == name and row.is_effective), None)
