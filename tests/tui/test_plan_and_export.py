"""Drive the plan form and the export by keys over scripted services."""

import pytest
from textual.widgets import Input

from assistant.tui.dialogs import (
    ExportDialog,
    WorkloadDialog,
)
from assistant.usecases.export import ChangedFileError
from assistant.usecases.plan import PlanRequest
from probes.base.errors import OutputError
from recipes.job.pins import Pins
from tests.support.tui_driver import opened, panel, shows, until
from tests.support.tui_services import ScriptedServices


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
        assert "'none' is not a positive whole number" in complaints["nodes-complaint"]
        assert app.focused is app.screen.query_one("#nodes"), (
            "the field with the wrong number should have the focus"
        )
        app.screen.query_one("#nodes", Input).value = "4"
        await pilot.pause()
        is_shown = app.screen.query_one("#nodes-complaint").display
        assert not is_shown, "the complaint should disappear once the text has changed"
        app.screen.query_one("#program", Input).value = "megatron"
        app.screen.query_one("#task", Input).value = "pretraining"
        app.screen.query_one("#command", Input).value = "train.py --lr {learning_rate}"
        app.screen.query_one("#launcher", Input).value = "slurm"
        app.screen.query_one("#gpu", Input).value = "H100"
        app.screen.query_one("#gpus", Input).value = "8"
        app.screen.query_one("#pins", Input).value = "tp=2"
        await pilot.press("enter")
        await until(pilot, lambda: len(services.requests) == 2)
        assert services.requests[1] == PlanRequest(
            model="gpt2",
            nodes=4,
            program="megatron",
            gpu="H100",
            gpus=8,
            pins=Pins(tp=2),
            fine_tuning=False,
            keeps_program=True,
        )
        await until(pilot, lambda: len(services.commands) == 2)
        assert (services.commands[1].target, services.commands[1].arguments) == (
            "train.py",
            ("--lr", "{learning_rate}"),
        )
        await pilot.press("6")
        await until(pilot, lambda: "[slurm]" in panel(app, "#launchers"))


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
