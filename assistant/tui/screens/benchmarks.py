"""Benchmarks: what this machine really delivers, beside what is published."""

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


class BenchmarksScreen(Frame):
    """The cost before a run, its results while it runs, and what failed with the command to repeat it."""

    SCREEN_ID = "benchmarks"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#benchmark-panels"

    def __init__(self) -> None:
        super().__init__()
        self._show_all = False

    def compose_body(self) -> ComposeResult:
        yield Static(id="problem")
        with VerticalScroll(id="benchmark-panels"):
            yield Static(id="intro")
            yield PanelBox(id="results")
            yield PanelBox(id="failures")

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("bench"))
        running = state.running_stage("bench")
        progress = header.progress(running.title, running.message, running.done, running.total) if running else ""
        intro = benchmarks.intro(state.facts, state.measured, is_live=state.is_live, progress=progress, note=state.measuring_note)
        self.query_one("#intro", Static).update(intro)
        table = benchmarks.table(
            state.measured,
            state.facts,
            self.desk.services.catalogue,
            is_running=running is not None,
            show_all=self._show_all,
            is_wide=self.is_roomy,
        )
        results = self.query_one("#results", PanelBox)
        results.display = state.is_live
        results.show(Panel("Quick suite", table))
        failed = self.query_one("#failures", PanelBox)
        failed.display = bool(state.measured.failures)
        failed.show(Panel("What failed", benchmarks.failures(state.measured.failures)))

    def action_show_all(self) -> None:
        self._show_all = not self._show_all
        self.refresh_state()

    def action_start(self) -> None:
        self.desk.measure()
