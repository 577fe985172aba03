"""Define the base of all screens: title bar, body, footer, and a message for too small terminals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import Screen
from textual.widgets import Footer, Static

from assistant.pages.blocks import Section, section, words
from assistant.tui.desk import Desk, desk_of
from assistant.tui.panel_writer import body, whole
from assistant.tui.session import Problem, State
from assistant.tui.widgets.panel import PanelBox
from assistant.tui.widgets.title_bar import TitleBar

TOO_SMALL = (
    "rigtune needs at least 60 columns and 20 rows: enlarge this terminal, "
    "or use `rigtune check` and `rigtune auto`."
)
TWO_COLUMNS = 100
"""Columns from which a page has two panes."""
ROOMY = 140
"""Columns from which a page shows everything it has."""


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

    def leave(self) -> bool:
        """Handle `esc`: return True if it closed something on the page, False to return to the overview."""
        return False

    @property
    def desk(self) -> Desk:
        return desk_of(self.app)

    @property
    def is_wide(self) -> bool:
        return self.size.width >= TWO_COLUMNS

    @property
    def is_roomy(self) -> bool:
        return self.size.width >= ROOMY

    def refresh_state(self) -> None:
        """Draw the present state; a bug in a page is reported once, and the application goes on."""
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
            hint = [f"  {problem.hint}"] if problem.hint else []
            panel.update(body(section("", [words((f"✗ {problem.message}", "bad")), *hint])))

    def show_panels(self, sections: Mapping[str, Section], width: int = 100) -> None:
        """Draw each section in the panel of that id; an empty section hides its panel."""
        for name, shown in sections.items():
            self.query_one(f"#{name}", PanelBox).show(shown, width)

    def show_words(self, name: str, shown: Section) -> None:
        """Draw a section without a frame; an empty section is hidden."""
        static = self.query_one(f"#{name}", Static)
        static.display = not shown.is_empty
        static.update(whole((shown,)))
