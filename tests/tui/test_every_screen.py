"""Draw every screen for every machine at every size, in ASCII and without colours."""

import html
import re

import pytest
from rich.terminal_theme import SVG_EXPORT_THEME
from textual.widgets import Footer

from assistant.tui.app import RigtuneApp
from assistant.tui.dialogs import (
    BugDialog,
    ExportDialog,
    QuitDialog,
    WorkloadDialog,
)
from probes.facts.measurements import MeasurementSet
from tests.support.tui_driver import opened, panel, until
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

SIZES = [(60, 20), (100, 30), (30, 10), (140, 40), (250, 8)]


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


@pytest.mark.parametrize(("columns", "shows_all"), [(80, True), (99, True), (100, False), (140, True)])
async def test_the_table_of_gpus_uses_the_width_of_its_pane(tmp_path, columns, shows_all):
    # From 100 columns on, the page has two panes, and the table has half of the width.
    async with opened(ScriptedServices(tmp_path), (columns, 40)) as (app, _):
        head = panel(app, "#accelerators").splitlines()[0].split()
    assert {"state", "power", "PCIe"} < set(head)
    assert ({"temp", "util"} < set(head)) == shows_all


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
    """Assert that every drawn cell is ASCII; the picture writes spaces as no-break spaces."""
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
