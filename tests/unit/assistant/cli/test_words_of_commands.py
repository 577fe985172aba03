"""Test how the command line takes its words: version, arguments, and what describes the machine."""

from __future__ import annotations

import json
import signal
import sys
import time
from types import SimpleNamespace

import pytest

from assistant.cli import command_line
from assistant.engines.engine_table import find_engine
from assistant.usecases.diff import diff_machines
from assistant.usecases.probe import probe_machine
from probes.base.errors import UsageError
from probes.catalogue.hardware import load_catalogue
from probes.collect.collecting import CollectOptions
from probes.sources.choose import open_source


def test_the_version_is_one_line(capsys):
    assert command_line(["--version"]) == 0
    assert capsys.readouterr().out.startswith("rigtune ")


@pytest.mark.parametrize(("has_terminal", "command"), [(True, "tui"), (False, "auto")])
def test_without_words_the_ui_opens_on_a_terminal(monkeypatch, capsys, has_terminal, command):
    monkeypatch.setattr("assistant.cli.has_terminal", lambda: has_terminal)
    started = []
    monkeypatch.setattr("assistant.cli.rigtune.main", lambda args, **_: started.append(args))
    monkeypatch.setattr(sys, "argv", ["rigtune"])
    assert command_line() == 0
    monkeypatch.setattr(sys, "argv", ["rigtune", "list", "gpus"])
    assert command_line() == 0
    assert started == [[command], ["list", "gpus"]]


@pytest.mark.parametrize("subject", ["hardware", "network", "container", "kubelet", "mig"])
def test_one_machine_is_described_by_its_name_or_by_its_parts(capsys, subject):
    words = ["advise", subject, "--machine", "dgx-h100"]
    assert command_line([*words, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["subject"] == subject


def test_a_machine_with_a_name_has_no_other_gpu(capsys):
    assert command_line(["advise", "hardware", "--machine", "dgx-h100", "--gpu", "h100-pcie"]) == 2
    assert "--machine dgx-h100 and --gpu h100-pcie both describe the machine" in capsys.readouterr().err
    assert command_line(["advise", "hardware", "--gpu", "h100-pcie"]) == 0


def test_the_memory_of_a_job_chooses_the_instance(capsys):
    words = ["advise", "mig", "--machine", "dgx-h100", "--format", "json", "--memory-gib"]
    lines = {}
    for size in ("9", "16", "79"):
        assert command_line([*words, size]) == 0
        lines[size] = {line["id"]: line["text"] for line in json.loads(capsys.readouterr().out)["lines"]}
    assert "1g.10gb" in lines["9"]["partition"]
    assert "1g.20gb" in lines["16"]["partition"]
    assert "whole-gpu" in lines["79"]


def test_files_may_follow_the_command(capsys, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    for words in ([str(tmp_path / "a")], [str(tmp_path / "a"), str(tmp_path / "b")]):
        assert command_line(["advise", "hardware", "--from", *words]) in (0, 2)
        assert "unexpected" not in capsys.readouterr().err


@pytest.mark.parametrize(("count", "names"), [(2, ("a", "a (2)")), (3, ("a", "a (2)", "a (3)")), (1, ("a",))])
def test_machines_of_one_name_are_numbered(count, names):
    sources = [("a", open_source((), "dgx-h100")) for _ in range(count)]
    *_, last = diff_machines(sources, CollectOptions(), load_catalogue())
    assert last.result.machines == names


def test_long_names_are_cut_in_messages(capsys):
    assert command_line(["advise", "hardware", "--machine", "m" * 70, "--gpu", "g" * 70]) == 2
    assert f"--machine {'m' * 60} and --gpu {'g' * 60} both" in capsys.readouterr().err
    with pytest.raises(UsageError, match=f"there is no engine '{'e' * 60}'"):
        find_engine("e" * 70)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_signals_interrupt_a_command_unless_they_are_ignored(number):
    before = signal.getsignal(number)
    try:
        signal.signal(number, signal.SIG_IGN)
        command_line(["--version"])
        assert signal.getsignal(number) is signal.SIG_IGN
        signal.signal(number, signal.SIG_DFL)
        command_line(["--version"])
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("words", [["--format", "csv"], ["-o", "a.CSV"]])
@pytest.mark.parametrize("option", ["--list", "--find-bad-hosts"])
def test_a_list_of_benchmarks_has_no_csv(capsys, words, option):
    assert command_line(["bench", option, *words]) == 2
    assert f"{option} has no CSV" in capsys.readouterr().err


def test_a_list_of_benchmarks_is_no_table_if_the_file_is_none(capsys):
    assert command_line(["bench", "--list", "-o", "a.json"]) in (0, 2)
    assert "has no CSV" not in capsys.readouterr().err


def test_a_check_states_how_long_it_took(capsys):
    began = time.monotonic()
    command_line(["check", "--machine", "dgx-h100", "--format", "json"])
    took = time.monotonic() - began
    assert 0 <= json.loads(capsys.readouterr().out)["duration_s"] <= took


@pytest.mark.parametrize(("title", "words"), [("live", "Reading this machine"), ("a.tar", "Reading a.tar")])
def test_the_source_that_is_read_is_named(monkeypatch, title, words):
    monkeypatch.setattr("assistant.usecases.probe.gather", lambda *_, **__: iter(()))
    first = next(iter(probe_machine(SimpleNamespace(title=title), CollectOptions())))
    assert first.title == words
