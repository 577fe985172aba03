"""Drive the table of nodes by keys: what it shows, the filter, the screens of a node, and broken folders."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from assistant.cli import command_line
from assistant.pages.fleet_nodes_page import NodeRow
from assistant.tui.dialogs import BugDialog, KeysDialog
from assistant.tui.fleet_app import FleetApp
from assistant.tui.node_list import NodeList
from assistant.usecases.fleet.run_folder import OUTCOMES, RAW
from tests.support.fleet_folder import PASSED, failed, write_run
from tests.support.tui_driver import mode, panel, until
from tests.support.tui_text import words

METRIC = {
    "part_kind": "gpu", "part_id": "GPU-1", "slot": "GPU1", "metric": "gemm_flops_per_s m=8192",
    "unit": "flop/s", "samples": [6.5e14, 6.6e14, 6.7e14],
}  # fmt: skip
HOSTILE = "[red]Xid 79[/red] \x1b[31m\x9b31m [@click=app.quit]x[/] \u202e" + "long " * 200


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    answers = {
        "gpu001": {**PASSED, "metrics": [METRIC]},
        "gpu002": failed("Xid 79: fallen off the bus"),
        "gpu003": {**PASSED, "verdict": "WARN", "node": "gpu009"},
        "gpu004": failed(HOSTILE, subject=HOSTILE, check_id=HOSTILE),
    }
    ends = {"gpu005": {"outcome": "timed-out", "detail": "no end within 120 s"}}
    return write_run(tmp_path / "run", answers, ends)


@asynccontextmanager
async def opened(
    folder: Path, size: tuple[int, int] = (80, 24)
) -> AsyncIterator[tuple[FleetApp, Pilot[int]]]:
    app = FleetApp(folder, ",".join)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: not app.state.running and bool(app.state.fleet or app.state.problems))
        await pilot.pause()
        yield app, pilot


def names(app: FleetApp) -> list[str]:
    return [row.node for row in app.screen.query_one(NodeList).rows]


async def test_bad_nodes_come_first_with_their_reason(folder):
    async with opened(folder, (140, 40)) as (app, pilot):
        assert mode(app) == "nodes"
        assert names(app) == ["gpu002", "gpu004", "gpu005", "gpu003", "gpu001"]
        listing = app.screen.query_one(NodeList)
        lines = ["".join(part.text for part in listing.render_line(number)) for number in range(5)]
        assert all(len(line) == listing.size.width for line in lines)
        for line, parts in zip(
            lines,
            (
                ("✗ FAIL", "gpu002", "GPU3: Xid 79: fallen off the bus", "NVIDIA H100 80GB HBM3"),
                ("✗ FAIL", "gpu004"),
                ("? timed-out", "gpu005", "no end within 120 s"),
                ("! WARN", "gpu003", "calls itself gpu009"),
                ("✓ PASS", "gpu001"),
            ),
            strict=True,
        ):
            assert all(part in line for part in parts), line
        assert "2 fit, 2 not, 1 without an answer of 5 nodes" in str(
            app.screen.query_one("#left").border_title
        )
        assert "verdict" in panel(app, "#headings")
        await pilot.press("down", "down")
        await until(pilot, lambda: str(app.screen.query_one("#node-detail").border_title) == "gpu005")
        box = app.screen.query_one("#node-detail")
        assert "timed-out" in words(box.query_one(Static).content, width=120)


async def test_the_filter_narrows_as_the_user_types_and_esc_clears_it(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("slash", *"h100 xid")
        await until(pilot, lambda: names(app) == ["gpu002", "gpu004"])
        await pilot.press(*" fallen")
        await until(pilot, lambda: names(app) == ["gpu002"])
        assert "1 with h100 xid fallen" in str(app.screen.query_one("#left").border_title)
        await pilot.press("enter", "y")
        await until(pilot, lambda: app.clipboard == "gpu002")
        await pilot.press("slash", *"zzz")
        await until(pilot, lambda: names(app) == [])
        assert "No node matches" in panel(app, "#empty")
        await pilot.press("escape")
        await until(pilot, lambda: len(names(app)) == 5)
        await pilot.press("escape")
        await pilot.pause()
        assert mode(app) == "nodes"


async def test_the_chosen_node_stays_chosen_while_the_filter_changes(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("end", "slash", *"pass")
        await until(pilot, lambda: len(names(app)) < 5)
        assert app.screen.query_one(NodeList).current.node == "gpu001"


async def test_enter_opens_the_screens_of_the_node_and_esc_leads_back(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
        assert mode(app) == "overview"
        assert "gpu002" in panel(app, "#verdict")
        assert "not fit" in panel(app, "#verdict")
        assert "Not in this report" in panel(app, "#way")
        assert "`rigtune fleet capture -w gpu002`" in " ".join(panel(app, "#way").split())
        await pilot.press("3")
        await until(pilot, lambda: mode(app) == "findings")
        assert [finding.check_id for finding in app.state.findings] == ["xid"]
        await pilot.press("4")
        await pilot.pause()
        assert "This run measured nothing" in panel(app, "#results")
        await pilot.press("5")
        await until(pilot, lambda: app.state.problem_of("plan") is not None)
        assert "too few facts" in app.state.problem_of("plan").message
        await pilot.press("escape", "escape")
        await until(pilot, lambda: mode(app) == "nodes")
        await pilot.press("end", "enter", "4")
        await until(pilot, lambda: app.state.report is not None and app.state.report.node == "gpu001")
        assert "660 TFLOP/s" in panel(app, "#results")
        await pilot.press("3")
        await until(pilot, lambda: mode(app) == "findings" and not app.state.running)
        await until(pilot, lambda: "nothing wrong" in panel(app, "#empty"))


LONG_REASON = "no NVIDIA GPU answers, and the kernel driver nvidia is not loaded; the package is installed"


async def test_columns_without_words_leave_their_room_to_the_reason(tmp_path):
    bare = {"verdict": "PASS", "version": "1.0", "attributes": {}}
    answers = {"gpu001": bare, "gpu002": {**failed(LONG_REASON, subject="host"), "attributes": {}}}
    async with opened(write_run(tmp_path / "run", answers), (120, 40)) as (app, _):
        listing = app.screen.query_one(NodeList)
        assert "group" not in panel(app, "#headings")
        assert f"host: {LONG_REASON} " in "".join(part.text for part in listing.render_line(0))
        group = NodeRow("gpu002", "FAIL", f"host: {LONG_REASON}", "H100", "")
        listing.show((group,))
        assert listing.headings().plain.split() == ["verdict", "node", "reason", "group"]
        line = "".join(part.text for part in listing.render_line(0))
        assert line.rstrip().endswith("H100")
        assert f"{LONG_REASON[:70]}" in line


@pytest.mark.parametrize(
    ("attributes", "statement"),
    [
        ({"gpus": "0", "driver": "580.82"}, "The node reports no NVIDIA GPU."),
        ({"gpus": "8", "gpu_model": "NVIDIA A100 | NVIDIA H100"}, "8 GPUs: NVIDIA A100 | NVIDIA H100"),
        ({}, "The report names no GPUs."),
    ],
    ids=["none", "several models", "unknown"],
)
async def test_a_report_without_gpus_says_so_and_how_to_make_a_recording(tmp_path, attributes, statement):
    run = write_run(tmp_path / "run", {"gpu001": {**PASSED, "attributes": attributes}})
    async with opened(run, (120, 40)) as (app, pilot):
        await pilot.press("enter")
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
        shown = " ".join(panel(app, "#accelerators").split())
        assert statement in shown
        assert "Trial on CPUs" not in shown
        assert "`rigtune fleet capture -w gpu001` makes a recording" in shown
        assert "gpu001 is fit to train" in panel(app, "#verdict")
        assert "nothing wrong was found" in panel(app, "#finding-counts")
        assert "python" not in panel(app, "#machine")


async def test_a_report_offers_no_action_that_needs_a_machine(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("enter", "4")
        await until(pilot, lambda: mode(app) == "benchmarks" and not app.state.running)
        await pilot.press("s", "p", "t")
        await pilot.pause()
        assert not app._notifications
        assert not {"start", "pin"} & {binding.binding.id for binding in app.active_bindings.values()}
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, KeysDialog))
        assert "Start" not in words(app.screen.query_one(Static).content, width=120)
        await pilot.press("escape", "5")
        await until(pilot, lambda: app.state.problem_of("plan") is not None)
        assert panel(app, "#headline").strip() == "No plan."
        await pilot.press("w")
        await pilot.pause()
        assert mode(app) == "plan"


async def test_a_silent_node_is_unknown_and_never_failed(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("slash", *"timed-out", "enter", "enter")
        await until(pilot, lambda: app.state.verdict is not None)
        assert app.state.verdict.verdict.value == "UNKNOWN"
        assert app.state.findings[0].summary == "timed-out: no end within 120 s"
        await until(pilot, lambda: not app.state.running)
        await pilot.pause()
        assert panel(app, "#machine").strip().endswith("no report in run")
        assert "gave no report" in panel(app, "#accelerators")
        assert "Not in this report" not in panel(app, "#way")


async def test_a_screen_of_a_node_needs_an_opened_node(folder):
    async with opened(folder) as (app, pilot):
        await pilot.press("1")
        await pilot.pause()
        assert mode(app) == "nodes"


async def test_r_reads_the_answers_that_came_since(folder):
    async with opened(folder) as (app, pilot):
        write_run(folder, {"gpu001": PASSED, "gpu007": PASSED})
        await pilot.press("r")
        await until(pilot, lambda: names(app) == ["gpu001", "gpu007"])


async def test_nodes_stay_visible_when_their_folder_breaks_later(folder):
    async with opened(folder) as (app, pilot):
        before = names(app)
        with (folder / OUTCOMES).open("a") as file:
            file.write("damaged\n")
        await pilot.press("r")
        await until(pilot, lambda: bool(app.state.problems))
        await pilot.pause()
        assert app.screen.query_one("#problem").display
        assert app.screen.query_one("#left").display
        assert names(app) == before


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (140, 40), (30, 10), (250, 60)], ids=str)
async def test_hostile_text_is_neither_markup_nor_control_characters(folder, size, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with opened(folder, size) as (app, pilot):
        await pilot.press("down")
        await pilot.pause()
        listing = app.screen.query_one(NodeList)
        line = "".join(part.text for part in listing.render_line(1))
        assert "\x1b" not in line
        assert "\u202e" not in line
        if size[0] >= 80:
            assert "[red]Xid" in line
        for key in ("enter", "3", "4", "5", "0", "slash"):
            await pilot.press(key)
            await pilot.pause()
        assert not isinstance(app.screen, BugDialog)
        assert not (tmp_path / "state").exists(), "no bug was reported"


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda folder: None, "does not exist"),
        (lambda folder: folder.mkdir(), "has no answers of nodes"),
        (lambda folder: folder.write_text(""), "is not a folder"),
        (lambda folder: _spoilt(folder, OUTCOMES, "damaged\n"), f"{OUTCOMES}, line 2"),
        (lambda folder: _spoilt(folder, RAW, "{}\n"), RAW),
        (lambda folder: (folder / RAW).mkdir(parents=True), "is a folder, but a file is needed"),
    ],
    ids=["missing", "empty", "file", "outcomes", "raw", "folder"],
)
async def test_a_broken_folder_is_explained(tmp_path, spoil, expected):
    folder = tmp_path / "run"
    spoil(folder)
    async with opened(folder) as (app, _):
        (problem,) = app.state.problems
        assert expected in problem.message
        assert problem.hint
        assert app.screen.query_one("#problem").display


def _spoilt(folder: Path, name: str, text: str) -> None:
    write_run(folder, {"gpu001": PASSED})
    with (folder / name).open("a") as file:
        file.write(text)


async def test_a_run_that_still_goes_on_shows_what_came(tmp_path):
    folder = write_run(tmp_path / "run", {"gpu001": PASSED, "gpu002": PASSED})
    ended = (folder / OUTCOMES).read_text().splitlines(keepends=True)
    (folder / OUTCOMES).write_text(ended[0] + ended[1][:-9])
    with (folder / RAW).open("a") as raw:
        raw.write('{"node": "gpu003", "since"')
    async with opened(folder) as (app, _):
        assert names(app) == ["gpu001", "gpu002"]
        assert "the run was stopped before this node ended" in app.screen.query_one(NodeList).rows[1].reason


def test_the_table_needs_a_terminal_and_no_other_machine(tmp_path, monkeypatch, capsys):
    assert command_line(["tui", "--fleet", str(tmp_path)]) == 2
    assert "needs a terminal" in capsys.readouterr().err
    monkeypatch.setattr("assistant.cli.tui_command.has_terminal", lambda: True)
    assert command_line(["tui", "--fleet", str(tmp_path), "--machine", "dgx-h100"]) == 2
    assert "give it alone" in capsys.readouterr().err
