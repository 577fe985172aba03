"""Drive the terminal UI over the real use cases, with a catalogue machine in place of a server."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from textual.widgets import Static

from assistant.pages.training.plan_form import JobRequest
from assistant.tui.app import RigtuneApp
from assistant.tui.services import Services
from assistant.usecases.plan import PlanRequest
from probes.facts import MachineFacts
from probes.sources.choose import open_source
from recipes.job.pins import Pins
from tests.support.measured import gemm, run_of
from tests.support.tui_driver import panel, until
from tests.support.tui_text import words


async def test_a_catalogue_machine_becomes_a_launch_script(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    app = RigtuneApp(Services(open_source((), "dgx-h100"), directory=tmp_path / "launch"))
    end = time.monotonic() + 60
    async with app.run_test(size=(100, 40)) as pilot:
        for key, is_done in (
            ("5", lambda: app.state.plan is not None),
            ("6", lambda: app.state.prepared is not None),
            ("e", lambda: bool(app.screen.query("#directory"))),
            ("enter", lambda: bool(app.state.written) and not app.state.running),
        ):
            await pilot.press(key)
            while not is_done():
                assert not app.state.problems, app.state.problems
                assert time.monotonic() < end
                await pilot.pause()
        assert app.state.plan.workload.model.id == "llama-3-8b"
        script = Path(app.state.written[0])
        assert script.parent == tmp_path / "launch"
        subprocess.run(["bash", "-n", str(script)], check=True)
        assert not (tmp_path / "state").exists(), "no bug was reported"


async def test_a_plan_for_another_program_shows_its_settings_and_no_script_of_the_reference_workload(
    tmp_path,
):
    app = RigtuneApp(Services(open_source((), "dgx-h100"), directory=tmp_path / "launch"))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.state.verdict is not None and not app.state.running)
        await pilot.press("5")
        await until(pilot, lambda: app.state.prepared is not None)
        panels = app.screen.query_one("#plan-panels")
        assert not app.screen.query_one("#own").display
        panels.scroll_end(animate=False)
        await until(pilot, lambda: panels.scroll_y > 0)
        request = PlanRequest(model="llama-3-70b", nodes=16, program="olmo-core", pins=Pins(tp=8))
        app.plan(JobRequest(request=request))
        await until(pilot, lambda: app.state.problem_of("recipe") is not None)
        await pilot.pause()
        assert panels.scroll_y == 0, "a new plan is shown from its beginning"
        assert "tp_config.degree 8" in " ".join(panel(app, "#own").split())
        assert app.state.prepared is None
        await pilot.press("6")
        await pilot.pause()
        problem = app.screen.query_one("#problem", Static)
        text = words(problem.content, width=problem.content_size.width)
        assert "launch files for OLMo-core" in text
        assert len(text.splitlines()) == problem.content_size.height, "message and remedy are visible"


async def test_a_bug_report_is_kept_for_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = Path(Services(open_source((), "dgx-h100")).save_report("Traceback: \udcff"))
    assert path.is_relative_to(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().startswith("Traceback")


def test_a_home_that_cannot_be_written_prevents_only_later_comparisons(tmp_path, monkeypatch):
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    *_, note, finished = Services(open_source((), "dgx-h100")).judge(
        MachineFacts(), run_of(gemm(700.0, 300.0))
    )
    assert "not kept for later comparisons" in note.message
    assert finished.result.findings
