"""Show the plan: how to train a model here, each decision with its basis."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Section
from assistant.pages.training import plan_page as page
from assistant.tui.actions import screen_bindings
from assistant.tui.dialogs.workload_dialog import WorkloadDialog
from assistant.tui.frame import Frame
from assistant.tui.session import State
from assistant.tui.widgets.panel import PanelBox
from assistant.usecases.plan import PlanRequest


class PlanScreen(Frame):
    """The workload, the decisions and the prediction; one key shows the rejected candidates."""

    SCREEN_ID = "plan"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#plan-panels"

    def __init__(self) -> None:
        super().__init__()
        self._show_rejected: bool | None = None
        """None until the user has chosen; then rejected candidates are shown if there is room."""

    def compose_body(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="problem")
        with VerticalScroll(id="plan-panels"):
            yield Static(id="notices")
            yield PanelBox(id="decisions")
            with Horizontal(id="prediction"):
                yield PanelBox(id="memory")
                yield PanelBox(id="time")
            yield PanelBox(id="rejected")

    def show(self, state: State) -> None:
        problem = state.problem_of("plan")
        self.show_problem(problem)
        plan = state.plan if problem is None else None
        self.query_one("#plan-panels").display = plan is not None
        self.show_words(
            "headline",
            page.headline(plan)
            if plan
            else page.waiting("plan", state.facts, has_failed=problem is not None),
        )
        if plan is None:
            return
        self.show_words("notices", page.notices(plan))
        memory, time = page.prediction(plan)
        decisions = (
            page.decisions(plan, with_alternatives=True) if self.is_roomy else page.narrow_decisions(plan)
        )
        others = page.others(plan) if self._is_rejected_shown else Section()
        self.show_panels({"decisions": decisions, "memory": memory, "time": time, "rejected": others})

    @property
    def _is_rejected_shown(self) -> bool:
        return self.is_roomy if self._show_rejected is None else self._show_rejected

    def action_rejected(self) -> None:
        self._show_rejected = not self._is_rejected_shown
        self.refresh_state()
        if self._show_rejected:
            self.call_after_refresh(self.query_one("#rejected").scroll_visible, animate=False, top=True)

    def action_workload(self) -> None:
        def planned(request: PlanRequest | None) -> None:
            if request is not None:
                self.desk.plan(request)

        self.app.push_screen(WorkloadDialog(self.desk.state, self.desk.services.models), planned)
