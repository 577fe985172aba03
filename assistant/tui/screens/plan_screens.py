"""Show the plan with the basis of each decision, and the recipe: the exact files of each launcher."""

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import Static

from assistant.pages.blocks import Row, Section
from assistant.pages.training import plan_page, recipe_page
from assistant.pages.training.environment_lines import environment_section
from assistant.pages.training.plan_form import JobRequest
from assistant.pages.training.run_lines import run_section
from assistant.tui.actions import screen_bindings
from assistant.tui.dialogs import ExportChoice, ExportDialog, WorkloadDialog
from assistant.tui.frame import Frame, PanelBox
from assistant.tui.session import State
from recipes.planning.plan import Plan


class PlanScreen(Frame):
    """The workload, the decisions and the prediction; one key shows the rejected candidates."""

    SCREEN_ID = "plan"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#plan-panels"

    def __init__(self) -> None:
        super().__init__()
        self._show_rejected: bool | None = None
        """The user's choice; while it is None, rejected candidates are shown if there is room."""
        self._shown: Plan | None = None

    def compose_body(self) -> ComposeResult:
        yield Static(id="headline")
        yield Static(id="problem")
        with VerticalScroll(id="plan-panels"):
            yield Static(id="notices")
            yield PanelBox(id="decisions")
            yield PanelBox(id="environment")
            yield PanelBox(id="own")
            with Horizontal(id="prediction"):
                yield PanelBox(id="memory")
                yield PanelBox(id="time")
            yield PanelBox(id="run")
            yield PanelBox(id="rejected")

    def show(self, state: State) -> None:
        problem = state.problem_of("plan")
        self.show_problem(problem)
        plan = state.plan if problem is None else None
        self.query_one("#plan-panels").display = plan is not None
        self.show_words(
            "headline",
            plan_page.headline(plan)
            if plan
            else plan_page.waiting(
                "plan", state.facts, has_failed=problem is not None, has_machine=state.has_machine
            ),
        )
        if plan is None:
            return
        self.show_words("notices", plan_page.notices(plan))
        memory, time = plan_page.prediction(plan)
        decisions = plan_page.decisions(plan)
        rejected = plan_page.others(plan) if self._is_rejected_shown else Section()
        panels = {"decisions": decisions, "own": plan_page.own_words(plan), "memory": memory, "time": time}
        panels["environment"] = environment_section(plan.environment, plan.cluster)
        self.show_panels({**panels, "run": run_section(plan), "rejected": rejected})
        if plan is not self._shown:
            self._shown = plan
            self.query_one("#plan-panels").scroll_home(animate=False)

    @property
    def _is_rejected_shown(self) -> bool:
        return self.is_roomy if self._show_rejected is None else self._show_rejected

    def action_rejected(self) -> None:
        self._show_rejected = not self._is_rejected_shown
        self.refresh_state()
        if self._show_rejected:
            self.call_after_refresh(self.query_one("#rejected").scroll_visible, animate=False, top=True)

    def action_workload(self) -> None:
        def planned(job: JobRequest | None) -> None:
            if job is not None:
                self.desk.plan(job)

        self.app.push_screen(WorkloadDialog(self.desk.state, self.desk.services.models), planned)


class RecipeScreen(Frame):
    """Tabs for the launchers, the script that will be written, and afterwards the written files."""

    SCREEN_ID = "recipe"
    BINDINGS = screen_bindings(SCREEN_ID)
    AUTO_FOCUS = "#script"

    def __init__(self) -> None:
        super().__init__()
        self._launcher = 0
        self._asked = ""
        """Launcher of the last job, which is shown first; afterwards the user chooses."""
        self._shown: tuple[recipe_page.LauncherFiles, ...] = ()

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
            waiting = plan_page.waiting(
                "recipe", state.facts, has_failed=problem is not None, has_machine=state.has_machine
            )
            self.show_words("launchers", waiting)
            return
        if state.job.launcher != self._asked:
            self._asked = state.job.launcher
            ids = [entry.launcher for entry in prepared.launchers]
            self._launcher = ids.index(self._asked) if self._asked in ids else 0
        self._launcher %= len(prepared.launchers)
        files = prepared.launchers[self._launcher]
        self.show_words("launchers", Section("", (Row(recipe_page.tabs(prepared, self._launcher)),)))
        if self._shown != (files,):
            self._shown = (files,)
            self.show_words("script-text", recipe_page.scripts(files))
            self.query_one("#script").scroll_home(animate=False)
        self.query_one("#destination", PanelBox).show(
            recipe_page.written(files, prepared.recipe, state.written)
            if state.written and state.exported_launcher == files.launcher
            else recipe_page.destination(files, self.desk.services.directory)
        )

    def action_launcher(self) -> None:
        self._launcher += 1
        self.refresh_state()

    def action_copy(self) -> None:
        if not self._shown or not self._shown[0].artifacts:
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
        if files.problem:
            self.desk.say(files.problem, is_problem=True)
            return

        def chosen(choice: ExportChoice | None) -> None:
            if choice is not None:
                self.desk.export(files.launcher, choice.directory, overwrite=choice.overwrite)

        self.app.push_screen(ExportDialog(files, self.desk.services.directory), chosen)
