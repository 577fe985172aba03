"""Ask for a log, and show its explanation with the lines of the log."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.widgets import Input, Static

from assistant.pages.explain_page import explain_page
from assistant.tui.dialogs.dialog import Dialog
from assistant.tui.panel_writer import whole
from probes.logs.diagnosis import Explanation


class LogsDialog(Dialog[str]):
    """A dialog whose answer is the path of a log, or of a folder of logs."""

    TITLE_WORDS = "Logs"
    HINT = "enter explains   esc cancels"
    AUTO_FOCUS = "#log"

    def __init__(self, path: str, complaint: str = "") -> None:
        """`complaint` is the problem with `path`."""
        super().__init__()
        self._path = path
        self._complaint = complaint

    def compose_content(self) -> ComposeResult:
        yield Static("Log of NCCL, torch, Slurm or the kernel, or a folder of them", classes="label")
        yield Input(self._path, id="log", select_on_focus=False, compact=True)
        yield Static(self._complaint, id="complaint", markup=False)

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        path = event.value.strip()
        if not path or path == "-":
            self.query_one("#complaint", Static).update("Name a file or a folder.")
            return
        self.dismiss(path)


class ExplanationDialog(Dialog[None]):
    """The causes with their lines, remedies and facts."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "What the log says"
    HINT = "up/down scroll   esc closes"

    def __init__(self, explanation: Explanation) -> None:
        super().__init__()
        self._explanation = explanation

    def compose_content(self) -> ComposeResult:
        yield Static(whole(explain_page(self._explanation, verbose=True, folds=True)), id="explanation")
