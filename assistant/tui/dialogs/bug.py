"""Shown when rigtune itself is at fault."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from assistant.present.text import bug_words
from assistant.tui.dialogs.base import Dialog


class BugDialog(Dialog[None]):
    """Names the error and the file that holds its traceback; what was learned so far stays usable."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "A bug in rigtune"
    HINT = "esc goes on"

    def __init__(self, error: str, saved_in: str) -> None:
        super().__init__()
        self._error = error
        self._saved_in = saved_in

    def compose_content(self) -> ComposeResult:
        yield Static(bug_words(self._error, self._saved_in))
