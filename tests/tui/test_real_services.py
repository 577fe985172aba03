"""Drive the terminal UI over the real use cases, with a catalogue machine in place of a server."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from assistant.tui.app import RigtuneApp
from assistant.tui.services import Services
from probes.facts import MachineFacts
from probes.sources.choose import open_source
from tests.support.measured import gemm, run_of


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


async def test_a_bug_report_is_kept_for_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = Path(Services(open_source((), "dgx-h100")).save_report("Traceback: \udcff"))
    assert path.is_relative_to(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().startswith("Traceback")


def test_a_home_that_cannot_be_written_costs_the_later_comparison_alone(tmp_path, monkeypatch):
    (tmp_path / "state").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    *_, note, finished = Services(open_source((), "dgx-h100")).judge(
        MachineFacts(), run_of(gemm(700.0, 300.0))
    )
    assert "not kept for later comparisons" in note.message
    assert finished.result.findings
