"""List 10 000 nodes in the terminal UI, filter and scroll them, and do the same with Textual's own widgets; print times.

python -m tests.benchmarks.nodes_in_the_tui [NODES]

The time of the key Enter ends when the node is judged, every other time when the screen is drawn. The times of keys
include the milliseconds that Textual's pilot waits for each key.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.text import Text
from textual.app import App, ComposeResult
from textual.widgets import DataTable, OptionList
from textual.widgets.option_list import Option

from assistant.engines.clustershell_runs import folded
from assistant.pages.fleet_nodes_page import NodeRow, matching
from assistant.tui.fleet_app import FleetApp
from assistant.tui.node_list import NodeList
from tests.benchmarks.fleet_of_ten_thousand import reports_of_run
from tests.support.fleet_folder import write_run

QUERY = "pass h1"


class Watch:
    """A stopwatch of wall time and CPU time, which starts when it is created."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def __str__(self) -> str:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return f"{wall:.3f} s wall, {cpu:.3f} s CPU"


class Library(App[None]):
    """An application with one of Textual's own widgets, which shows the same rows."""

    def __init__(self, kind: type[DataTable[str]] | type[OptionList]) -> None:
        super().__init__()
        self.kind = kind

    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row") if self.kind is DataTable else OptionList(markup=False)

    def fill(self, rows: Sequence[NodeRow]) -> None:
        if self.kind is DataTable:
            table = self.query_one(DataTable)
            table.clear(columns=True)
            for name in ("verdict", "node", "reason", "group"):
                table.add_column(name, width=20)
            for row in rows:
                table.add_row(row.verdict[0].text, row.node, row.reason, row.group)
        else:
            options = [Option(Text(f"{row.node} {row.reason}", no_wrap=True)) for row in rows]
            self.query_one(OptionList).set_options(options)


async def own(folder: Path) -> tuple[NodeRow, ...]:
    app = FleetApp(folder, folded)
    watch = Watch()
    async with app.run_test(size=(140, 40)) as pilot:
        while app.state.fleet is None or app.state.running:
            await asyncio.sleep(0.02)
        await pilot.pause()
        listing = app.screen.query_one(NodeList)
        print(f"{len(listing.rows)} nodes: {watch} from the start to the table")
        await pilot.press("slash")
        for letter in QUERY:
            watch = Watch()
            await pilot.press(letter)
            await pilot.pause()
            print(f"  filter, key {letter!r}: {watch}, {len(listing.rows)} rows")
        await pilot.press("enter")
        for key in ("pagedown", "end", "home"):
            watch = Watch()
            await pilot.press(key)
            await pilot.pause()
            print(f"  {key}: {watch}")
        watch = Watch()
        await pilot.press("enter")
        while app.state.verdict is None:
            await asyncio.sleep(0.02)
        print(f"  enter, the screens of a node: {watch}")
        return listing.rows


async def library(kind: type[DataTable[str]] | type[OptionList], rows: tuple[NodeRow, ...]) -> None:
    app = Library(kind)
    async with app.run_test(size=(140, 40)) as pilot:
        for query in ("", QUERY):
            watch = Watch()
            app.fill(matching(rows, query))
            await pilot.pause()
            print(f"  {kind.__name__}, filter {query!r}: {watch}")


def main(nodes: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        reports = reports_of_run(nodes)
        write_run(Path(scratch), {report.node: json.loads(msgspec.json.encode(report)) for report in reports})
        rows = asyncio.run(own(Path(scratch)))
    for kind in (DataTable, OptionList):
        asyncio.run(library(kind, rows))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
