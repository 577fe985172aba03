"""Run the command once per name on this machine, so that tests run all code of a fleet without a network."""

from assistant.engines.clustershell_runs import (
    FANOUT,
    Sink,
    nodes_of,
    plan_together,
    run_over,
    run_together,
)
from assistant.engines.engine_table import Rendezvous, Wanted
from assistant.engines.shipping import node_line


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the names of a pattern. Raises UsageError."""
    return nodes_of(wanted or "localhost")


def plan(wanted: Wanted) -> str:
    """Return the local command."""
    if wanted.rendezvous is not None:
        return plan_together(_on_loopback(wanted, wanted.rendezvous))
    return node_line(wanted.command, wanted.limit_s, wanted.ship)


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the command once per name; the processes of one job meet on the loopback."""
    settings = {"fanout": FANOUT}
    if wanted.rendezvous is None:
        run_over("exec", wanted, sink, settings=settings)
        return
    run_together("exec", _on_loopback(wanted, wanted.rendezvous), sink, settings=settings)


def _on_loopback(wanted: Wanted, meeting: Rendezvous) -> Wanted:
    return wanted._replace(rendezvous=meeting._replace(address="127.0.0.1"))
