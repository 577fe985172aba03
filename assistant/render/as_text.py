"""What `rigtune probe` and `rigtune check` print for people."""

from __future__ import annotations

from probes.facts import MachineFacts
from probes.judging.verdict import Verdict


def render_facts(facts: MachineFacts, *, colour: bool = False, verbose: bool = False) -> str:
    """The overview of a machine, 80 columns wide; `verbose` adds the PCIe tree and unfolds what is folded."""
    from assistant.render.facts_lines import facts_lines  # noqa: PLC0415 - `check` need not load it

    return "\n".join(facts_lines(facts, colour=colour, verbose=verbose)) + "\n"


def render_verdict(verdict: Verdict, *, colour: bool = False, verbose: bool = False) -> str:
    """The verdict with its problems, worst first; `verbose` lists what passed as well, and the evidence."""
    from assistant.render.verdict_lines import verdict_lines  # noqa: PLC0415 - `probe` need not load it

    return "\n".join(verdict_lines(verdict, colour=colour, verbose=verbose)) + "\n"
