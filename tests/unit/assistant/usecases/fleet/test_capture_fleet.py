"""Test `rigtune fleet capture`: recordings of all nodes in the folder of a run, and redacted copies."""

from __future__ import annotations

import gzip
import json
import shlex

import jsonschema
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from assistant.usecases.fleet.capture_fleet import recorded_line
from probes.fleet.node_report import MARK
from probes.sources.stored import CommandAnswer, Recording, dump_recording, load_recording

pytest.importorskip("ClusterShell")
HOSTS = "10.1.2.3 gpu001.secret-site.example.org gpu001\n10.1.2.4 gpu002\n"
RECORDING = Recording(
    title="gpu001",
    files={
        "/etc/hosts": HOSTS,
        "/proc/sys/kernel/hostname": "gpu001\n",
        "/var/log/syslog": "gpu002-ib0 is down\n",
    },
    commands=(
        CommandAnswer(argv=("hostname",), stdout="gpu001\n"),
        CommandAnswer(argv=("nvidia-smi",), stdout="Serial Number : 1324221004711\n"),
    ),
)


@pytest.fixture
def capture(tmp_path, capsys):
    """Return a function that captures nodes which send a text, and returns exit code, JSON and folder."""

    def run(sent: str, *options: str, nodes: str = "gpu[001-002]"):
        program = tmp_path / "node.sh"
        (tmp_path / "sent").write_text(sent)
        program.write_text(f"#!/bin/sh\ncat {shlex.quote(str(tmp_path / 'sent'))}\n")
        program.chmod(0o755)
        folder = tmp_path / "run"
        words = ["fleet", "capture", "--engine", "exec", "-w", nodes, "--rigtune", str(program)]
        code = command_line([*words, "--out", str(folder), "-q", *options, "--format", "json"])
        answer = json.loads(capsys.readouterr().out)
        jsonschema.validate(answer, json.loads(schema_for("fleet-capture")))
        return code, answer, folder

    return run


GOOD = f"noise\n{MARK}{recorded_line(dump_recording(RECORDING))}\n"


def test_every_recording_is_kept_and_can_be_judged(capture, capsys):
    code, answer, folder = capture(GOOD)
    assert code == 0
    assert answer["recordings"] == {f"gpu00{n}": f"recordings/gpu00{n}.json.gz" for n in (1, 2)}
    file = folder / answer["recordings"]["gpu002"]
    assert load_recording(file.read_bytes(), "x").files == RECORDING.files
    assert file.stat().st_mode & 0o777 == 0o600
    assert command_line(["probe", "--from", str(file), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["hostname"] == "gpu001"
    assert not (folder / "redacted").exists()


def test_one_mapping_redacts_all_recordings(capture):
    _, answer, folder = capture(GOOD, "--redact")
    assert sorted(answer["recordings"]) == ["node-001", "node-002"]
    texts = [gzip.decompress((folder / file).read_bytes()).decode() for file in answer["recordings"].values()]
    for text in texts:
        for name in ("gpu00", "10.1.2.3", "secret-site", "1324221004711"):
            assert name not in text
    first, second = (load_recording(text.encode(), "x") for text in texts)
    assert first.files == second.files, "the same name has the same placeholder in all recordings"
    assert first.files["/var/log/syslog"] == "node-002-ib0 is down\n"
    assert first.commands[0].stdout == "node-001\n"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("nothing\n", "is this rigtune on the node?"),
        (f"{MARK}not json\n", "no recording"),
        (f'{MARK}{{"recording": "###"}}\n', "no recording"),
        (f"{MARK}{recorded_line(b'{}')}\n", "no recording"),
    ],
    ids=["no-marked-line", "no-json", "no-base64", "an-empty-object"],
)
def test_an_answer_without_a_valid_recording_is_reported_as_missing(capture, sent, words):
    code, answer, _ = capture(sent)
    assert code == 3
    assert answer["recordings"] == {}
    assert [words in each["detail"] for each in answer["missing"]] == [True, True]


def test_a_second_call_asks_only_the_missing_nodes(capture):
    capture(GOOD, nodes="gpu001")
    code, answer, _ = capture("nothing\n", nodes="gpu[001-002]")
    assert code == 3
    assert [each["node"] for each in answer["missing"]] == ["gpu002"]
    assert list(answer["recordings"]) == ["gpu001"]


def test_a_node_that_ended_without_a_recording_is_asked_again(capture):
    """A program that ends with 0 but prints no recording has not answered."""
    assert capture("nothing\n", nodes="gpu001")[0] == 3
    code, answer, folder = capture(GOOD, nodes="gpu001")
    assert code == 0
    assert list(answer["recordings"]) == ["gpu001"]
    recording = folder / answer["recordings"]["gpu001"]
    before = recording.stat().st_mtime_ns
    capture(GOOD, nodes="gpu001")
    assert recording.stat().st_mtime_ns == before, "a recording is not taken twice"


def test_the_page_names_the_command_that_judges_a_recording(capture, capsys):
    _, _, folder = capture(GOOD, nodes="gpu001")
    words = ["fleet", "capture", "--engine", "exec", "-w", "gpu[001-002]", "--rigtune", "/bin/false"]
    assert command_line([*words, "--out", str(folder), "-q"]) == 3
    text = " ".join(capsys.readouterr().out.split())
    assert "1 recording of 2 nodes" in text
    assert f"rigtune check --from {folder}/recordings/gpu001.json.gz" in text
    assert "gpu002 exit" in text
    assert "-w 'gpu002'" in text


def test_a_node_sends_its_recording(capsys):
    assert command_line(["fleet", "node", "--record", "--tier", "quick", "--budget", "20"]) == 0
    line = capsys.readouterr().out
    assert line.startswith(MARK)
    assert json.loads(line.removeprefix(MARK))["recording"]
