"""Run the terminal UI: five screens over the same use cases as the command line.

Only the handlers here change the state; each stage of work runs beside the UI and posts its events.
"""

import asyncio
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import ClassVar

import msgspec
from textual import events
from textual.app import App, SystemCommand
from textual.filter import LineFilter
from textual.screen import Screen

from assistant.pages.measured.bench_page import lacks_torch
from assistant.pages.training.plan_form import JobRequest
from assistant.pages.training.recipe_page import start_words
from assistant.tui.actions import SCREENS, ScreenRow, actions_of, global_bindings
from assistant.tui.appearance import ANSI_COLOURS, THEME, AsciiFilter
from assistant.tui.background import (
    StageEnded,
    StageEvent,
    StageRun,
    Stop,
    leave_with_terminal,
    terminal_descriptor,
)
from assistant.tui.dialogs import (
    REPLACE_HINT,
    BugDialog,
    ExplanationDialog,
    KeysDialog,
    LogsDialog,
    QuitDialog,
)
from assistant.tui.frame import Frame
from assistant.tui.screens.benchmarks_screen import BenchmarksScreen
from assistant.tui.screens.machine_screens import FindingsScreen, OverviewScreen
from assistant.tui.screens.plan_screens import PlanScreen, RecipeScreen
from assistant.tui.services import Services
from assistant.tui.session import Problem, State, advance, begin, end
from assistant.tui.typing_order import TypingOrder
from assistant.usecases.events import Event
from assistant.usecases.export import ChangedFileError
from probes.base.errors import RigtuneError

ASKS_BEFORE_LEAVING = {"bench": "A benchmark", "export": "An export"}
LEAVING_TIMEOUT_S = 5.0
"""Time for a stopped benchmark to end its processes."""
GONE_TIMEOUT_S = LEAVING_TIMEOUT_S + 3.0
"""Time for the UI to end after its terminal is gone."""


