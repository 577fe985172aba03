"""ssh through ClusterShell, direct or through the gateways of its topology file."""

import shlex
from typing import Any

from assistant.engines.clustershell_runs import (
    FANOUT,
    Sink,
    folded,
    named_hosts,
    plan_together,
    run_over,
    run_together,
)
from assistant.engines.engine_table import Wanted
from assistant.engines.shipping import node_line

_OPTIONS = "-oBatchMode=yes -oServerAliveInterval=5 -oServerAliveCountMax=3"
"""Options with which ssh never asks a question, and detects a lost network after 15 s."""
_TERMINAL = " -oRequestTTY=force"
"""A terminal, so that the remote side ends when the connection does."""


def nodes(wanted: str) -> tuple[str, ...]:
    """Return the hosts of a pattern. Raises UsageError without one."""
    return named_hosts(wanted, "ssh")


def _settings(wanted: Wanted) -> dict[str, Any]:
    """Return the options of ClusterShell: the user's own ssh settings and known hosts apply."""
    config = wanted.options.get("ssh_config")
    options = _OPTIONS + (_TERMINAL if wanted.rendezvous is not None else "")
    return {
        "fanout": FANOUT,
        "connect_timeout": 10,
        "ssh_options": options + (f" -F {shlex.quote(config)}" if config else ""),
    }


def plan(wanted: Wanted) -> str:
    """Return the command of ClusterShell, or of ssh for one job over all nodes, that does the same."""
    settings = _settings(wanted)
    if wanted.rendezvous is not None:
        return plan_together(wanted, ("ssh", *shlex.split(settings["ssh_options"]), wanted.nodes[0]))
    command = node_line(wanted.command, wanted.limit_s, wanted.ship)
    topology = wanted.options.get("topology")
    words = (
        "clush",
        *(("--topology", topology) if topology else ()),
        "-f",
        str(settings["fanout"]),
        "-w",
        folded(wanted.nodes),
        "-o",
        settings["ssh_options"],
    )
    return shlex.join((*words, command))


def run(wanted: Wanted, sink: Sink) -> None:
    """Run the command on every host."""
    if wanted.rendezvous is not None:
        run_together("ssh", wanted, sink, settings=_settings(wanted))
        return
    run_over("ssh", wanted, sink, settings=_settings(wanted))
