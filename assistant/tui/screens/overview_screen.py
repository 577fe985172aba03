"""Show the overview: whether this machine can train, and the next step."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Section
from assistant.pages.machine import header
from assistant.pages.machine.facts_page import panels
from assistant.pages.machine.gpu_table import gpus_section
from assistant.pages.verdict import findings_page, overview_page
from assistant.tui.actions import SCREENS, screen_bindings
from assistant.tui.frame import Frame
from assistant.tui.session import State
from assistant.tui.widgets.panel import PanelBox

_TALL = 36
"""Rows from which every GPU has its own line."""
_FRAME_WIDTH = 5
"""Cells of a panel's border and padding, and of the scroll bar."""
_MOST_FINDINGS = 10
_FEW_FINDINGS = 3


class OverviewScreen(Frame):
    """The verdict, then the machine; rows fill as collectors report."""

    SCREEN_ID = "overview"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#machine-panels"

    def compose_body(self) -> ComposeResult:
        yield PanelBox(id="verdict")
        yield Static(id="problem")
        with VerticalScroll(id="machine-panels"), Horizontal(id="columns"):
            with Vertical(id="left"):
                yield PanelBox(id="accelerators")
                yield PanelBox(id="processor")
                yield PanelBox(id="finding-counts")
                yield PanelBox(id="observed")
                yield PanelBox(id="way")
            with Vertical(id="right"):
                yield PanelBox(id="fabric")
                yield PanelBox(id="software")
                yield PanelBox(id="host")

    def show(self, state: State) -> None:
        self.show_problem(state.problem_of("probe") or state.problem_of("check"))
        self.show_panels({"verdict": self._verdict(state)})
        facts = state.facts
        self.query_one("#columns").display = facts is not None
        if facts is None:
            return
        complete, is_tall = state.facts_complete, self.size.height >= _TALL
        width = self.size.width // (2 if self.is_wide else 1) - _FRAME_WIDTH
        machine = panels(facts, complete=complete)
        # Without a GPU, the processor takes the place of the GPUs.
        host = machine.get("host", Section())
        has_gpus = overview_page.has_gpus(facts)
        shown = {
            "accelerators": gpus_section(
                facts, state.findings, complete=complete, fold=not is_tall, width=width
            ),
            "processor": Section() if has_gpus else host._replace(title="Processor and host"),
            "finding-counts": findings_page.summary(
                state.findings, _MOST_FINDINGS if is_tall else _FEW_FINDINGS
            ),
            "observed": machine.get("observed", Section()),
            "way": overview_page.way(
                facts, state.findings, state.measured, state.plan, state.written, is_live=state.is_live
            ),
            "fabric": machine.get("fabric", Section()),
            "software": machine.get("software", Section()),
            "host": host if has_gpus else Section(),
        }
        self.show_panels(shown)

    def _verdict(self, state: State) -> Section:
        step = self._step(state)
        row = next(row for row in SCREENS if row.id == step.screen)
        running = state.running_stage("probe") or state.running_stage("check")
        progress = (
            header.progress(running.title, running.message, running.done, running.total) if running else ""
        )
        return overview_page.verdict_section(
            state.verdict, state.facts, step=step, key=row.key, title=row.title, progress=progress
        )

    def _step(self, state: State) -> overview_page.NextStep:
        return overview_page.next_step(
            state.verdict.verdict if state.verdict is not None else None,
            is_live=state.is_live,
            has_torch=overview_page.has_torch(state.facts),
            has_measurements=bool(state.measured.measurements),
            has_plan=state.plan is not None,
        )

    def action_next_step(self) -> None:
        self.desk.go(self._step(self.desk.state).screen)
