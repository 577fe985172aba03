"""The line that every page carries: whose machine this is, where the facts come from, which Python trains."""

from __future__ import annotations

from rich.text import Text

from assistant.present.text import DIM, STRONG, clean, short
from probes.facts import MachineFacts
from probes.record import Unknown


def machine_line(facts: MachineFacts | None, source_title: str) -> Text:
    """`node-17 · live · python /opt/venv/bin/python (torch 2.9.0)`."""
    if facts is None:
        return Text.assemble(("rigtune", STRONG), (f"  ·  {clean(source_title)}", DIM))
    host = "unnamed host" if isinstance(facts.hostname, Unknown) else clean(facts.hostname)
    return Text.assemble((host, STRONG), (f"  ·  {clean(source_title)}  ·  {interpreter(facts)}", DIM))


def interpreter(facts: MachineFacts) -> str:
    """The training interpreter in a few words."""
    training = facts.training
    if training.path is None:
        return "no training python"
    if isinstance(training.path, Unknown):
        return "training python ?"
    return f"{clean(training.path)} (torch {short(training.torch_version)})"


def progress(title: str, message: str, done: int, total: int) -> str:
    """`Reading live: 3 of 11, NVLink`."""
    words = clean(title)
    if total:
        words += f": {done} of {total}"
    return f"{words}, {clean(message)}" if message else words
