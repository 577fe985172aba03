"""Show the form for the workload: model, global batch, sequence length, nodes."""

from __future__ import annotations

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, Static

from assistant.pages.training.plan_page import FIELDS, form_hints, form_values, request_of
from assistant.tui.dialogs.dialog import Dialog
from assistant.tui.session import State
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError


class WorkloadDialog(Dialog[PlanRequest]):
    """A form with the values of the present plan; an empty field leaves the choice to rigtune."""

    TITLE_WORDS = "Workload"
    HINT = "enter plans   tab moves   esc cancels"
    AUTO_FOCUS = "#model"

    def __init__(self, state: State, models: tuple[str, ...]) -> None:
        super().__init__()
        self._request = state.request
        self._values = form_values(state.request, state.plan)
        self._hints = form_hints(state.plan)
        self._models = models

    def compose_content(self) -> ComposeResult:
        for field in FIELDS:
            with Horizontal(classes="field"):
                yield Label(field.label)
                suggester = (
                    SuggestFromList(self._models, case_sensitive=False) if field.name == "model" else None
                )
                yield Input(
                    self._values[field.name],
                    placeholder=self._hints[field.name],
                    id=field.name,
                    suggester=suggester,
                    compact=True,
                )
        yield Static(f"models: {', '.join(self._models)}", id="models", markup=False)
        yield Static(id="complaint", markup=False)

    @on(Input.Submitted)
    def _accept(self) -> None:
        values = {field.name: self.query_one(f"#{field.name}", Input).value for field in FIELDS}
        try:
            request = request_of(values)
        except UsageError as error:
            self.query_one("#complaint", Static).update(f"{error.message}; {error.hint}")
            return
        self.dismiss(
            msgspec.structs.replace(request, pins=self._request.pins, precision=self._request.precision)
        )
