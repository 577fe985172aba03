"""Test messages and exit codes without memory, without threads, and with a named pipe as input."""

from __future__ import annotations

import _thread
import os
from pathlib import Path

import click
import pytest

from assistant.cli import COMMANDS, command_line, table_commands
from probes.base.errors import ExitCode


def test_too_little_memory_is_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(table_commands, "list_command", click.Command("list", callback=fail))
    assert command_line(["list"]) == ExitCode.USAGE
    assert "rigtune: the system gives rigtune too little memory" in capsys.readouterr().err


def test_a_shell_without_threads_gets_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    assert command_line(["probe"]) == ExitCode.USAGE
    assert "the system gives rigtune no further thread" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "check --from {}",
        "check --policy {}",
        "diff {} live",
        "explain {}",
        "lint {}",
        "predict {}",
        "export {}",
        "plan llama-3-8b --machine dgx-h100 --measurements {}",
    ],
)
def test_a_named_pipe_never_blocks(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert command.split(maxsplit=1)[0] in COMMANDS
    assert command_line([word.format(pipe) for word in command.split()]) == ExitCode.USAGE
    assert f"{pipe} is a named pipe" in capsys.readouterr().err
