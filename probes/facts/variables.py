"""Look up an environment variable among the facts."""

from __future__ import annotations

from probes.base.record import known
from probes.facts import MachineFacts


def value_of(facts: MachineFacts, name: str) -> str | None:
    """The value that holds; None where nobody sets the variable, or the environment is not known."""
    rows = facts.environment if known(facts.environment) else ()
    return next((row.value for row in rows if row.name == name and row.is_effective), None)
