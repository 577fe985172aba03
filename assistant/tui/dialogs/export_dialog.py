"""Ask where to write the files of a launcher."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from assistant.pages.training.recipe_page import LauncherFiles, file_names, overwrite_words
from assistant.tui.dialogs.dialog import Dialog
from assistant.tui.panel_writer import line

REPLACE_HINT = "e again: choose another folder, or ctrl+o before enter replaces it"
"""Hint about a file that somebody changed by hand."""


class ExportChoice(NamedTuple):
    """Folder to write to, and whether files that somebody changed may be replaced."""

    directory: str
    overwrite: bool


class ExportDialog(Dialog[ExportChoice]):
    """A dialog with the proposed folder, which one `enter` accepts."""

    TITLE_WORDS = "Export"
    HINT = "enter writes   ctrl+o replaces   esc cancels"
    AUTO_FOCUS = "#directory"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+o", "toggle_overwrite", "Replace", show=False)]

    def __init__(self, files: LauncherFiles, directory: str) -> None:
        super().__init__()
        self._files = files
        self._directory = directory
        self._overwrite = False

    def compose_content(self) -> ComposeResult:
        yield Static("Folder", classes="label")
        yield Input(self._directory, id="directory", select_on_focus=False, compact=True)
        yield Static(line(file_names(self._files)))
        yield Static(line(overwrite_words(overwrite=False)), id="overwrite")
        yield Static(id="complaint")

    def action_toggle_overwrite(self) -> None:
        self._overwrite = not self._overwrite
        self.query_one("#overwrite", Static).update(line(overwrite_words(overwrite=self._overwrite)))

    @on(Input.Submitted)
    def _accept(self, event: Input.Submitted) -> None:
        directory = event.value.strip()
        if not directory:
            self.query_one("#complaint", Static).update("Name a folder.")
            return
        self.dismiss(ExportChoice(directory, self._overwrite))
