"""Show the benchmarks: the measured rates of this machine beside their references."""

import msgspec
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Section, section
from assistant.pages.fleet_nodes_page import reported_measurements
from assistant.pages.machine import header
from assistant.pages.measured import bench_costs, bench_page
from assistant.tui.actions import screen_bindings
from assistant.tui.frame import Frame, PanelBox
from assistant.tui.panel_writer import whole
from assistant.tui.session import State
from assistant.usecases.bench.bench_list import BenchEntry, list_benchmarks
from assistant.usecases.measure import MeasureOptions
from probes.facts import MachineFacts

_BESIDES = 7
"""Number of columns of a panel that frame, padding and scroll bar occupy."""
_NOTHING_DRAWN = section("", ["nothing was measured at several sizes or between pairs"])


class BenchmarksScreen(Frame):
    """The cost before a run, the results during the run, and failures with the command to repeat them."""

    SCREEN_ID = "benchmarks"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#benchmark-panels"

    def __init__(self) -> None:
        super().__init__()
        self._show_all = False
        self._show_plots = False
        self._listed: tuple[MachineFacts | None, tuple[BenchEntry, ...]] = (None, ())

    def compose_body(self) -> ComposeResult:
        yield Static(id="problem")
        with VerticalScroll(id="benchmark-panels"):
            yield Static(id="intro")
            yield PanelBox(id="sick")
            yield PanelBox(id="results")
            yield PanelBox(id="failures")

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("bench"))
        if state.report is not None:
            self.show_words("intro", Section())
            self.show_panels({"sick": Section(), "failures": Section()})
            self.show_panels({"results": reported_measurements(state.report)})
            return
        running, measured = state.running_stage("bench"), state.measured
        progress = ""
        if running:
            progress = header.progress(
                running.title, running.message, running.done, running.total, running.remaining_s
            )
        entries, width = self._entries(state.facts), self.size.width - _BESIDES
        intro = bench_page.intro(
            state.facts,
            measured,
            is_live=state.is_live,
            progress=progress,
            note=state.measuring_note,
            entries=entries,
            suite=state.suite,
        )
        self.show_words("intro", intro)
        self.show_panels(
            {"sick": bench_page.sick(state.judgement), "failures": bench_page.failures(measured.failures)}
        )
        results = self.query_one("#results", PanelBox)
        if self._show_plots and measured.measurements:
            results.show(Section("Curves"))
            results.update(whole(bench_page.drawings(measured, state.judgement) or (_NOTHING_DRAWN,), width))
        else:
            results.show(self._results(state, entries, is_running=running is not None, width=width))
        can_measure = state.is_live and not bench_page.lacks_torch(state.facts)
        results.display = can_measure or bool(measured.measurements)

    def _results(
        self, state: State, entries: tuple[BenchEntry, ...], *, is_running: bool, width: int
    ) -> Section:
        measured = state.measured
        if not is_running and not measured.measurements:
            table = bench_costs.costs_table(
                bench_costs.planned(entries, state.suite), width=width, suites=(state.suite,)
            )
            return Section(bench_page.title(state.suite, measured), (table,))
        over = {each.bench_id for each in measured.measurements} | {
            each.bench_id for each in measured.failures
        }
        left = (
            [entry.id for entry in bench_costs.planned(entries, state.suite) if entry.id not in over]
            if is_running
            else []
        )
        named = measured if measured.started else msgspec.structs.replace(measured, suite=state.suite)
        return bench_page.results_section(
            named,
            state.judgement,
            waiting=left,
            show_all=self._show_all,
            width=width,
        )

    def _entries(self, facts: MachineFacts | None) -> tuple[BenchEntry, ...]:
        """Return the benchmarks for this machine; the list is made only once for the same facts."""
        if facts is not None and self._listed[0] is not facts:
            self._listed = (facts, list_benchmarks(facts, MeasureOptions()))
        return self._listed[1]

    def action_show_all(self) -> None:
        self._show_all = not self._show_all
        self.refresh_state()

    def action_plot(self) -> None:
        self._show_plots = not self._show_plots
        self.refresh_state()

    def action_suite(self) -> None:
        self.desk.choose_suite()

    def action_pin(self) -> None:
        self.desk.pin()

    def action_start(self) -> None:
        self.desk.measure()
