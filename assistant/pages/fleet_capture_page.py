"""Show where the recordings of a fleet are, and which nodes have none."""

import shlex

from assistant.pages.blocks import Column, Page, Section, Table, section, words
from assistant.pages.fleet_page import Fold
from assistant.usecases.fleet.capture_fleet import FleetCapture
from probes.base.units import plural

_MOST_ROWS = 40


def fleet_capture_page(captured: FleetCapture, fold: Fold) -> Page:
    """Return the number of recordings, the nodes without any, and the command that reads a recording."""
    count = plural(len(captured.recordings), "recording")
    head = section(
        "", [words((count, "good"), f" of {plural(len(captured.wanted), 'node')} in {captured.folder}")]
    )
    rows = tuple((each.node, each.outcome, each.detail) for each in captured.missing[:_MOST_ROWS])
    table = Table((Column(fixed=True), Column(fixed=True), Column()), rows)
    paste = []
    if captured.recordings:
        file = next(iter(captured.recordings.values()))
        command = f"rigtune check --from {shlex.quote(f'{captured.folder}/{file}')}"
        paste.append(words(("judge one  ", "dim"), (command, "code")))
    if captured.missing:
        missing = fold(tuple(each.node for each in captured.missing))
        paste.append(words(("ask again  ", "dim"), (f"-w '{missing}'", "code")))
    return (
        head,
        Section("Nodes without a recording", (table,)) if rows else section("", []),
        section("To paste", paste) if paste else section("", []),
    )
