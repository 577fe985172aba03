"""Drive the terminal UI by keys over scripted services; assertions are on its state, not on pixels."""

from pathlib import Path

import pytest
from textual.widgets import Input, OptionList, Static

from assistant.tui.actions import SCREENS
from assistant.tui.dialogs import (
    ExplanationDialog,
    KeysDialog,
)
from probes.base.errors import InputError
from tests.support.tui_driver import mode, opened, panel, shows, until
from tests.support.tui_machines import (
    clean_verdict,
    cpu_box,
    faulty_server,
    faulty_verdict,
)
from tests.support.tui_services import ScriptedServices


async def test_the_application_probes_and_checks_at_its_start_and_measures_nothing(tmp_path):
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
