"""Define the base of all screens, with title bar and footer, and the panels that screens consist of."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import Screen
from textual.widgets import Footer, Static

from assistant.pages.blocks import Section, section, words
from assistant.pages.machine.header import machine_line, progress, running_line
from assistant.tui.actions import MACHINE_ACTIONS
from assistant.tui.panel_writer import body, line, whole
from assistant.tui.session import Problem, State

if TYPE_CHECKING:
    from assistant.tui.app import RigtuneApp

TOO_SMALL = (
    "rigtune needs at least 60 columns and 20 rows: enlarge this terminal, "
    "or use `rigtune check` and `rigtune auto`."
)
ROOMY = 140
"""Smallest width at which a page shows all its panels."""


class PanelBox(Static):
    """A box with the full height of its section; an empty section is hidden."""

    def show(self, section: Section, width: int = 100) -> None:
        """Draw `section`; its charts are `width` cells wide."""
        self.display = not section.is_empty
        self.border_title = line(section.title)
        self.update(body(section, width))


class ScrollBox(VerticalScroll):
    """A box whose section may be taller than the box; it scrolls when it has the focus."""

    def __init__(self, *, id: str) -> None:  # noqa: A002  Textual's name
        super().__init__(id=id)
        self._content = Static()

    def compose(self) -> ComposeResult:
        yield self._content

    def show(self, section: Section) -> None:
        """Draw `section` below the title of the box."""
        self._content.update(body(section))


class TitleBar(Vertical):
    """Screens on the first line; host, source and interpreter, or the running stage, on the second."""

    def __init__(self, screen_id: str) -> None:
        super().__init__()
        self._screen_id = screen_id

    def compose(self) -> ComposeResult:
        names = []
        for row in cast("RigtuneApp", self.app).SCREEN_ROWS:
            marks = ("[reverse]", "[/reverse]") if row.id == self._screen_id else ("", "")
            label = f" [b]{row.key}[/b] {row.title} ".join(marks)
            names.append(f"[@click=app.go('{row.id}')]{label}[/]")
        yield Static(" ".join(names), id="screens")
        yield Static(id="machine")

    def show(self, state: State) -> None:
        shown = machine_line(state.facts, state.source_title, trains=state.has_machine)
        if state.running:
            now = state.running[-1]
            shown = running_line(state.facts, progress(now.title, now.message, now.done, now.total))
        self.query_one("#machine", Static).update(line(shown))


class Frame(Screen[None]):
    """A screen of the application.

    Subclasses compose a body and show the state; their only own data is the user's choice on the page.
    """

    SCREEN_ID: ClassVar[str]
    AUTO_FOCUS = ""
    _is_broken = False
    """True after a failure to draw the page was reported."""

    def compose(self) -> ComposeResult:
        yield TitleBar(self.SCREEN_ID)
        with Vertical(id="body"):
            yield from self.compose_body()
        yield Footer(show_command_palette=False)
        yield Static(TOO_SMALL, id="too-small", markup=False)

    def compose_body(self) -> ComposeResult:
        """Yield the page's own widgets."""
        raise NotImplementedError

    def show(self, state: State) -> None:
        """Draw `state`; called after each change, when the screen appears and after a resize."""
        raise NotImplementedError

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action applies; Textual calls this method by its name."""
        return self.desk.state.has_machine or action not in MACHINE_ACTIONS

    def leave(self) -> bool:
        """Handle `esc`: return True if it closed something on the page, False to return to the overview."""
        return False

    @property
    def desk(self) -> "RigtuneApp":
        """The application, which owns the state and starts all work."""
        return cast("RigtuneApp", self.app)

    @property
    def is_roomy(self) -> bool:
        return self.size.width >= ROOMY

    def refresh_state(self) -> None:
        """Draw the present state; a bug in a page is reported once, and the application continues."""
        if not self.is_mounted:
            return
        state = self.desk.state
        try:
            self.query_one(TitleBar).show(state)
            self.show(state)
        except Exception as error:  # noqa: BLE001  the boundary around one page
            if not self._is_broken:
                self._is_broken = True
                self.desk.report_bug(error)
        else:
            self._is_broken = False

    def on_screen_resume(self) -> None:
        self.refresh_state()

    def on_resize(self) -> None:
        self.refresh_state()

    def show_problem(self, problem: Problem | None) -> None:
        """Fill or hide the page's problem panel (`#problem`)."""
        panel = self.query_one("#problem", Static)
        panel.display = problem is not None
        if problem is not None:
            hint = [f"  {problem.hint}"] * bool(problem.hint)
            panel.update(body(section("", [words((f"✗ {problem.message}", "bad")), *hint])))

    def show_panels(self, sections: Mapping[str, Section], width: int = 100) -> None:
        """Draw each section in the panel with the given id; an empty section hides its panel."""
        for name, shown in sections.items():
            self.query_one(f"#{name}", PanelBox).show(shown, width)

    def show_words(self, name: str, shown: Section) -> None:
        """Draw a section without a frame; an empty section is hidden."""
        static = self.query_one(f"#{name}", Static)
        static.display = not shown.is_empty
        static.update(whole((shown,)))
