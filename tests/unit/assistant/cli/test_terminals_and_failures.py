"""Test what commands do without a terminal, with wrong paths, and when they fail under an exit profile."""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from assistant.cli import command_line, fleet_options, fleet_pack, tui_command
from assistant.cli.diagnostics import StatusLine, follow, has_terminal
from assistant.cli.exit_profile import ProfiledCommand
from assistant.cli.options import PATH, Number
from assistant.cli.output import emitting
from assistant.usecases.events import Measured, Progress, Remarked, StageStarted
from probes.base.errors import ExitCode, OutputError, UsageError
from probes.facts.measurements import Measurement


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch) -> Terminal:
    """Make stderr a terminal of 20 columns and return it."""
    made = Terminal()
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    return made


@pytest.mark.parametrize(
    ("term", "closed", "has"),
    [
        ("xterm", "", True),
        ("", "", True),
        ("dumb", "", False),
        ("xterm", "stdin", False),
        ("xterm", "stderr", False),
    ],
)
def test_the_terminal_ui_needs_all_three_streams(monkeypatch, term, closed, has):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, io.StringIO() if name == closed else Terminal())
    monkeypatch.setenv("TERM", term)
    assert has_terminal() is has


@pytest.mark.parametrize("term", ["dumb", "xterm"])
def test_without_a_terminal_the_command_names_the_alternative(monkeypatch, capsys, term):
    monkeypatch.setenv("TERM", term)
    assert command_line(["tui"]) == ExitCode.USAGE
    errors = capsys.readouterr().err
    assert ("TERM=dumb cannot show the UI" in errors) is (term == "dumb")
    assert "rigtune auto" in errors


@pytest.fixture
def opened(monkeypatch):
    """Return the applications that `rigtune tui` runs, instead of running them."""
    apps: list[object] = []

    def run(app: object) -> tuple[int, str]:
        apps.append(app)
        return 7, "bye"

    monkeypatch.setattr(tui_command, "has_terminal", lambda: True)
    monkeypatch.setattr("assistant.tui.app.run_tui", run)
    return apps


@pytest.mark.parametrize(
    ("words", "is_utf8", "is_ascii"),
    [([], True, False), ([], False, True), (["--ascii"], True, True), (["--no-ascii"], False, False)],
)
def test_the_locale_chooses_the_characters_unless_the_user_does(
    opened, monkeypatch, capsys, *, words, is_utf8, is_ascii
):
    monkeypatch.setattr(tui_command, "shows_utf8", lambda: is_utf8)
    made: list[bool] = []
    monkeypatch.setattr("assistant.tui.app.RigtuneApp", lambda services, ascii_only: made.append(ascii_only))
    assert command_line(["tui", "--machine", "dgx-h100", *words]) == 7
    assert made == [is_ascii]
    assert capsys.readouterr().err == "bye\n"


def test_a_fleet_is_shown_alone(opened, tmp_path, capsys):
    assert command_line(["tui", "--fleet", str(tmp_path)]) == 7
    assert type(opened[0]).__name__ == "FleetApp"
    for more in (["--machine", "dgx-h100"], ["--from", str(tmp_path)]):
        assert command_line(["tui", "--fleet", str(tmp_path), *more]) == ExitCode.USAGE
        assert "not one machine" in capsys.readouterr().err


def test_a_status_line_fits_and_is_erased(monkeypatch):
    terminal = terminal_of(monkeypatch)
    line = StatusLine()
    line.clear()
    assert terminal.getvalue() == ""
    line.show("1234567890 1234567890\n1234")
    assert terminal.getvalue() == "\r\x1b[2K1234567890 12345678"  # 19 columns: the last one would wrap
    line.clear()
    line.clear()
    assert terminal.getvalue().count("\x1b[2K") == 2


REMARK = "Warning: the checkpoint interval is assumed"


def test_a_remark_is_folded_between_words_on_a_terminal_and_stays_one_line_in_a_log(monkeypatch, capsys):
    events = [Remarked(text=REMARK)]
    follow(iter(events))
    assert capsys.readouterr().err == f"  {REMARK}\n"
    terminal = terminal_of(monkeypatch)
    follow(iter(events))
    lines = [line.rpartition("\x1b[2K")[2] for line in terminal.getvalue().splitlines()]
    assert lines == ["  Warning: the", "  checkpoint", "  interval is", "  assumed"]


def test_a_dumb_terminal_has_no_status_line(monkeypatch):
    terminal = terminal_of(monkeypatch)
    monkeypatch.setenv("TERM", "dumb")
    StatusLine().show("x")
    assert terminal.getvalue() == ""


def test_on_a_terminal_the_running_benchmark_is_shown_in_place(monkeypatch):
    terminal = terminal_of(monkeypatch)
    result = Measurement(bench_id="x", subject="GPU0", metric="rate_per_s", unit="1/s", samples=(5.0,))
    events = [
        StageStarted(stage="bench", title="Measuring"),
        Progress(stage="bench", message="costs", done=0, total=2),
        Progress(stage="bench", message="gemm", done=0, total=2),
        Measured(measurement=result),
        Progress(stage="bench", message="copy", done=1, total=2),
    ]
    follow(iter(events))
    assert re.sub(r"\r\x1b\[2K", "<", terminal.getvalue()) == (
        "Measuring\n  costs\n<1 of 2 gemm<  x  GPU0  rate 5/s\n<2 of 2 copy<"
    )


