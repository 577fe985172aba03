"""Test the options of `rigtune plan` within this process: questions, settings and outputs."""

from __future__ import annotations

import json

import pytest

from assistant.cli import command_line

BASE = ("plan", "gpt2", "--machine", "dgx-h100")


def plan(capsys, *words: str) -> tuple[int, str, str]:
    code = command_line([*BASE, *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys, *words: str) -> dict:
    code, out, _ = plan(capsys, *words, "--format", "json", "-q")
    assert code == 0
    return json.loads(out)


def test_several_sizes_are_a_curve_and_one_is_a_plan(capsys):
    curve = answer(capsys, "--nodes", "1,2")
    assert [point["nodes"] for point in curve["points"]] == [1, 2]
    assert [point["answer"]["label"] for point in curve["points"]] == ["1 node", "2 nodes"]
    assert answer(capsys, "--nodes", "2")["cluster"]["nodes"] == 2


@pytest.mark.parametrize("other", ["dgx-a100", "A100-SXM-80GB"])
def test_a_plan_is_compared_with_a_machine_or_a_gpu(capsys, other):
    answers = answer(capsys, "--compare", other)["answers"]
    assert [row["label"] for row in answers][1] == other
    assert answers[0]["step_time_s"] < answers[1]["step_time_s"]
    assert answers[0]["gpus"] == 8


def test_an_unknown_machine_is_not_compared(capsys):
    code, _, err = plan(capsys, "--compare", "no-such-machine")
    assert code == 2
    assert "--compare 'no-such-machine' names no machine and no GPU of the catalogue" in err


@pytest.mark.parametrize(
    ("words", "is_fine_tuning"),
    [((), False), (("--task", "fine-tuning"), True), (("--task", "pretraining"), False)],
)
def test_the_task_decides_whether_a_trained_model_is_trained_further(capsys, words, is_fine_tuning):
    assert bool(answer(capsys, *words)["workload"]["fine_tuning"]) is is_fine_tuning


def test_a_plan_is_printed_or_written_with_one_line(capsys, tmp_path):
    file = tmp_path / "recipe.toml"
    code, out, err = plan(capsys, "-o", str(file))
    assert (code, file.exists()) == (0, True)
    assert str(file) in out + err
    quiet = plan(capsys, "-o", str(tmp_path / "other.toml"), "-q")
    assert quiet[2] == ""
    assert (tmp_path / "other.toml").exists()
    printed = plan(capsys, "-q")
    assert printed[1].strip()
    assert printed[2] == ""


def test_the_bandwidth_of_checkpoints_is_in_gigabytes_per_second(capsys):
    slow, fast = (
        answer(capsys, "--write-bandwidth", text, "--steps", "100000")["checkpoints"]
        for text in ("0.1", "10")
    )
    assert slow["write_s"] == pytest.approx(100 * fast["write_s"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--nodes", "1,2", "--sensitivity"), "several --nodes and --sensitivity are two questions"),
        (("--sensitivity", "--compare", "dgx-a100"), "--sensitivity and --compare are two questions"),
        (("--sensitivity", "-o", "r.toml"), "--sensitivity and -o are two questions"),
        (("--gpu", "A100-SXM-80GB"), "--machine"),
        (("--write-bandwidth", "0"), "write-bandwidth"),
        (("--nodes", "1,0"), "must be 1 or more"),
        (("--objective", "cost"), "needs a price"),
    ],
)
def test_impossible_settings_are_refused(capsys, words, message):
    code, _, err = plan(capsys, *words)
    assert code == 2
    assert message in err
