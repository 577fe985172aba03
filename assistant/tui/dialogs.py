"""Define the dialogs: a titled box in the middle of the screen that `esc` closes."""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple, TypeVar

from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input, Label, Static

from assistant.pages.blocks import Cell, Column, Section, Table, section, words
from assistant.pages.explain_page import explain_page
from assistant.pages.training.plan_form import (
    FIELDS,
    JobRequest,
    choices,
    form_hints,
    form_values,
    read_form,
)
from assistant.pages.training.recipe_page import LauncherFiles, file_names, overwrite_words
from assistant.tui.actions import Action, ScreenRow, shown_key
from assistant.tui.panel_writer import body, line, whole
from assistant.tui.session import State
from probes.logs.diagnosis import Explanation

Answer = TypeVar("Answer")
REPLACE_HINT = "press e again, and choose another folder, or press ctrl+o before enter to replace the file"
"""Hint about a file that a person changed."""
MOVING = (
    ("arrows", "Move", "Move in a list, or scroll; page up and down, home and end do it in larger steps"),
)


class Dialog(ModalScreen[Answer]):
    """A modal box. Subclasses compose its content and dismiss it with their answer.

    The key `esc` dismisses it with None.
    """

    TITLE_WORDS: ClassVar[str] = ""
    HINT: ClassVar[str] = "esc closes"
    IS_TEXT: ClassVar[bool] = False
    """True for a box without fields: the arrow keys scroll it."""
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "Close", show=False)]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog", can_focus=self.IS_TEXT) as box:
            box.border_title = Text(self.TITLE_WORDS)
            box.border_subtitle = Text(self.HINT)
            yield from self.compose_content()

    def compose_content(self) -> ComposeResult:
        yield Static()

    def action_close(self) -> None:
        self.dismiss(None)


class BugDialog(Dialog[None]):
    """A dialog with the error and the file of its traceback; the facts that were read stay usable."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "A bug in rigtune"
    HINT = "esc continues"

    def __init__(self, error: str, saved_in: str) -> None:
        super().__init__()
        self._error = error
        self._saved_in = saved_in

    def compose_content(self) -> ComposeResult:
        lines = (
            words((self._error, "bad")),
            f"The traceback was saved in {self._saved_in}."
            if self._saved_in
            else "The traceback could not be saved.",
            "Please report it with that file and, if you can, a recording: "
            "rigtune probe --record machine.json",
            words(("Everything that was read so far is kept; r reads the machine again.", "dim")),
        )
        yield Static(body(section("", lines)))


class ExportChoice(NamedTuple):
    """Folder to write to, and whether files that a person changed may be replaced."""

    directory: str
    overwrite: bool


class ExportDialog(Dialog[ExportChoice]):
    """A dialog with the proposed folder, which `enter` accepts."""

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
        if directory := event.value.strip():
            self.dismiss(ExportChoice(directory, self._overwrite))
        else:
            self.query_one("#complaint", Static).update("Name a folder.")


class KeysDialog(Dialog[None]):
    """A list of keys: the keys of the screen first, then the keys that apply to all screens."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "Keys"

    def __init__(self, screen_id: str, screens: Sequence[ScreenRow], actions: Sequence[Action]) -> None:
        super().__init__()
        self._screen_id = screen_id
        self._screens = screens
        self._actions = actions

    def compose_content(self) -> ComposeResult:
        here = next(row for row in self._screens if row.id == self._screen_id)
        own = [(shown_key(row), row.title, row.help) for row in self._actions if row.screens]
        everywhere = [
            (shown_key(row), row.title, row.help) for row in self._actions if not row.screens and row.key
        ]
        rows: list[tuple[Cell, ...]] = []
        for heading, keys in (
            (here.title, own),
            ("Everywhere", [*everywhere, *MOVING]),
            ("Screens", [(row.key, row.title, row.purpose) for row in self._screens]),
        ):
            rows += [()] * bool(rows) + [("", words((heading, "strong")))]
            rows += [
                (words((key, "strong")), title, words((help_words, "dim"))) for key, title, help_words in keys
            ]
        yield Static(
            body(Section("", (Table((Column(fixed=True), Column(fixed=True), Column()), tuple(rows)),)))
        )


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
        if path in ("", "-"):
            self.query_one("#complaint", Static).update("Name a file or a folder.")
        else:
            self.dismiss(path)


class ExplanationDialog(Dialog[None]):
    """The causes that were found in a log, each with its lines and remedy, and the facts of the run."""

    IS_TEXT = True
    AUTO_FOCUS = ".dialog"
    TITLE_WORDS = "What the log shows"
    HINT = "up/down scroll   esc closes"

    def __init__(self, explanation: Explanation) -> None:
        super().__init__()
        self._explanation = explanation

    def compose_content(self) -> ComposeResult:
        yield Static(whole(explain_page(self._explanation, verbose=True, folds=True)), id="explanation")


class QuitDialog(Dialog[bool]):
    """A question whose answer is True to stop the running stage and leave."""

    TITLE_WORDS = "Something is running"
    HINT = "enter or q stops it and leaves   esc stays"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,q,y", "leave", "Stop and leave", show=False)]

    def __init__(self, what: str) -> None:
        super().__init__()
        self._what = what

    def compose_content(self) -> ComposeResult:
        yield Static(f"{self._what} is under way. Stop it and leave?", markup=False)

    def action_leave(self) -> None:
        self.dismiss(True)  # noqa: FBT003 - the answer


class WorkloadDialog(Dialog[JobRequest]):
    """A form with the values of the present plan; an empty field leaves the choice to rigtune."""

    TITLE_WORDS = "Workload"
    HINT = "enter plans   tab moves   esc cancels"
    AUTO_FOCUS = "#model"

    def __init__(self, state: State, models: tuple[str, ...]) -> None:
        super().__init__()
        self._job = state.job
        self._values = form_values(state.job, state.plan)
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
            complaint = Static(id=f"{field.name}-complaint", classes="complaint", markup=False)
            complaint.display = False
            yield complaint
        yield Static(id="choices", markup=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self.query_one(f"#{event.input.id}-complaint").display = False  # it complained about the earlier text
        if event.input.has_focus:
            self._show_choices(event.input)

    @on(events.DescendantFocus)
    def _choices_of_focused(self, event: events.DescendantFocus) -> None:
        if isinstance(event.widget, Input):
            self._show_choices(event.widget)

    def _show_choices(self, field: Input) -> None:
        """Show the words that the field accepts; a field that is unchanged shows its first words."""
        name = field.id or ""
        typed = "" if field.value == self._values[name] else field.value
        self.query_one("#choices", Static).update(choices(name, typed, self._models))

    @on(Input.Submitted)
    def _accept(self) -> None:
        values = {field.name: self.query_one(f"#{field.name}", Input).value for field in FIELDS}
        filled = read_form(values, self._job.request)
        for field in FIELDS:
            complaint = self.query_one(f"#{field.name}-complaint", Static)
            complaint.update(filled.complaints.get(field.name, ""))
            complaint.display = field.name in filled.complaints
        if filled.job is not None:
            self.dismiss(filled.job)
        else:
            wrong = next(field.name for field in FIELDS if field.name in filled.complaints)
            self.query_one(f"#{wrong}", Input).focus()
