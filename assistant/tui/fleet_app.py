"""Run the terminal UI over the run of a fleet: the table of its nodes, then the screens of an opened node."""

from collections.abc import Generator
from pathlib import Path

from assistant.pages.fleet_nodes_page import recording_words, report_title
from assistant.pages.fleet_page import Fold
from assistant.tui.actions import NODES, SCREENS, digit_binding
from assistant.tui.app import RigtuneApp
from assistant.tui.screens.nodes_screen import NodesScreen
from assistant.tui.services import Services
from assistant.tui.session import State
from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.fleet.check_fleet import open_run
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.fleet.comparing.fleet_finding import FleetFinding
from probes.fleet.node_report import NodeReport
from probes.fleet.reported_machine import machine_of, verdict_of
from probes.judging.verdict import Verdict
from probes.sources.stored import Recording, StoredSource
from recipes.planning.plan import Plan


class ReportServices(Services):
    """The use cases for a node of which only the report of a fleet's run is known."""

    def __init__(self, title: str, report: NodeReport, slow: tuple[FleetFinding, ...]) -> None:
        super().__init__(StoredSource(Recording(title=title)))
        self._report, self._slow = report, slow

    @stage("probe")
    def probe(self) -> Generator[Event, None, MachineFacts]:
        """Return the facts in the report."""
        yield StageStarted(stage="probe", title="Reading the report")
        return machine_of(self._report)

    @stage("check")
    def check(self, facts: MachineFacts, measured: MeasurementSet) -> Generator[Event, None, Verdict]:
        """Return the verdict in the report."""
        yield StageStarted(stage="check", title="Reading the report")
        return verdict_of(self._report, self._slow)

    @stage("plan")
    def plan(
        self, facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
    ) -> Generator[Event, None, Plan]:
        """Raise UsageError, because the report carries too little for a plan."""
        yield StageStarted(stage="plan", title="Planning")
        raise UsageError(
            f"the report of {self._report.node} carries too few facts for a plan",
            recording_words(self._report.node),
        )


class FleetApp(RigtuneApp):
    """The application with one more screen: the nodes, from which the screens of a node are opened."""

    SCREEN_ROWS = (NODES, *SCREENS)
    BINDINGS = [digit_binding(NODES)]
    MODES = {**RigtuneApp.MODES, NODES.id: NodesScreen}

    def __init__(
        self, folder: Path, fold: Fold, *, store: Path | None = None, ascii_only: bool = False
    ) -> None:
        """`fold` writes node names as a short pattern; `store` has the states of the nodes."""
        empty = NodeReport(node="", outcome="not-started")
        super().__init__(ReportServices(str(folder), empty, ()), ascii_only=ascii_only)
        self._folder, self._store = folder, store
        self.folded = fold
        self._node = ""

    def begin_work(self) -> None:
        """Show the nodes, and read their answers."""
        self.switch_mode(NODES.id)
        self._read()

    def _read(self) -> None:
        self._start("fleet", "Reading the answers", lambda stop: open_run(self._folder, self._store))

    def _follow(self, stage: str) -> None:
        if stage == "fleet" and self._node:
            self._load()
        super()._follow(stage)

    def open_node(self, node: str) -> None:
        """Show the screens of a node with the facts of its report."""
        self._node = node
        self._load()
        self.action_go(SCREENS[0].id)

    def _load(self) -> None:
        """Replace the state of the last node by the report of the opened node."""
        run = self.state.fleet
        report = None if run is None else run.report_of(self._node)
        if run is None or report is None:
            self._node = ""
            return
        for running in self._runs.values():
            running.stop()
        self._runs.clear()
        slow = tuple(run.result.slow_by_node().get(self._node, ()))
        self.services = ReportServices(report_title(report, self._folder.name), report, slow)
        self.state = State(source_title=self.services.title, is_live=False, fleet=run, report=report)
        self._probe()

    def action_go(self, screen: str) -> None:
        """Switch to a screen; the screens of a node need an opened node."""
        if screen != NODES.id and not self._node:
            self.say("Choose a node first: enter opens its screens.", is_problem=True)
        else:
            super().action_go(screen)

    def action_probe_again(self) -> None:
        """Read the folder again: a run that still goes on has more answers now."""
        self._read()

    async def action_back(self) -> None:
        """Leave a panel; a node's screens lead to its overview, and the overview to the nodes."""
        if self.current_mode == SCREENS[0].id and not self.screen.is_modal:
            self.action_go(NODES.id)
        elif self.current_mode != NODES.id or self.screen.is_modal:
            await super().action_back()
        elif isinstance(self.screen, NodesScreen):
            self.screen.leave()
