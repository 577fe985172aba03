"""Benchmarks: what this machine really delivers, beside what it compares to."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from assistant.present import benchmarks, header
from assistant.present.text import Panel
from assistant.tui.actions import screen_bindings
from assistant.tui.frame import Frame
from assistant.tui.session import State
from assistant.tui.widgets.panel import PanelBox
from assistant.usecases.bench.bench_list import BenchEntry, list_benchmarks
from assistant.usecases.measure import MeasureOptions
from probes.facts import MachineFacts

_BESIDES = 7
"""Columns that frame, padding and scroll bar take from a panel."""


class BenchmarksScreen(Frame):
    """The cost before a run, its results while it runs, and what failed with the command to repeat it."""

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
        running, measured, suite = state.running_stage("bench"), state.measured, state.suite
        progress = ""
        if running:
            progress = header.progress(
                running.title, running.message, running.done, running.total, running.remaining_s
            )
        entries = self._entries(state.facts)
        intro = benchmarks.intro(
            state.facts,
            measured,
            is_live=state.is_live,
            progress=progress,
            note=state.measuring_note,
            entries=entries,
            suite=suite,
        )
        self.query_one("#intro", Static).update(intro)
        sick = self.query_one("#sick", PanelBox)
        sick.display = bool(benchmarks.sick(state.judgement))
        sick.show(Panel("What is slow", benchmarks.sick(state.judgement)))
        self._show_results(state, entries, is_running=running is not None)
        failed = self.query_one("#failures", PanelBox)
        failed.display = bool(measured.failures)
        failed.show(Panel("What failed", benchmarks.failures(measured.failures)))

    def _show_results(self, state: State, entries: tuple[BenchEntry, ...], *, is_running: bool) -> None:
        measured, width = state.measured, self.size.width - _BESIDES
        results = self.query_one("#results", PanelBox)
        results.display = state.is_live
        if not is_running and not measured.measurements:
            results.show(
                Panel(
                    benchmarks.title(state.suite, measured),
                    benchmarks.before(entries, state.suite, width=width),
                )
            )
        elif self._show_plots and measured.measurements:
            results.show(Panel("Curves", benchmarks.drawings(measured, state.judgement, width=width)))
        else:
            told = {one.bench_id for one in measured.measurements} | {
                one.bench_id for one in measured.failures
            }
            left = (
                [entry.id for entry in benchmarks.planned(entries, state.suite) if entry.id not in told]
                if is_running
                else []
            )
            page = benchmarks.page(
                measured,
                state.judgement,
                running=left[0] if left else "",
                queued=left[1:],
                show_all=self._show_all,
                width=width,
            )
            results.show(
                Panel(benchmarks.title(measured.suite if measured.started else state.suite, measured), page)
            )

    def _entries(self, facts: MachineFacts | None) -> tuple[BenchEntry, ...]:
        """What can be measured here; asked once for each state of the facts."""
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
