"""`rigtune fleet repaired`: a person states that nodes were repaired, so that their quarantine can end."""

import datetime
from pathlib import Path

import click

from assistant.cli.diagnostics import say
from assistant.cli.fleet_runs import store_option
from probes.base.errors import UsageError


@click.command("repaired")
@click.argument("names", metavar="NODES|PART")
@store_option
def repaired_command(names: str, store: Path) -> None:
    """State that nodes, or a part, were repaired.

    They are fit again when the check that condemned them has passed twice; a week of probation follows.
    """
    from assistant.engines.clustershell_runs import nodes_of
    from assistant.usecases.fleet.fleet_store import states_in, update_states
    from probes.fleet.advancing import repair

    subjects = (names,) if names in states_in(store) else nodes_of(names)
    now = datetime.datetime.now(datetime.timezone.utc)
    _, changes = update_states(
        store, f"repaired {now.isoformat()}", lambda states: repair(states, subjects, now)
    )
    if not changes:
        raise UsageError(
            f"{names[:60]!r} is not out of service", "`rigtune fleet history NODE` shows the states of a node"
        )
    for change in changes:
        say(f"{change.subject}: repaired; it must pass {change.check_id} twice")
