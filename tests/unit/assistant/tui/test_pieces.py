"""Test the pieces of the terminal UI that need no application: keys, characters, threads and the terminal."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from assistant.pages.blocks import Row, Section, Share, Shares, words
from assistant.pages.fleet_nodes_page import NodeRow
from assistant.tui.actions import (
    ACTIONS,
    MACHINE_ACTIONS,
    SCREENS,
    actions_of,
    global_bindings,
    screen_bindings,
    shown_key,
)
from assistant.tui.appearance import ascii_text
from assistant.tui.background import StageEnded, StageEvent, StageRun, has_hung_up, terminal_descriptor
from assistant.tui.node_list import NodeList
from assistant.tui.panel_writer import body, line, whole
from assistant.tui.services import Services
from assistant.usecases.events import Remarked
from assistant.usecases.plan import PlanRequest
from probes.sources.choose import open_source
from recipes.planning.programs import OWN, REFERENCE_PROGRAM

PATIENCE_S = 20.0
SEVERAL = {row.id for row in ACTIONS if row.screens}


@pytest.mark.parametrize("screen", [row.id for row in SCREENS])
def test_actions_of_a_screen_come_before_those_of_all_screens(screen):
    names = [row.id for row in actions_of(screen)]
    own = [row.id for row in ACTIONS if screen in row.screens]
    assert names[: len(own)] == own
    assert set(names[len(own) :]) == {row.id for row in ACTIONS} - SEVERAL
    assert [binding.id for binding in screen_bindings(screen)] == own
    without = {row.id for row in actions_of(screen, has_machine=False)}
    assert without == set(names) - MACHINE_ACTIONS
    assert all(row.needs_machine == (row.id in MACHINE_ACTIONS) for row in ACTIONS)


def test_digits_and_keys_work_on_every_screen():
    ids = [binding.id for binding in global_bindings()]
    assert ids[: len(SCREENS)] == [row.id for row in SCREENS]
    assert set(ids[len(SCREENS) :]) == {row.id for row in ACTIONS if row.key and not row.screens}
    assert shown_key(next(row for row in ACTIONS if row.id == "back")) == "esc"
    assert shown_key(next(row for row in ACTIONS if row.id == "quit")) == "q"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("é → ü", "e > u"),
        ("5 µs", "5 us"),
        ("▁█", "_#"),
        ("日本", "????"),
        ("ﬁ", "f"),
        ("a\u0301", "a"),
        ("\u2803\u28ff", "**"),
    ],
)
def test_ascii_text_keeps_the_width_in_cells(text, shown):
    if "█" in text:
        shown = "_" + ascii_text("█")
        assert ascii_text("█").isascii()
    assert ascii_text(text) == shown


def test_a_stage_posts_its_events_and_then_its_end():
    posted = []
    run = StageRun("probe", lambda stop: iter([Remarked(text="a"), Remarked(text="b")]), posted.append)
    run.start()
    assert run.wait(PATIENCE_S)
    assert [type(message) for message in posted] == [StageEvent, StageEvent, StageEnded]
    assert (posted[-1].error, posted[0].event.text, run.is_stopped) == (None, "a", False)


def test_an_error_of_a_stage_is_part_of_its_end():
    def broken(stop):
        yield Remarked(text="a")
        raise ValueError("x")

    posted = []
    run = StageRun("probe", broken, posted.append)
    run.start()
    assert run.wait(PATIENCE_S)
    assert str(posted[-1].error) == "x"


def test_a_stopped_stage_ends_at_its_next_event_and_is_closed():
    goes_on, closed = threading.Event(), threading.Event()

    def endless(stop):
        try:
            while True:
                yield Remarked(text="a")
                goes_on.wait(PATIENCE_S)
        finally:
            closed.set()

    posted = []
    run = StageRun("bench", endless, posted.append)
    run.start()
    assert not run.wait(0.05)
    run.stop()
    assert run.is_stopped
    goes_on.set()
    assert run.wait(PATIENCE_S)
    assert closed.is_set()
    assert [type(message) for message in posted] == [StageEvent, StageEnded]


def test_an_application_that_has_ended_stops_its_stages():
    def refuse(message):
        raise RuntimeError("the loop is closed")

    run = StageRun("probe", lambda stop: iter([Remarked(text="a")]), refuse)
    run.start()
    assert run.wait(PATIENCE_S)
    assert run.is_stopped


def test_a_terminal_has_hung_up_when_its_other_end_is_gone():
    master, terminal = pty.openpty()
    os.write(master, b"typed\n")
    assert not has_hung_up(terminal)
    os.close(master)
    assert has_hung_up(terminal)
    os.close(terminal)
    assert has_hung_up(terminal)


def test_only_a_terminal_has_a_descriptor(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "stdin", None)
    assert terminal_descriptor() is None
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert terminal_descriptor() is None


def test_the_process_ends_with_its_terminal():
    program = (
        "import os, pty, sys, time\n"
        "from assistant.tui import background\n"
        "background.WATCH_INTERVAL_S = 0.01\n"
        "master, terminal = pty.openpty()\n"
        "background.leave_with_terminal(terminal, lambda: print('left', flush=True), 0.01)\n"
        "time.sleep(0.2)\n"
        "print('still there', flush=True)\n"
        "os.close(master)\n"
        "time.sleep(30)\n"
        "sys.exit(5)"
    )
    began = time.monotonic()
    done = subprocess.run(
        (sys.executable, "-c", program),
        cwd=Path(__file__).parents[4],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"still there\nleft\n")
    assert time.monotonic() - began < 30


def drawn(shown: object, width: int = 60) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(shown)
    return [text.rstrip() for text in console.export_text().splitlines()]


def test_a_value_is_cut_and_cannot_steer_the_terminal():
    assert line("a\x1b[31mb").plain == "a\ufffd[31mb"
    assert len(line("x" * 2001).plain) == 2000
    assert line("x" * 2000).plain == "x" * 2000


@pytest.mark.parametrize(
    ("fraction", "cells"),
    [(None, 0), (0.0, 0), (0.03, 0), (0.5, 8), (0.97, 16), (1.0, 16), (2.0, 16), (-1.0, 0)],
)
def test_a_share_has_a_bar_of_at_most_16_cells(fraction, cells):
    share = Share(name="part", value="1", fraction=fraction)
    (row,) = drawn(body(Section("", (Shares((share,)),))))
    assert row.count("█") == cells


def test_sections_stand_below_each_other_with_a_blank_line():
    page = (
        Section("First", (Row("a"),)),
        Section("", ()),
        Section("Second", (Row("b", "label"), Row(words(("c", "dim")), words(("x", "bad"))))),
    )
    assert drawn(whole(page)) == ["First", "a", "", "Second", "label       b", "x           c"]
    assert drawn(whole((Section("Alone", ()),))) in ([], ["Alone"])


@pytest.mark.parametrize(
    ("named", "keeps", "program"),
    [("", False, REFERENCE_PROGRAM), ("", True, OWN), ("megatron", True, "megatron")],
)
def test_a_plan_is_made_for_the_users_program_or_the_reference(monkeypatch, named, keeps, program):
    asked = []
    monkeypatch.setattr(
        "assistant.tui.services.plan_workload", lambda *words: asked.append(words[-1].program)
    )
    request = PlanRequest(model="gpt2", program=named, keeps_program=keeps)
    Services(open_source((), "dgx-h100")).plan(None, (), request)
    assert asked == [program]


def test_services_name_the_source_and_the_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    services = Services(open_source((), "dgx-h100"))
    assert (services.is_live, services.directory) == (False, str(tmp_path / "rigtune-run" / "launch"))
    assert Services(open_source((), "dgx-h100"), directory=Path("x")).directory == "x"
    assert "dgx-h100" in services.title.lower().replace(" ", "-")
    with open_source((), None) as live:
        assert Services(live).is_live


@pytest.mark.parametrize(
    ("count", "places"), [(3, {-4: 0, 0: 0, 1: 1, 2: 2, 5: 2}), (0, {-1: 0, 0: 0, 5: 0})]
)
def test_the_cursor_stays_within_the_list(count, places):
    listing = NodeList(id="nodes")
    listing.rows = tuple(
        NodeRow(node=f"n{index}", verdict=(), reason="", group="", searched="") for index in range(count)
    )
    assert {place: listing.validate_cursor(place) for place in places} == places
    assert (listing.current is None) is (count == 0)
