"""Drive the benchmark screen by keys over scripted services."""

from tests.support.tui_driver import opened, panel, until
from tests.support.tui_machines import (
    cpu_box,
)
from tests.support.tui_services import ScriptedServices


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


async def test_a_new_run_clears_the_findings_of_the_last_run(tmp_path):
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
        assert not app.screen.query_one("#results").display, "no suite is offered that cannot start"
