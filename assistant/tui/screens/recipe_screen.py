"""Show the recipe: the exact files of each launcher, and where to write them."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Row, Section
from assistant.pages.training import recipe_page as page
from assistant.pages.training.plan_page import waiting
from assistant.tui.actions import screen_bindings
from assistant.tui.dialogs.export_dialog import ExportChoice, ExportDialog
from assistant.tui.frame import Frame
from assistant.tui.session import State
from assistant.tui.widgets.panel import PanelBox


class RecipeScreen(Frame):
    """Tabs of launchers, the script as it will be written, and the result of writing it."""

    SCREEN_ID = "recipe"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#script"

    def __init__(self) -> None:
        super().__init__()
        self._launcher = 0
        self._shown: tuple[page.LauncherFiles, ...] = ()

    def compose_body(self) -> ComposeResult:
        yield Static(id="launchers")
        yield Static(id="problem")
        with VerticalScroll(id="script"):
            yield Static(id="script-text")
        yield PanelBox(id="destination")

    def show(self, state: State) -> None:
        problem = state.problem_of("export") or state.problem_of("recipe") or state.problem_of("plan")
        self.show_problem(problem)
        prepared = state.prepared
        self.query_one("#script").display = prepared is not None
        self.query_one("#destination").display = prepared is not None
        if prepared is None:
            self._shown = ()
            self.show_words("launchers", waiting("recipe", state.facts, has_failed=problem is not None))
            return
        self._launcher %= len(prepared.launchers)
        files = prepared.launchers[self._launcher]
        self.show_words("launchers", Section("", (Row(page.tabs(prepared, self._launcher)),)))
        if self._shown != (files,):
            self._shown = (files,)
            self.show_words("script-text", page.scripts(files))
            self.query_one("#script").scroll_home(animate=False)
        is_written = state.written and state.exported_launcher == files.launcher
        self.query_one("#destination", PanelBox).show(
            page.written(files, prepared.recipe, state.written)
            if is_written
            else page.destination(files, self.desk.services.directory)
        )

    def action_launcher(self) -> None:
        self._launcher += 1
        self.refresh_state()

    def action_copy(self) -> None:
        if not self._shown:
            self.desk.say("There is no script yet.", is_problem=True)
            return
        artifact = self._shown[0].artifacts[0]
        self.app.copy_to_clipboard(artifact.text)
        self.desk.say(f"Copied {artifact.path}")

    def action_export(self) -> None:
        if not self._shown:
            self.desk.say("There is nothing to export yet. Make a plan first (press 5).", is_problem=True)
            return
        files = self._shown[0]

        def chosen(choice: ExportChoice | None) -> None:
            if choice is not None:
                self.desk.export(files.launcher, choice.directory, overwrite=choice.overwrite)

        self.app.push_screen(ExportDialog(files, self.desk.services.directory), chosen)
