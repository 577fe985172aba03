"""The line that every page carries: whose machine this is, where the facts come from, which Python trains."""

from __future__ import annotations

from rich.text import Text

from assistant.present.text import DIM, STRONG, clean, short
from probes.base.record import Unknown
from probes.base.units import duration
from probes.facts import MachineFacts

_HOST_WIDTH = 32


def machine_line(facts: MachineFacts | None, source_title: str) -> Text:
    """`node-17 · live · python /opt/venv/bin/python (torch 2.9.0)`."""
    words = clean(source_title) if facts is None else f"{clean(source_title)}  ·  {interpreter(facts)}"
    return Text.assemble((_host(facts), STRONG), (f"  ·  {words}", DIM))


def running_line(facts: MachineFacts | None, what: str) -> Text:
    """The same line while something runs: `node-17 · > Checking: 3 of 30`."""
    return Text.assemble((_host(facts), STRONG), "  ·  ", ("> ", STRONG), what)


def _host(facts: MachineFacts | None) -> str:
    if facts is None:
        return "rigtune"
    return "unnamed host" if isinstance(facts.hostname, Unknown) else _cut(clean(facts.hostname))


def _cut(host: str) -> str:
    """A name as long as DNS allows would hide all that follows; its first label tells which machine it is."""
    if len(host) <= _HOST_WIDTH:
        return host
    label = host.split(".", 1)[0]
    return f"{label}…" if len(label) < _HOST_WIDTH else f"{host[: _HOST_WIDTH - 1]}…"


def interpreter(facts: MachineFacts) -> str:
    """The training interpreter in a few words."""
    training = facts.training
    if training.path is None:
        return "no training python"
    if isinstance(training.path, Unknown):
        return "training python ?"
    return f"{clean(training.path)} (torch {short(training.torch_version)})"


def progress(title: str, message: str, done: int, total: int, remaining_s: float | None = None) -> str:
    """`Reading live: 3 of 11, NVLink`; with the time that remains where that is known."""
    words = clean(title)
    if total:
        words += f": {done} of {total}"
    if remaining_s is not None:
        words += f", about {duration(max(1.0, round(remaining_s)))} left"
    return f"{words}, {clean(message)}" if message else words
