"""Show the nodes of a fleet's run: verdict, reason and group of each, filtered while the user types."""

from typing import TYPE_CHECKING, cast

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Input, Static

from assistant.pages.blocks import Section
from assistant.pages.fleet_nodes_page import (
    NodeRow,
    matching,
    no_nodes,
    node_detail,
    node_rows,
    nodes_notices,
    nodes_title,
)
from assistant.tui.actions import screen_bindings
from assistant.tui.frame import Frame, ScrollBox
from assistant.tui.node_list import NodeList
from assistant.tui.session import State
from assistant.usecases.fleet.check_fleet import StoredRun
from probes.base.units import plural
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.fleet_result import NodeResult

if TYPE_CHECKING:
    from assistant.tui.fleet_app import FleetApp


class NodesScreen(Frame):
    """A list of nodes, with every reason of the chosen node below."""

    SCREEN_ID = "nodes"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#node-list"

    def __init__(self) -> None:
        super().__init__()
        self._query = ""
        self._run: StoredRun | None = None
        self._rows: tuple[NodeRow, ...] = ()
        self._results: dict[str, NodeResult] = {}
        self._slow: dict[str, list[FleetFinding]] = {}

    @property
    def fleet(self) -> "FleetApp":
        """The application, which opens the nodes."""
        return cast("FleetApp", self.app)

    def compose_body(self) -> ComposeResult:
        yield Static(id="problem")
        yield Static(id="notices")
        with Vertical(id="left"):
            yield Static(id="headings")
            yield NodeList(id="node-list")
            yield Static(id="empty")
            yield Input(id="query", placeholder="words to look for; enter keeps, esc clears", compact=True)
        yield ScrollBox(id="node-detail")

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("fleet"))
        run = state.fleet
        if run is not self._run and run is not None:
            self._run, self._rows = run, node_rows(run.result)
            self._results = {node.node: node for node in run.result.nodes}
            self._slow = run.result.slow_by_node()
            self._fill()
        listing = self.query_one("#node-list", NodeList)
        has_rows = bool(listing.rows)
        for name in ("#headings", "#node-list", "#node-detail"):
            self.query_one(name).display = has_rows
        is_reading = state.running_stage("fleet") is not None
        self.query_one("#left").display = run is not None or state.problem_of("fleet") is None
        self.show_words("empty", Section() if has_rows else no_nodes(self._query, is_reading=is_reading))
        self.show_words("notices", nodes_notices(run.result) if run is not None else Section())
        if run is not None:
            title = nodes_title(run.result, len(listing.rows), self._query)
            self.query_one("#left").border_title = Text(title)

    def _fill(self) -> None:
        self.query_one("#node-list", NodeList).show(matching(self._rows, self._query))

    @on(NodeList.Drawn)
    def _show_detail(self) -> None:
        listing = self.query_one("#node-list", NodeList)
        self.query_one("#headings", Static).update(listing.headings())
        row = listing.current
        box = self.query_one("#node-detail", ScrollBox)
        if row is not None:
            detail = node_detail(self._results[row.node], self._slow.get(row.node, ()))
            box.border_title = Text(row.node)
            box.show(detail)
            box.scroll_home(animate=False)

    @on(Input.Changed, "#query")
    def _search(self, event: Input.Changed) -> None:
        self._query = event.value
        self._fill()
        self.refresh_state()

    @on(Input.Submitted, "#query")
    def _keep(self) -> None:
        self.query_one("#query").display = bool(self._query)
        self.query_one("#node-list").focus()

    def action_filter(self) -> None:
        field = self.query_one("#query", Input)
        field.display = True
        field.focus()

    def action_open_node(self) -> None:
        row = self.query_one("#node-list", NodeList).current
        if row is not None:
            self.fleet.open_node(row.node)

    def action_copy(self) -> None:
        """Copy the names of the shown nodes as a pattern, for `-w`, `--nodelist` or `--exclude`."""
        nodes = tuple(row.node for row in self.query_one("#node-list", NodeList).rows)
        if not nodes:
            self.desk.say("There is no node to copy.", is_problem=True)
            return
        self.app.copy_to_clipboard(self.fleet.folded(nodes))
        self.desk.say(f"Copied the names of {plural(len(nodes), 'node')}.")

    def leave(self) -> bool:
        field = self.query_one("#query", Input)
        if field.display:
            field.value = ""
            field.display = False
        elif not self.query_one("#node-detail").has_focus:
            return False
        self.query_one("#node-list").focus()
        return True
