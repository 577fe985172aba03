"""Overview: can this machine train, and what is the next step?"""

from __future__ import annotations

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from assistant.present import header, overview
from assistant.present.fabric import fabric
from assistant.present.machine import host, software
from assistant.present.observed import observed
from assistant.present.text import Panel
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
    """The verdict first, then the machine; rows fill as collectors report."""

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
        self.query_one("#verdict", PanelBox).show(Panel("Verdict", self._verdict(state)))
        facts = state.facts
        self.query_one("#columns").display = facts is not None
        if facts is None:
            return
        complete, is_tall = state.facts_complete, self.size.height >= _TALL
        width = self.size.width // (2 if self.is_wide else 1) - _FRAME_WIDTH
        panels = {
            "accelerators": overview.accelerators(
                facts, state.findings, complete=complete, fold=not is_tall, width=width
            ),
            "finding-counts": overview.finding_counts(
                state.findings, _MOST_FINDINGS if is_tall else _FEW_FINDINGS
            ),
            "way": overview.way(self._milestones(state)),
            "fabric": fabric(facts, complete=complete),
            "software": software(facts, complete=complete),
        }
        # Without a GPU the processor stands where the GPUs would.
        has_gpus = overview.has_gpus(facts)
        self.query_one("#host").display = has_gpus
        self.query_one("#processor").display = not has_gpus
        panels["host" if has_gpus else "processor"] = host(
            facts, complete=complete, title="Host" if has_gpus else "Processor and host"
        )
        seen = observed(facts)
        self.query_one("#observed").display = seen is not None
        if seen is not None:
            panels["observed"] = seen
        for name, panel in panels.items():
            self.query_one(f"#{name}", PanelBox).show(panel)

    def _milestones(self, state: State) -> tuple[overview.Milestone, ...]:
        return overview.milestones(
            state.facts, state.findings, state.measured, state.plan, state.written, is_live=state.is_live
        )

    def _verdict(self, state: State) -> Text:
        status = state.verdict.verdict if state.verdict is not None else None
        step = self._step(state)
        row = next(row for row in SCREENS if row.id == step.screen)
        running = state.running_stage("probe") or state.running_stage("check")
        progress = (
            header.progress(running.title, running.message, running.done, running.total) if running else ""
        )
        head = overview.headline(status, state.findings, has_gpus=overview.has_gpus(state.facts))
        return overview.verdict(head, step, row.key, row.title, progress)

    def _step(self, state: State) -> overview.NextStep:
        return overview.next_step(
            state.verdict.verdict if state.verdict is not None else None,
            is_live=state.is_live,
            has_torch=overview.has_torch(state.facts),
            has_measurements=bool(state.measured.measurements),
            has_plan=state.plan is not None,
        )

    def action_next_step(self) -> None:
        self.desk.go(self._step(self.desk.state).screen)
