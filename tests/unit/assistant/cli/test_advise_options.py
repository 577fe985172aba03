"""Test the options of `rigtune advise` within this process."""

from __future__ import annotations

import json

import pytest

from assistant.cli import command_line


def advise(capsys, *words: str) -> tuple[int, str, str]:
    code = command_line(["advise", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


MIG = ("mig", "--machine", "dgx-h100")


def test_a_job_may_state_its_memory_or_its_model_but_not_both(capsys):
    stated = advise(capsys, *MIG, "--memory-gib", "9")
    assert stated[0] == 0
    assert "--memory-gib 9" in stated[1]
    predicted = advise(capsys, *MIG, "--model", "gpt2")
    assert predicted[0] == 0
    assert "predicted for gpt2 on one GPU with a micro-batch of 1" in predicted[1]
    code, _, err = advise(capsys, *MIG, "--memory-gib", "9", "--model", "gpt2")
    assert code == 2
    assert "--memory-gib and --model both state the need of a job" in err
    bare = advise(capsys, *MIG)
    assert bare[0] == 0
    assert "predicted for" not in bare[1]
    assert "--memory-gib 9" not in bare[1]


def test_more_memory_needs_a_larger_instance(capsys):
    small, large = (advise(capsys, *MIG, "--memory-gib", size)[1] for size in ("9", "70"))
    assert small != large


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("install", "--gpu", "H100-SXM-80GB", "--count", "0"), "--count 0"),
        (("install", "--gpu", "no-such-gpu"), "no-such-gpu"),
        (("install", "--gpu", "H100-SXM-80GB", "--supplies-watts", "0"), "supplies-watts"),
        (("hardware", "--machine", "no-such-machine"), "no-such-machine"),
    ],
)
def test_impossible_machines_are_refused(capsys, words, message):
    code, out, err = advise(capsys, *words)
    assert (code, out) == (2, "")
    assert message in err


def test_the_answer_is_json_on_request(capsys):
    code, out, _ = advise(capsys, "hardware", "--machine", "dgx-h100", "--format", "json")
    assert code == 0
    assert json.loads(out)["subject"] == "hardware"
