"""Write the line at the top of every screen: machine, source of the facts, training interpreter."""

from assistant.pages.blocks import Words, words
from assistant.pages.terms import short
from probes.base.record import Unknown, value_or
from probes.base.units import duration
from probes.facts import MachineFacts

_HOST_WIDTH = 32


def machine_line(facts: MachineFacts | None, source_title: str, *, trains: bool = True) -> Words:
    """Return `node-17 · live · /opt/venv/bin/python (torch 2.9.0)`; without `trains` no interpreter."""
    rest = source_title if facts is None or not trains else f"{source_title}  ·  {interpreter(facts)}"
    return words((_host(facts), "strong"), (f"  ·  {rest}", "dim"))


def running_line(facts: MachineFacts | None, what: str) -> Words:
    """Return the line at the top while a stage runs: `node-17 · > Checking: 3 of 30`."""
    return words((_host(facts), "strong"), "  ·  ", ("> ", "strong"), what)


def _host(facts: MachineFacts | None) -> str:
    return "rigtune" if facts is None else short_name(value_or(facts.hostname, "unnamed host"))


def short_name(host: str) -> str:
    """Return a host name; a long name is shortened to its first label, and a long label is cut."""
    if len(host) <= _HOST_WIDTH:
        return host
    label = host.split(".", 1)[0]
    return f"{label}…" if len(label) < _HOST_WIDTH else f"{host[: _HOST_WIDTH - 1]}…"


def interpreter(facts: MachineFacts) -> str:
    """Return the training interpreter in a few words."""
    training = facts.training
    if training.path is None:
        return "no training python"
    if isinstance(training.path, Unknown):
        return "training python unknown"
    return f"{training.path} (torch {short(training.torch_version)})"


def progress(title: str, message: str, done: int, total: int, remaining_s: float | None = None) -> str:
    """Return `Reading live: 3 of 11, NVLink`, with the time that remains if it is known."""
    count = f"{title}: {done} of {total}" if total else title
    left = "" if remaining_s is None else f"about {duration(max(1.0, round(remaining_s)))} left"
    return ", ".join(filter(None, (count, left, message)))
