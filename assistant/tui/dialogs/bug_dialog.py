"""Show an error of rigtune itself."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.widgets import Static

from assistant.pages.blocks import section, words
from assistant.tui.dialogs.dialog import Dialog
from assistant.tui.panel_writer import body


class BugDialog(Dialog[None]):
    """A dialog with the error and the file of its traceback; the facts read so far stay usable."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "A bug in rigtune"
    HINT = "esc goes on"

    def __init__(self, error: str, saved_in: str) -> None:
        super().__init__()
        self._error = error
        self._saved_in = saved_in

    def compose_content(self) -> ComposeResult:
        where = (
            f"The traceback was saved in {self._saved_in}"
            if self._saved_in
            else "The traceback could not be saved"
        )
        lines = (
            words((self._error, "bad")),
            f"{where}.",
            "Please report it with that file and, if you can, a recording: "
            "rigtune probe --record machine.json",
            words(("Everything that was learned so far is kept; r reads the machine again.", "dim")),
        )
        yield Static(body(section("", lines)))
