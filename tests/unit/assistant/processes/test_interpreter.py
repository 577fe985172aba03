"""Test how interpreters are vetted: good ones are described, bad ones get a sentence and a remedy."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import psutil
import pytest

from assistant.processes.interpreter import choose_interpreter, install_command, vet, worker_environment
from probes.base.errors import ExitCode, InterpreterError
from probes.base.record import Reason, Unknown
from probes.facts import TrainingPython

GOOD = {
    "executable": "x",
    "python": "3.11.7",
    "torch": "2.13.0+cpu",
    "cuda": None,
    "gloo": True,
    "nccl": False,
    "devices": [],
}


def interpreter(tmp_path: Path, body: str, name: str = "python") -> str:
    path = tmp_path / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def answering(tmp_path: Path, **changes) -> str:
    text = json.dumps({**GOOD, **changes})
    return interpreter(tmp_path, f"cat <<'END'\nsomebody prints on import\n{text}\nEND")


def test_a_good_interpreter_is_described(tmp_path):
    path = answering(tmp_path, devices=["NVIDIA H100"], nccl=True, cuda="12.8", nccl_version="2.27.3")
    probed = vet(path)
    assert (probed.path, probed.torch, probed.devices, probed.nccl_version) == (
        path,
        "2.13.0+cpu",
        ("NVIDIA H100",),
        "2.27.3",
    )


def test_the_description_is_distinguished_from_words_that_follow(tmp_path):
    path = interpreter(tmp_path, f"echo '{json.dumps(GOOD)}'; echo 'bye'; echo '[]'")
    assert vet(path).python == "3.11.7"


def test_an_interpreter_without_torch_comes_with_the_command_that_installs_torch(tmp_path):
    path = answering(tmp_path, torch=None)
    with pytest.raises(InterpreterError, match="has no torch") as caught:
        vet(path)
    assert caught.value.hint == f"{path} -m pip install torch"
    assert caught.value.exit_code == ExitCode.WORKER


def test_the_real_worker_describes_an_interpreter_whatever_it_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("json.py").write_text("raise SystemExit('the current folder must not matter')")
    message = ""
    try:
        vet(sys.executable)
    except InterpreterError as error:
        message = error.message
    assert message in ("", f"{sys.executable} has no torch")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.8.10"}, "is Python 3.8.10"),
        ({"torch": "1.13.1"}, "has torch 1.13.1"),
        (
            {"torch": None, "error": "OSError: libcudart.so.11: cannot open"},
            "torch cannot be imported in .* libcudart",
        ),
    ],
)
def test_an_old_or_broken_python_or_torch_is_reported(tmp_path, changes, words):
    with pytest.raises(InterpreterError, match=words) as caught:
        vet(answering(tmp_path, **changes))
    assert caught.value.hint


@pytest.mark.parametrize(
    "body", ["exit 3", "echo '{'", "echo '[1, 2]'", "printf '\\377\\376\\n'", "kill -SEGV $$"]
)
def test_a_program_without_a_valid_answer_is_no_interpreter(tmp_path, body):
    with pytest.raises(InterpreterError, match="not a usable Python interpreter") as caught:
        vet(interpreter(tmp_path, body))
    assert "--python" in caught.value.hint


def test_an_interpreter_that_hangs_is_given_up(tmp_path):
    with pytest.raises(InterpreterError, match="did not start torch within"):
        vet(interpreter(tmp_path, "exec sleep 1000"), deadline_s=0.2)


def test_nothing_is_left_of_a_wrapper_that_hangs(tmp_path):
    with pytest.raises(InterpreterError, match="did not start torch within"):
        vet(interpreter(tmp_path, f"sleep 987654 & echo $! >{tmp_path}/pid; wait"), deadline_s=1.0)
    pid = int((tmp_path / "pid").read_text())
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_an_answer_counts_even_if_the_interpreter_does_not_end(tmp_path):
    assert (
        vet(interpreter(tmp_path, f"echo '{json.dumps(GOOD)}'; exec sleep 987654"), deadline_s=1.0).torch
        == "2.13.0+cpu"
    )


def test_an_interpreter_that_never_stops_talking_is_given_up(tmp_path):
    with pytest.raises(InterpreterError, match="did not start torch within"):
        vet(interpreter(tmp_path, "exec yes"), deadline_s=0.2)


@pytest.mark.parametrize("path", ["/nowhere/python", "no-such-python", "with\0nul"])
def test_an_interpreter_that_does_not_exist(path):
    with pytest.raises(InterpreterError):
        vet(path)


def test_a_folder_or_a_plain_file_cannot_be_started(tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("x")
    for path in (tmp_path, plain):
        with pytest.raises(InterpreterError, match="cannot be started"):
            vet(str(path))


def test_the_named_interpreter_goes_before_the_probed_one(tmp_path):
    named, probed = answering(tmp_path), "/nowhere/python"
    assert choose_interpreter(TrainingPython(path=probed), named).path == named
    assert choose_interpreter(TrainingPython(path=named), None).path == named


@pytest.mark.parametrize("path", [None, Unknown(Reason.PERMISSION, "no access")])
def test_none_found_names_the_command_that_gets_torch(path):
    with pytest.raises(InterpreterError, match="no Python interpreter with torch") as caught:
        choose_interpreter(TrainingPython(path=path), None)
    assert caught.value.hint == install_command(sys.executable)


def test_the_command_is_quoted():
    assert install_command("/my envs/python") == "'/my envs/python' -m pip install torch"


def test_the_users_own_path_stays_behind_the_workers(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/his/modules")
    path = worker_environment()["PYTHONPATH"].split(":")
    assert path[1:] == ["/his/modules"]
    assert (Path(path[0]) / "rigtune_worker" / "__main__.py").exists()


def test_a_refused_interpreter_is_named_with_what_to_do():
    training = TrainingPython(
        path=None, refused=("/shared/.venv/bin/python is not started: everybody can write /shared",)
    )
    with pytest.raises(InterpreterError, match="everybody can write /shared") as caught:
        choose_interpreter(training, None)
    assert "--python" in caught.value.hint