@pytest.mark.parametrize(
    ("error", "profile", "code"),
    [
        (KeyboardInterrupt(), "nagios", 3),
        (ValueError("x"), "nagios", 3),
        (UsageError("odd"), "nagios", 3),
        (click.UsageError("odd"), "nagios", 3),
        (UsageError("odd"), "gate", None),
        (KeyboardInterrupt(), "gate", None),
        (ValueError("x"), "gate", None),
        (click.UsageError("odd"), "gate", None),
    ],
)
def test_failures_end_with_the_code_of_the_profile(capsys, error, profile, code):
    def fail(**_: object) -> None:
        raise error

    options = [click.Option(["--exit-profile", "exit_profile"])]
    command = ProfiledCommand("check", callback=fail, params=options)
    words = ["--exit-profile", profile]
    if code is None:
        with pytest.raises((type(error), click.Abort)):
            command.main(words, standalone_mode=False)
        assert capsys.readouterr().out == ""
        return
    assert command.main(words, standalone_mode=False) == code
    assert capsys.readouterr().out.startswith("RIGTUNE UNKNOWN - ")


@pytest.mark.parametrize("version", ["3", "3.", "3.11.2", "2.7", "x"])
def test_an_archive_is_packed_only_for_a_version_of_python(monkeypatch, capsys, version):
    monkeypatch.setattr("assistant.usecases.fleet.archives.build_archive", None)
    assert command_line(["fleet", "pack", "--python-version", version]) == ExitCode.USAGE
    assert f"'{version}' is no version of Python" in capsys.readouterr().err


@pytest.mark.parametrize("folder", [None, "out"])
def test_the_packed_archive_is_named_with_its_size(monkeypatch, capsys, folder):
    def build(into: Path, labels: object, python: str | None, wheelhouse: Path | None) -> object:
        return SimpleNamespace(path=into / "a.pyz", size=12_340_000, python=python)

    monkeypatch.setattr("assistant.usecases.fleet.archives.build_archive", build)
    monkeypatch.setattr("assistant.usecases.fleet.archives.default_folder", lambda: Path("usual"))
    words = ["--out", folder] if folder else []
    assert command_line(["fleet", "pack", "--python-version", "3.11", *words]) == 0
    assert capsys.readouterr().out == f"{folder or 'usual'}/a.pyz\n# 12.3 MB, for Python 3.11\n"


def test_the_folder_of_a_node_is_absolute(monkeypatch):
    with pytest.raises(UsageError, match=r"--node-folder 'a/b' is no absolute path"):
        fleet_pack.shipment((), "a/b")
    with pytest.raises(UsageError, match=f"--node-folder '{'a' * 60}' is"):
        fleet_pack.shipment((), "a" * 70)
    monkeypatch.setattr("assistant.usecases.fleet.archives.archives_of", lambda folder, labels: ())
    assert fleet_pack.shipment((), None) is None
    monkeypatch.setattr("assistant.usecases.fleet.archives.archives_of", lambda folder, labels: ("archive",))
    assert fleet_pack.shipment((), "/scratch").folders == ("/scratch",)
    assert len(fleet_pack.shipment((), None).folders) > 1


@pytest.mark.parametrize(
    ("own", "exists", "on_path", "path"),
    [
        ("rigtune", True, "/usr/bin/rigtune", "here"),
        ("rigtune", False, "/usr/bin/rigtune", "/usr/bin/rigtune"),
        ("pytest", True, "/usr/bin/rigtune", "/usr/bin/rigtune"),
        ("pytest", True, None, None),
    ],
)
def test_nodes_run_the_same_program_by_default(monkeypatch, tmp_path, *, own, exists, on_path, path):
    if exists:
        (tmp_path / own).touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / own)])
    monkeypatch.setattr("shutil.which", lambda name: on_path)
    row = SimpleNamespace(has_image=False)
    if path is None:
        with pytest.raises(UsageError, match="is not known"):
            fleet_options._program_on_nodes(None, row)
        assert fleet_options._program_on_nodes(None, SimpleNamespace(has_image=True)) == "rigtune"
        return
    expected = str(tmp_path / own) if path == "here" else path
    assert fleet_options._program_on_nodes(None, row) == expected
    assert fleet_options._program_on_nodes("/opt/rigtune", row) == "/opt/rigtune"


def test_a_path_that_cannot_be_looked_up_is_refused():
    with pytest.raises(click.BadParameter, match="file name too long"):
        PATH.convert("x" * 5000, None, None)
    assert PATH.convert("no/such/file", None, None) == Path("no/such/file")


def test_nan_is_no_number_of_an_option():
    assert Number(0.0, 1.0).convert("0.5", None, None) == 0.5
    with pytest.raises(click.BadParameter, match="is not a number"):
        Number(0.0, 1.0).convert("nan", None, None)


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "no space left on device"), (OSError(), "error")],
)
def test_output_that_cannot_be_written_is_an_error_with_its_reason(monkeypatch, error, words):
    def fail(_: bytes) -> None:
        raise error

    stream = SimpleNamespace(buffer=SimpleNamespace(write=fail, flush=lambda: None), encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", stream)
    with (
        pytest.raises(OutputError, match=f"cannot write the output: {words}"),
        emitting(is_text=False) as write,
    ):
        write("x")


def test_a_run_is_kept_in_a_folder_of_its_own():
    folder = fleet_options._new_folder("check")
    assert folder.parent == Path("rigtune-fleet")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d{6}Z-check", folder.name)
