"""Quit, hang and fail in the terminal UI: the application reports the problem and goes on."""

import pytest
from textual.widgets import Static

from assistant.tui.dialogs import (
    BugDialog,
    ExportDialog,
    QuitDialog,
)
from probes.base.errors import NoFeasiblePlanError, UsageError
from tests.support.tui_driver import mode, opened, shows, until
from tests.support.tui_services import ScriptedServices


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
