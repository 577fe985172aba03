"""Asks where to write the files of a launcher."""

from __future__ import annotations

from typing import NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.widgets import Checkbox, Input, Static

from assistant.present.recipe import LauncherFiles, file_names
from assistant.tui.dialogs.base import Dialog


class ExportChoice(NamedTuple):
    """Where to write, and whether files that somebody changed may be replaced."""

    directory: str
    overwrite: bool


class ExportDialog(Dialog[ExportChoice]):
    """One `enter` accepts the proposed folder."""

    TITLE_WORDS = "Export"
    HINT = "enter writes   tab moves   esc cancels"
    AUTO_FOCUS = "#directory"

    def __init__(self, files: LauncherFiles, directory: str) -> None:
        super().__init__()
        self._files = files
        self._directory = directory

    def compose_content(self) -> ComposeResult:
        yield Static("Folder", classes="label")
        yield Input(self._directory, id="directory", select_on_focus=False)
        yield Static(file_names(self._files))
        yield Checkbox("replace files that were changed by hand", id="overwrite", compact=True)
        yield Static(id="complaint")

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        directory = event.value.strip()
        if not directory:
            self.query_one("#complaint", Static).update("Name a folder.")
            return
        self.dismiss(ExportChoice(directory, self.query_one("#overwrite", Checkbox).value))