class RigtuneApp(App[int]):
    """The application: it probes and checks at once, plans when the plan is first shown, and measures and
    writes only on request.
    """

    TITLE = "rigtune"
    SCREEN_ROWS: ClassVar[tuple[ScreenRow, ...]] = SCREENS
    CSS_PATH = "app.tcss"
    BINDINGS = global_bindings()
    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (60, "-narrow"), (100, "-medium"), (140, "-roomy")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (20, "-short"), (36, "-tall")]
    MODES = {
        "overview": OverviewScreen,
        "findings": FindingsScreen,
        "benchmarks": BenchmarksScreen,
        "plan": PlanScreen,
        "recipe": RecipeScreen,
    }

    def __init__(self, services: Services, *, ascii_only: bool = False) -> None:
        self._ascii_filters = [AsciiFilter()] * ascii_only
        super().__init__()
        # Read the descriptor now: it is lost if the terminal closes before the first screen is drawn.
        self._terminal = terminal_descriptor()
        self.services = services
        self.state = State(source_title=services.title, is_live=services.is_live)
        self.animation_level = "none"
        self._runs: dict[str, StageRun] = {}
        self._wants_plan = False
        self._wants_bench = False
        self._is_leaving = False
        self._is_refresh_due = False
        self._typing = TypingOrder(self, super().on_event)
        self.ansi_theme_dark = ANSI_COLOURS
        self.register_theme(THEME)
        self.theme = THEME.name
        if ascii_only:
            self.add_class("-ascii")

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, (events.Key, events.Paste)) and not event.is_forwarded:
            await self._typing.add(event)
        else:
            await super().on_event(event)

    def get_line_filters(self) -> Sequence[LineFilter]:
        return (*super().get_line_filters(), *self._ascii_filters)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield the entries of the palette: the screens, then the actions of the current screen."""
        for row in self.SCREEN_ROWS:
            yield SystemCommand(f"{row.title}", row.purpose, partial(self.action_go, row.id))
        if isinstance(screen, Frame):
            for action in actions_of(screen.SCREEN_ID, has_machine=self.state.has_machine):
                call = f"{'screen' if action.screens else 'app'}.{action.id}"
                if action.id != "command_palette":
                    yield SystemCommand(action.title, action.help, partial(self.run_action, call, screen))

    def on_mount(self) -> None:
        self.begin_work()
        if self._terminal is not None:
            loop = asyncio.get_running_loop()
            leave_with_terminal(
                self._terminal, lambda: loop.call_soon_threadsafe(self._leave), GONE_TIMEOUT_S
            )

    def begin_work(self) -> None:
        """Show the first screen, and start to read the machine."""
        self.switch_mode(SCREENS[0].id)
        self._probe()

    # Requests of screens and keys

    def action_go(self, screen: str) -> None:
        """Switch to `screen`; plan and recipe are made when they are first shown."""
        while self.screen.is_modal:
            self.pop_screen()
        self.switch_mode(screen)
        if screen in ("plan", "recipe"):
            self._wants_plan = True
            self._plan_if_wanted()

    def measure(self) -> None:
        """Run the chosen suite, or report the reason why that is not possible."""
        facts = self.state.facts
        if facts is None or not self.state.facts_complete:
            self.say("The machine is still being read; try again in a moment.", is_problem=True)
        elif not self.state.is_live:
            self.say("Only the live machine can be measured.", is_problem=True)
        elif lacks_torch(facts):
            self.say(
                "Measuring needs a training interpreter with torch; the page shows how to get one.",
                is_problem=True,
            )
        elif self._is_running("bench"):
            self._wants_bench = self._runs["bench"].is_stopped
            self.say(
                "It starts again as soon as the stopped run has ended."
                if self._wants_bench
                else "The benchmark is running already; . stops it.",
                is_problem=not self._wants_bench,
            )
        else:
            self._wants_bench = False
            suite = self.state.suite
            self._start("bench", "Measuring", lambda stop: self.services.measure(facts, stop, suite))

    def choose_suite(self) -> None:
        """Choose the other suite for the next run."""
        if self._is_running("bench"):
            self.say("Not while the benchmark runs; . stops it.", is_problem=True)
        else:
            self._write(
                msgspec.structs.replace(self.state, suite="quick" if self.state.suite == "full" else "full")
            )

    def pin(self) -> None:
        """Store the measurements, so that later runs are compared with them."""
        facts = self.state.facts
        if facts is None or self._is_running("bench") or not self.state.measured.started:
            self.say("There is no complete run to pin: s measures one.", is_problem=True)
            return
        try:
            self.say(f"Pinned for later comparisons: {self.services.pin(facts, self.state.measured)}")
        except RigtuneError as error:
            self.say(f"{error.message}: {error.hint}", is_problem=True)

    def plan(self, job: JobRequest) -> None:
        """Make a plan for `job`, then its recipe."""
        self.state = msgspec.structs.replace(self.state, job=job)
        request = job.request
        self._wants_plan = True
        facts, measurements = self.state.facts, self.state.measured.measurements
        if facts is not None and self.state.facts_complete:
            self._start("plan", "Planning", lambda stop: self.services.plan(facts, measurements, request))

    def export(self, launcher: str, directory: str, *, overwrite: bool) -> None:
        """Write the files of `launcher` into `directory`."""
        if self.state.prepared is not None:
            recipe = self.state.prepared.recipe
            self.state = msgspec.structs.replace(self.state, exported_launcher=launcher)
            self._start(
                "export",
                "Exporting",
                lambda stop: self.services.export(recipe, launcher, directory, overwrite=overwrite),
            )

    def say(self, message: str, *, is_problem: bool = False) -> None:
        self.notify(message, severity="warning" if is_problem else "information", markup=False)

    def report_bug(self, error: Exception) -> None:
        """Save the traceback and show its file; only one report is shown at a time."""
        try:
            saved_in = self.services.save_report("".join(traceback.format_exception(error)))
        except RigtuneError:
            saved_in = ""
        if not isinstance(self.screen, BugDialog):
            self.push_screen(BugDialog(f"{type(error).__name__}: {error}", saved_in))

    # Global actions

    def action_probe_again(self) -> None:
        if self._is_running("bench"):
            self.say("Not while the benchmark runs; . stops it.", is_problem=True)
        else:
            self._probe()

    def action_stop(self) -> None:
        if running := self._runs.get("bench"):
            running.stop()
            self._wants_bench = False
            self.say("Stopping the benchmark; what was measured so far is kept.")
        else:
            self.say("No benchmark is running.")

    def action_explain(self, complaint: str = "") -> None:
        """Ask for the path of a log; `complaint` is the problem with the last path."""
        self.push_screen(
            LogsDialog(self.state.log, complaint), lambda path: self._explain(path) if path else None
        )

    def action_keys(self) -> None:
        if isinstance(self.screen, Frame):
            actions = actions_of(self.screen.SCREEN_ID, has_machine=self.state.has_machine)
            self.push_screen(KeysDialog(self.screen.SCREEN_ID, self.SCREEN_ROWS, actions))

    async def action_back(self) -> None:
        if isinstance(self.screen, Frame) and not self.screen.leave():
            self.action_go(SCREENS[0].id)

    async def action_quit(self) -> None:
        busy = next((stage for stage in ASKS_BEFORE_LEAVING if self._is_running(stage)), None)
        if busy is None or isinstance(self.screen, QuitDialog):
            self._leave()
        else:
            self.push_screen(
                QuitDialog(ASKS_BEFORE_LEAVING[busy]), lambda is_sure: self._leave() if is_sure else None
            )

    def _leave(self) -> None:
        """Stop everything and leave; only a benchmark gets time to end its processes."""
        self._is_leaving = True
        for run in self._runs.values():
            run.stop()
        if self._is_running("bench"):
            self.set_timer(LEAVING_TIMEOUT_S, lambda: self.exit(0))
        else:
            self.exit(0)

    # Stages

    def _probe(self) -> None:
        self._start("probe", "Reading the machine", lambda stop: self.services.probe())

    def _check(self) -> None:
        facts, measured = self.state.facts, self.state.measured
        if facts is not None:
            self._start("check", "Checking", lambda stop: self.services.check(facts, measured))

    def _judge(self) -> None:
        facts, measured = self.state.facts, self.state.measured
        if facts is not None and measured.measurements:
            self._start("judge", "Comparing", lambda stop: self.services.judge(facts, measured))

    def _plan_if_wanted(self) -> None:
        is_open = self.state.plan is None and self.state.problem_of("plan") is None
        if self._wants_plan and is_open and not self._is_running("plan"):
            self.plan(self.state.job)

    def _prepare(self) -> None:
        plan, facts, command = self.state.plan, self.state.facts, self.state.job.command
        if plan is not None and facts is not None:
            self._start(
                "recipe", "Writing the recipe", lambda stop: self.services.prepare(plan, facts, command)
            )

    def _explain(self, path: str) -> None:
        self.state = msgspec.structs.replace(self.state, log=path, explanation=None)
        self._start("explain", "Reading the log", lambda stop: self.services.explain(path))

    def _is_running(self, stage: str) -> bool:
        return stage in self._runs

    def _start(self, stage: str, title: str, make_events: Callable[[Stop], Iterator[Event]]) -> None:
        """Run a stage; an earlier run of the same stage is stopped and its events are ignored."""
        if stage in self._runs:
            self._runs[stage].stop()
        run = StageRun(stage, make_events, self.post_message)
        self._runs[stage] = run
        self._write(begin(self.state, stage, title))
        run.start()

    def on_stage_event(self, message: StageEvent) -> None:
        if self._runs.get(message.run.stage) is message.run:
            self._write(advance(self.state, message.event))

    def on_stage_ended(self, message: StageEnded) -> None:
        stage, error = message.run.stage, message.error
        if self._runs.get(stage) is not message.run:
            return
        del self._runs[stage]
        problem = None
        if isinstance(error, RigtuneError):
            hint = REPLACE_HINT if isinstance(error, ChangedFileError) else error.hint
            problem = Problem(stage=stage, message=error.message, hint=hint)
        elif error is not None:
            problem = Problem(
                stage=stage,
                message=f"{type(error).__name__}: {error}",
                hint="this is a bug in rigtune, not a fault of your machine",
            )
        self._write(end(self.state, stage, problem))
        if self._is_leaving:
            self.exit(0)
        elif error is None:
            self._follow(stage)
        elif stage == "explain" and isinstance(error, RigtuneError):
            self.action_explain(f"{error.message}: {error.hint}")
        elif not isinstance(error, RigtuneError):
            self.report_bug(error)

    def _follow(self, stage: str) -> None:
        """Start the stages that follow `stage`.

        The checks follow a probe. A comparison, the checks and a new plan in place of an old one
        follow a benchmark run. A recipe follows a plan.
        """
        match stage:
            case "probe":
                self._check()
                if self._wants_plan:
                    self.plan(self.state.job)
            case "bench" if self._wants_bench:
                self.measure()
            case "bench":
                self._judge()
                self._check()
                if self.state.plan is not None:
                    self.plan(self.state.job)
            case "plan":
                self._prepare()
            case "explain" if self.state.explanation is not None:
                self.push_screen(ExplanationDialog(self.state.explanation))
            case "export" if self.state.written and not isinstance(self.screen, RecipeScreen):
                self.say(f"Wrote {self.state.written[0]}")

    def _write(self, state: State) -> None:
        """Set the state, and draw the page only once if many events arrive together."""
        self.state = state
        if not self._is_refresh_due:
            self._is_refresh_due = True
            self.call_later(self._refresh_page)

    def _refresh_page(self) -> None:
        self._is_refresh_due = False
        for screen in self.screen_stack:
            if isinstance(screen, Frame):
                screen.refresh_state()

    def parting_words(self) -> str:
        """Return the files that were written and how to start them; empty without an export.

        The terminal shows this after the UI has closed.
        """
        state = self.state
        if not state.written or state.prepared is None:
            return ""
        start = start_words(state.exported_launcher, state.prepared.recipe, state.written)
        return "\n".join((*(f"wrote {path}" for path in state.written), f"Start training:  {start}"))

    def stop_all(self, timeout_s: float) -> None:
        """Stop everything that still runs, for example after the terminal was closed."""
        for run in self._runs.values():
            run.stop()
        if bench := self._runs.get("bench"):
            bench.wait(timeout_s)


def run_tui(app: RigtuneApp) -> tuple[int, str]:
    """Open the terminal UI; return the exit code and the words to print after it has closed."""
    try:
        result = app.run()
    finally:
        app.stop_all(LEAVING_TIMEOUT_S)
    return result if result is not None else (app.return_code or 0), app.parting_words()
