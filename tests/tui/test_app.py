"""Drive the terminal UI by keys over scripted services; assertions are on its state, not on pixels."""

from __future__ import annotations

import html
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from rich.terminal_theme import SVG_EXPORT_THEME
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Footer, Input, OptionList, Static

from assistant.tui.actions import SCREENS
from assistant.tui.app import RigtuneApp
from assistant.tui.dialogs import (
    BugDialog,
    ExplanationDialog,
    ExportDialog,
    KeysDialog,
    QuitDialog,
    WorkloadDialog,
)
from assistant.usecases.export import ChangedFileError
from assistant.usecases.plan import PlanRequest
from probes.base.errors import InputError, NoFeasiblePlanError, OutputError, UsageError
from probes.facts.measurements import MeasurementSet
from recipes.job.pins import Pins
from tests.support.tui_machines import (
    clean_verdict,
    cpu_box,
    faulty_server,
    faulty_verdict,
    many_findings,
    unknown_machine,
)
from tests.support.tui_measured import measured_on_cpu
from tests.support.tui_plans import gpu_plan
from tests.support.tui_services import ScriptedServices
from tests.support.tui_text import words

SIZES = [(60, 20), (100, 30), (30, 10), (140, 40), (250, 8)]


async def until(pilot: Pilot[int], condition: Callable[[], bool]) -> None:
    """Let the application work until `condition` is true; fail after ten seconds."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "the application did not get there"
        await pilot.pause()


@asynccontextmanager
async def opened(
    services: ScriptedServices, size: tuple[int, int] = (100, 40)
) -> AsyncIterator[tuple[RigtuneApp, Pilot[int]]]:
    """Yield the application with the first probe and checks done, unless they are held back."""
    app = RigtuneApp(services)
    try:
        async with app.run_test(size=size) as pilot:
            if not services.holds & {"probe"} and not services.raising:
                await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
            yield app, pilot
    finally:
        services.release.set()


def shows(app: RigtuneApp, dialog: type[Screen[object]]) -> bool:
    """Return whether `dialog` is on top with its content."""
    return isinstance(app.screen, dialog) and bool(app.screen.query(".dialog > *"))


def mode(app: RigtuneApp) -> str:
    return app.current_mode


async def test_it_probes_and_checks_by_itself_and_measures_nothing(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, _):
        assert mode(app) == "overview"
        assert services.calls == ["probe", "check"]
        assert app.state.verdict == faulty_verdict()


async def test_facts_show_while_the_probe_still_runs(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"probe"}))
    async with opened(services) as (app, pilot):
        await until(pilot, lambda: app.state.facts is not None)
        assert len(app.state.facts.gpus) == 8
        assert not app.state.facts_complete
        assert "H100" in str(app.screen.query_one("#accelerators").border_title)


@pytest.mark.parametrize("facts", [faulty_server(), cpu_box()], ids=["gpu", "cpu"])
async def test_five_keys_give_a_launch_script(tmp_path, facts):
    services = ScriptedServices(tmp_path, facts=facts)
    keys = ["5", "6", "e", "enter"]
    assert len(keys) <= 5
    async with opened(services) as (app, pilot):
        for key in keys:
            await pilot.press(key)
            await until(
                pilot,
                lambda: not app.state.running and (mode(app) == "plan" or app.state.prepared is not None),
            )
        await until(pilot, lambda: len(app.state.written) == 2)
        script = Path(app.state.written[0])
        assert script.name == "launch.sh"
        assert script.read_text().startswith("#!/usr/bin/env bash")
        assert "bench" not in services.calls


async def test_the_recipe_makes_its_plan_when_it_is_opened_first(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)


async def test_a_plan_asked_for_during_the_probe_follows_it(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"probe"}))
    async with opened(services) as (app, pilot):
        await until(pilot, lambda: app.state.facts is not None)
        await pilot.press("5")
        await pilot.pause()
        assert "plan" not in services.calls
        services.release.set()
        await until(pilot, lambda: app.state.prepared is not None)


async def test_enter_on_the_overview_goes_to_the_recommended_screen(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("enter")
        assert mode(app) == "findings"
    async with opened(ScriptedServices(tmp_path, facts=cpu_box(), verdict=clean_verdict())) as (app, pilot):
        await pilot.press("enter")
        assert mode(app) == "benchmarks"


async def test_a_benchmark_runs_when_asked_and_the_checks_and_plan_follow(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("4", "s")
        await until(pilot, lambda: app.state.measured == services.measured and not app.state.running)
        await until(pilot, lambda: services.calls.count("plan") == 2)
        assert services.calls.count("check") == 2


async def test_a_benchmark_can_be_stopped_and_keeps_what_was_measured(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"bench"}))
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(
            pilot, lambda: len(app.state.measured.measurements) == len(services.measured.measurements)
        )
        await pilot.press("full_stop")
        await until(pilot, lambda: app.state.running_stage("bench") is None)
        assert services.closed == ["bench"]
        assert app.state.measured.measurements == services.measured.measurements
        assert app.state.measured.failures == ()
        services.holds = frozenset()
        await pilot.press("s")
        await until(pilot, lambda: app.state.measured == services.measured)


async def test_start_right_after_stop_starts_again(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"bench"}))
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(
            pilot, lambda: len(app.state.measured.measurements) == len(services.measured.measurements)
        )
        services.holds = frozenset()
        await pilot.press("full_stop", "s")
        await until(pilot, lambda: services.calls.count("bench") == 2)
        await until(pilot, lambda: app.state.measured == services.measured and not app.state.running)
        assert services.closed == ["bench", "bench"]


async def test_stop_after_start_after_stop_leaves_it_stopped(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"bench"}))
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(pilot, lambda: bool(app.state.measured.measurements))
        await pilot.press("full_stop", "s", "full_stop")
        await until(pilot, lambda: app.state.running_stage("bench") is None)
        assert services.calls.count("bench") in (1, 2)
        assert app.state.measured.failures == ()


def panel(app: RigtuneApp, name: str) -> str:
    """Return the text of a panel of the page."""
    return words(app.screen.query_one(name, Static).content, width=120)


async def test_a_run_is_judged_and_can_be_pinned(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("4", "p")
        assert services.pinned == []
        await pilot.press("s")
        await until(pilot, lambda: app.state.judgement == services.judgement and not app.state.running)
        await pilot.pause()
        assert "copies to and from the host" in panel(app, "#sick")
        assert "GPU5 73 %" in panel(app, "#results")
        await pilot.press("p")
        assert services.pinned == [services.measured]
        await pilot.press("s")
        await until(pilot, lambda: services.calls.count("bench") == 2)


async def test_what_was_said_of_the_last_run_is_not_said_of_this_one(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(pilot, lambda: bool(app.state.judgement.findings) and not app.state.running)
        services.holds = frozenset({"bench"})
        await pilot.press("s")
        await until(pilot, lambda: app.state.running_stage("bench") is not None)
        assert app.state.judgement.findings == ()


async def test_the_full_suite_can_be_chosen(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("4")
        assert "sustained" not in panel(app, "#results")
        await pilot.press("f")
        await pilot.pause()
        assert "sustained" in panel(app, "#results")
        await pilot.press("s")
        await until(pilot, lambda: services.suites == ["full"])


async def test_curves_and_matrices_take_the_place_of_the_table(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("4", "s")
        await until(pilot, lambda: bool(app.state.measured.started) and not app.state.running)
        await pilot.press("t")
        await pilot.pause()
        assert "Bus bandwidth by message size" in panel(app, "#results")
        assert "peer copy" in panel(app, "#results")
        await pilot.press("t")
        await pilot.pause()
        assert "705 TFLOP/s" in panel(app, "#results")


async def test_a_busy_machine_is_reported_beside_its_numbers(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"bench"}), note="the CPUs are 98 % busy")
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(pilot, lambda: bool(app.state.measured.measurements))
        await pilot.pause()
        assert "the CPUs are 98 % busy" in panel(app, "#intro")


async def test_a_recording_is_not_measured(tmp_path):
    services = ScriptedServices(tmp_path, title="recording node17.json")
    services.is_live = False
    async with opened(services) as (_, pilot):
        await pilot.press("4", "s")
        await pilot.pause()
        assert "bench" not in services.calls


async def test_without_torch_nothing_is_started_and_the_page_states_how_to_get_it(tmp_path):
    services = ScriptedServices(tmp_path, facts=cpu_box(torch_version=None))
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await pilot.pause()
        assert "bench" not in services.calls
        assert "pip install torch" in panel(app, "#intro")


async def test_quitting_asks_while_a_benchmark_runs(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"bench"}))
    async with opened(services) as (app, pilot):
        await pilot.press("4", "s")
        await until(pilot, lambda: app.state.running_stage("bench") is not None)
        await pilot.press("q")
        await until(pilot, lambda: shows(app, QuitDialog))
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, QuitDialog))
        assert app.state.running_stage("bench") is not None
        await pilot.press("q")
        await until(pilot, lambda: shows(app, QuitDialog))
        await pilot.press("enter")
        await until(pilot, lambda: app.return_value is not None)
        assert services.closed == ["bench"]


async def test_quitting_does_not_wait_for_a_probe_that_hangs(tmp_path):
    services = ScriptedServices(tmp_path, holds=frozenset({"probe"}))
    async with opened(services) as (app, pilot):
        await until(pilot, lambda: app.state.facts is not None)
        await pilot.press("q")
        await until(pilot, lambda: app.return_value is not None)
        assert not services.release.is_set()


@pytest.mark.parametrize("stage", ["probe", "check", "bench", "plan", "recipe", "export"])
@pytest.mark.parametrize(
    "error",
    [UsageError("the input is wrong", "put it right"), ZeroDivisionError("a bug")],
    ids=["user", "bug"],
)
async def test_a_stage_that_raises_leaves_the_application_alive(tmp_path, stage, error):
    services = ScriptedServices(tmp_path, raising={stage: error})
    async with opened(services) as (app, pilot):
        for key in ("5", "6", "e", "enter", "4", "s"):
            await until(pilot, lambda: not app.state.running)
            if isinstance(app.screen, BugDialog):
                await pilot.press("escape")
            await pilot.press(key)
        await until(pilot, lambda: app.state.problem_of(stage) is not None or bool(services.reports))
        problem = app.state.problem_of(stage)
        assert problem is not None
        if isinstance(error, UsageError):
            assert (problem.message, problem.hint) == ("the input is wrong", "put it right")
            assert services.reports == []
        else:
            assert "ZeroDivisionError" in services.reports[0]
            assert "Traceback" in services.reports[0]
        await until(pilot, lambda: not app.state.running)
        while isinstance(app.screen, (BugDialog, ExportDialog)):
            await pilot.press("escape")
        services.raising.clear()
        await pilot.press("r")
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)


async def test_a_bug_names_the_file_with_its_traceback(tmp_path):
    services = ScriptedServices(tmp_path, raising={"check": KeyError("gpus")})
    async with opened(services) as (app, pilot):
        await until(pilot, lambda: shows(app, BugDialog))
        shown = str(app.screen.query_one(Static).content)
        assert str(tmp_path / "bug-1.txt") in shown
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, BugDialog))
        assert app.state.facts is not None


async def test_a_page_that_breaks_is_reported_and_the_others_go_on(tmp_path, monkeypatch):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):

        def broken(*arguments: object, **options: object) -> None:
            raise ValueError("the page is broken")

        monkeypatch.setattr("assistant.tui.screens.machine_screens.findings_page.rows", broken)
        await pilot.press("3")
        await until(pilot, lambda: shows(app, BugDialog))
        await pilot.press("escape", "5")
        await until(pilot, lambda: app.state.prepared is not None)
        assert mode(app) == "plan"


async def test_no_feasible_plan_is_reported_on_plan_and_recipe(tmp_path):
    error = NoFeasiblePlanError("nothing fits: 141 GiB of 79.1 GiB", "use more nodes")
    services = ScriptedServices(tmp_path, raising={"plan": error})
    async with opened(services) as (app, pilot):
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
        for key in ("5", "6"):
            await pilot.press(key)
            await until(pilot, lambda: app.state.problem_of("plan") is not None)
            await pilot.pause()
            assert app.screen.query_one("#problem").display
        await pilot.press("e")
        await pilot.pause()
        assert not isinstance(app.screen, ExportDialog)


async def test_an_export_that_fails_is_reported(tmp_path):
    error = OutputError("cannot write /launch: permission denied", "choose a folder that you may write to")
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)
        services.raising["export"] = error
        await pilot.press("e")
        await until(pilot, lambda: shows(app, ExportDialog))
        await pilot.press("enter")
        await until(pilot, lambda: app.state.problem_of("export") is not None)
        assert app.state.written == ()
        await pilot.pause()
        assert app.screen.query_one("#problem").display


async def test_the_export_goes_where_the_user_wants(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("tab", "e")
        await until(pilot, lambda: shows(app, ExportDialog))
        app.screen.query_one("#directory", Input).value = str(tmp_path / "else where")
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.state.written))
        assert app.state.written == (str(tmp_path / "else where" / "launch.sbatch"),)
        assert services.overwrites == [False]


async def test_replacing_changed_files_must_be_asked_for(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("e")
        await until(pilot, lambda: shows(app, ExportDialog))
        await pilot.press("ctrl+o", "enter")
        await until(pilot, lambda: bool(app.state.written))
        assert services.overwrites == [True]


async def test_a_file_changed_by_hand_is_kept_and_the_key_that_replaces_it_is_named(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)
        services.raising["export"] = ChangedFileError(
            "launch.sh exists", "replace it with `rigtune export --overwrite`"
        )
        await pilot.press("e")
        await until(pilot, lambda: shows(app, ExportDialog))
        await pilot.press("enter")
        await until(pilot, lambda: app.state.problem_of("export") is not None)
        assert "ctrl+o" in app.state.problem_of("export").hint


async def test_written_files_are_reported_beside_their_own_launcher_and_on_leaving(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        assert app.parting_words() == ""
        await pilot.press("6")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("e")
        await until(pilot, lambda: shows(app, ExportDialog))
        await pilot.press("enter")
        await until(pilot, lambda: bool(app.state.written) and not app.state.running)
        destination = app.screen.query_one("#destination")
        await until(pilot, lambda: str(destination.border_title) == "Written")
        await pilot.press("tab")
        await until(pilot, lambda: str(destination.border_title) == "Destination")
        assert f"Start training:  {services.directory}/launch.sh" in app.parting_words()


async def test_the_workload_form_plans_again(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("w")
        await until(pilot, lambda: shows(app, WorkloadDialog))
        app.screen.query_one("#model", Input).value = "gpt2"
        app.screen.query_one("#nodes", Input).value = "none"
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, WorkloadDialog), "a wrong number keeps the form open"
        complaints = {
            widget.id: str(widget.render()) for widget in app.screen.query(".complaint") if widget.display
        }
        assert list(complaints) == ["nodes-complaint"]
        assert "'none' is no positive whole number" in complaints["nodes-complaint"]
        assert app.focused is app.screen.query_one("#nodes"), "the wrong field has the focus"
        app.screen.query_one("#nodes", Input).value = "4"
        app.screen.query_one("#program", Input).value = "megatron"
        app.screen.query_one("#tuning", Input).value = "full"
        app.screen.query_one("#gpu", Input).value = "H100"
        app.screen.query_one("#gpus", Input).value = "8"
        app.screen.query_one("#pins", Input).value = "tp=2"
        await pilot.press("enter")
        await until(pilot, lambda: len(services.requests) == 2)
        assert services.requests[1] == PlanRequest(
            model="gpt2", nodes=4, program="megatron", gpu="H100", gpus=8, pins=Pins(tp=2)
        )


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
async def test_every_field_of_the_workload_form_is_visible(tmp_path, size):
    async with opened(ScriptedServices(tmp_path), size=size) as (app, pilot):
        await pilot.press("5")
        await until(pilot, lambda: app.state.prepared is not None)
        await pilot.press("w")
        await until(pilot, lambda: shows(app, WorkloadDialog))
        await pilot.pause()
        for widget in (*app.screen.query(Input), app.screen.query_one("#choices")):
            assert widget.region.height, widget.id
            assert app.screen.region.contains_region(widget.region), widget.id
        program = app.screen.query_one("#program", Input)
        program.focus()
        program.value = "mega"
        await pilot.pause()
        assert str(app.screen.query_one("#choices").render()) == "megatron, megatron-deepspeed"


async def test_a_log_is_explained_with_its_lines(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("l", *"job", "enter")
        await until(pilot, lambda: shows(app, ExplanationDialog))
        assert app.state.log == "job"
        text = " ".join(panel(app, "#explanation").split())
        assert "duplicate-gpu" in text
        assert "7 | trn-1:1:2 [0] NCCL WARN Duplicate GPU" in text
        await pilot.press("escape")
        assert not app.screen.is_modal


async def test_a_log_that_cannot_be_read_is_reported(tmp_path):
    services = ScriptedServices(tmp_path, raising={"explain": InputError("cannot read job", "name a log")})
    async with opened(services) as (app, pilot):
        await pilot.press("l", *"job", "enter")
        await until(
            pilot, lambda: "cannot read job" in str(app.screen.query("#complaint").first(Static).render())
        )
        assert app.screen.query_one("#log", Input).value == "job"


async def test_the_copied_remedy_reaches_the_clipboard(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("3", "down", "y")
        await pilot.pause()
        assert app.clipboard == "ibstat mlx5_3"


async def test_the_filter_narrows_and_esc_clears_it(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("3", "a", "slash", *"mlx5")
        listing = app.screen.query_one(OptionList)
        await until(pilot, lambda: listing.option_count == 1)
        await pilot.press("escape")
        await until(pilot, lambda: listing.option_count == 15)
        await pilot.press("escape")
        await until(pilot, lambda: mode(app) == "overview")


async def test_the_chosen_finding_stays_chosen_when_checks_run_again(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("3", "down", "down", "down")
        listing = app.screen.query_one(OptionList)
        assert listing.highlighted == 3
        await pilot.press("a")
        await pilot.pause()
        assert listing.highlighted == 3
        await pilot.press("r")
        await until(pilot, lambda: not app.state.running)
        await pilot.pause()
        assert listing.highlighted_option.id == "memlock/host"


async def test_every_key_is_listed_and_the_last_can_be_reached(tmp_path):
    async with opened(ScriptedServices(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press("6", "question_mark")
        await until(pilot, lambda: shows(app, KeysDialog))
        box = app.screen.query_one(".dialog")
        await until(pilot, lambda: box.max_scroll_y > 0)
        await pilot.press("end")
        await until(pilot, lambda: box.scroll_y == box.max_scroll_y)
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, KeysDialog))


async def test_the_overview_scrolls_at_once(tmp_path):
    async with opened(ScriptedServices(tmp_path), (80, 24)) as (app, pilot):
        await pilot.press("end")
        panels = app.screen.query_one("#machine-panels")
        await until(pilot, lambda: panels.scroll_y == panels.max_scroll_y > 0)


async def test_a_click_on_its_name_opens_a_screen(tmp_path):
    async with opened(ScriptedServices(tmp_path), (80, 24)) as (app, pilot):
        line = "  ".join(f"{row.key} {row.title} " for row in SCREENS)
        for row in SCREENS:
            await pilot.click(offset=(line.index(row.title) + 4, 0))
            await until(pilot, lambda wanted=row.id: mode(app) == wanted)


async def test_the_palette_offers_the_actions_of_the_screen(tmp_path):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.press("6")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Overview", "Export", "Quit", "Theme"} <= titles
        assert "Start" not in titles


HOSTILE = gpu_plan(device_name="[bold]GPU[/] \x1b[31m" + "very long " * 40)


@pytest.mark.parametrize(
    ("facts", "verdict", "measured", "plan"),
    [
        (faulty_server(), faulty_verdict(), None, gpu_plan()),
        (faulty_server(16), many_findings(300), None, HOSTILE),
        (cpu_box(), clean_verdict(), measured_on_cpu(), gpu_plan(speed_known=False)),
        (unknown_machine(), many_findings(0), MeasurementSet(), gpu_plan(rejected=0)),
    ],
    ids=["faulty", "hostile", "cpu", "unknown"],
)
async def test_every_screen_shows_every_machine_at_every_size(tmp_path, facts, verdict, measured, plan):
    services = ScriptedServices(tmp_path, facts=facts, verdict=verdict, measured=measured, made_plan=plan)
    async with opened(services, (80, 24)) as (app, pilot):
        for key in ("4", "s", "5", "6", "3", "a", "1"):
            await pilot.press(key)
            await until(pilot, lambda: not app.state.running)
        await until(pilot, lambda: app.state.prepared is not None)
        assert services.reports == []
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert services.reports == []
        assert not isinstance(app.screen, BugDialog)


@pytest.mark.parametrize("size", [(59, 24), (80, 19), (1, 1)], ids=str)
async def test_a_terminal_too_small_is_reported(tmp_path, size):
    async with opened(ScriptedServices(tmp_path), size) as (app, pilot):
        await pilot.pause()
        assert app.screen.query_one("#too-small").display
        assert not app.screen.query_one("#body").display
        assert not app.screen.query_one(Footer).display
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not app.screen.query_one("#too-small").display
        assert app.screen.query_one("#body").display


def assert_ascii(app: RigtuneApp) -> None:
    """Return every cell; a picture writes spaces as no-break spaces."""
    drawn = html.unescape("".join(re.findall(r"<text[^>]*>(.*?)</text>", app.export_screenshot()))).replace(
        "\xa0", " "
    )
    assert "rigtune" in drawn
    assert drawn.isascii(), {character for character in drawn if not character.isascii()}


async def test_everything_drawn_is_ascii_where_asked(tmp_path):
    services = ScriptedServices(tmp_path)
    app = RigtuneApp(services, ascii_only=True)
    async with app.run_test(size=(100, 40)) as pilot:
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
        for key in ("1", "3", "4", "s", "5", "6"):
            await pilot.press(key)
            await until(pilot, lambda: not app.state.running)
            await pilot.pause()
            assert_ascii(app)
        await pilot.press("question_mark")
        await pilot.pause()
        assert_ascii(app)


async def test_no_color_is_respected(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    async with opened(ScriptedServices(tmp_path)) as (app, _):
        fills = set(re.findall(r"-r\d+ \{ fill: #(......)", app.export_screenshot()))
        fills.discard(
            SVG_EXPORT_THEME.foreground_color.hex[1:]
        )  # the picture's own, for cells without a colour
        assert len(fills) > 1
        assert all(fill[:2] == fill[2:4] == fill[4:] for fill in fills)


async def test_however_many_events_arrive_the_page_is_drawn_once(tmp_path, monkeypatch):
    async with opened(ScriptedServices(tmp_path)) as (app, pilot):
        await pilot.pause()
        drawn = []
        monkeypatch.setattr(app.screen, "show", drawn.append)
        for _ in range(300):
            app._write(app.state)
        await pilot.pause()
        assert drawn == [app.state]


async def test_keys_pressed_in_any_order_do_no_harm(tmp_path):
    services = ScriptedServices(tmp_path)
    async with opened(services) as (app, pilot):
        for key in "6eq1x3ya/5wnn4ss.r65e1r3r4s":
            await pilot.press({"/": "slash", ".": "full_stop"}.get(key, key))
            if isinstance(app.screen, (ExportDialog, WorkloadDialog, QuitDialog)):
                await pilot.press("escape")
            if app.return_value is not None:
                break
        await pilot.pause()
        assert services.reports == []
