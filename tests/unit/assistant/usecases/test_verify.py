"""Test the verification: its report, and its errors without a report. The interpreter is a stand-in."""

from __future__ import annotations

import contextlib
import json
import math

import pytest

from assistant.pages.training.verify_page import verify_page
from assistant.text.plain_writer import text_of
from assistant.usecases.events import Progress, StageFinished
from assistant.usecases.verify import VerifyRequest, verify_launch
from probes.base.errors import ExitCode, UsageError, WorkerError
from recipes.launch.recipe import Command, Prediction
from tests.support.smoke_ranks import PROVEN

START = {
    "event": "start",
    "world_size": 2,
    "backend": "gloo",
    "device_name": "a CPU",
    "torch_version": "2.13",
    "more": 1,
}
STEPS = [{"event": "step", "step": number, "loss": 3.0 - number, "duration_s": 0.5} for number in (1, 2)]
DONE = {
    "event": "done",
    "steps": 2,
    "interrupted": False,
    "median_step_time_s": 0.5,
    "peak_memory_bytes": 1000,
    "loss_first": 2.0,
    "loss_last": 1.0,
}
PREDICTED = Prediction(step_time_s=0.55, step_time_low_s=0.4, step_time_high_s=0.6, peak_memory_bytes=800.0)


STAND_IN = """#!/usr/bin/env bash
while [[ $1 != --report && $1 != --nonce ]]; do shift; done
if [[ $1 = --nonce ]]; then  # the smoke test: --nonce NUMBER --report FILE
    sed "s/.NONCES./$((2 * $2))/" '{folder}/smoke' > "$4"
    exit
fi
echo hello from torch >&2
{copy}
{then}
"""


@pytest.fixture
def interpreter(tmp_path):
    """Return a function that makes a program, which passes the smoke test, writes `report` and runs `then`.

    The program writes the report to the path after --report; if `report` is None, it writes no file.
    """

    def make(report, then="exit 0"):
        path = tmp_path / "python"
        lines = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in report or ())
        (tmp_path / "lines").write_text(lines)
        (tmp_path / "smoke").write_text(PROVEN)
        copy = "" if report is None else f"cp '{tmp_path}/lines' \"$2\""
        path.write_text(STAND_IN.format(folder=tmp_path, copy=copy, then=then))
        path.chmod(0o755)
        return str(path)

    return make


@pytest.fixture
def verified(make_recipe, tmp_path, interpreter):
    """Return a function that verifies a program which writes `lines` and then runs `then`."""
    return lambda lines, then: verify(make_recipe(), tmp_path, interpreter(lines, then))


def verify(recipe, tmp_path, python, **options):
    request = VerifyRequest(steps=2, python=python, program="reference", stores=False, **options)
    return list(verify_launch(recipe, request, tmp_path / "run"))


def test_predicted_is_beside_measured(make_recipe, tmp_path, interpreter):
    events = verify(make_recipe(predicted=PREDICTED), tmp_path, interpreter([START, *STEPS, DONE]))
    assert isinstance(events[-1], StageFinished)
    result = events[-1].result
    assert (result.world_size, result.backend, result.steps, result.loss_first, result.loss_last) == (
        2,
        "gloo",
        2,
        2.0,
        1.0,
    )
    assert (result.step_time_s.predicted, result.step_time_s.measured, result.step_time_s.within_range) == (
        0.55,
        0.5,
        True,
    )
    assert result.step_time_s.relative_error == pytest.approx(0.1)
    assert result.peak_memory_bytes.relative_error == pytest.approx(-0.2)
    assert result.notes == ()
    assert [event.done for event in events if isinstance(event, Progress) and event.total] == [1, 2]


def test_without_a_prediction_there_is_no_error_to_tell(make_recipe, tmp_path, interpreter):
    result = verify(make_recipe(), tmp_path, interpreter([START, *STEPS, DONE]))[-1].result
    assert result.step_time_s.measured == 0.5
    assert (
        result.step_time_s.predicted,
        result.step_time_s.relative_error,
        result.step_time_s.within_range,
    ) == (None,) * 3


def test_the_users_own_program_is_not_what_ran_and_the_result_states_it(make_recipe, tmp_path, interpreter):
    recipe = make_recipe(command=Command(kind="script", target="/no/such.py", arguments=("{nonsense",)))
    result = verify(recipe, tmp_path, interpreter([START, *STEPS, DONE]))[-1].result
    assert "not the recipe's own program" in result.notes[0]


def test_a_model_that_the_reference_program_cannot_build_is_not_compared(make_recipe, tmp_path, interpreter):
    recipe = make_recipe(
        predicted=PREDICTED,
        command=Command(kind="script", target="train.py"),
        not_in_reference=("experts 8", "dense layers 3"),
    )
    result = verify(recipe, tmp_path, interpreter([START, *STEPS, DONE]))[-1].result
    assert any("experts 8, dense layers 3" in note and "dense decoder" in note for note in result.notes)
    assert result.step_time_s.predicted is result.peak_memory_bytes.predicted is None
    assert result.step_time_s.measured > 0


def test_a_loss_that_does_not_fall_is_noted(make_recipe, tmp_path, interpreter):
    result = verify(make_recipe(), tmp_path, interpreter([START, {**DONE, "loss_last": 2.5}]))[-1].result
    assert "did not fall" in result.notes[0]


@pytest.mark.parametrize(
    ("lines", "then", "message"),
    [
        (
            [
                START,
                {"event": "failed", "kind": "out_of_memory", "message": "out of memory with micro-batch 2"},
            ],
            "exit 1",
            "out of memory",
        ),
        (
            [START],
            'echo "[rank1]: ValueError: bad shape" >&2; exit 1',
            r"\[rank1\]: ValueError: bad shape \(exit code 1\)",
        ),
        ([], "echo \"x: No module named 'torch'\" >&2; exit 1", r"No module named 'torch' \(exit code 1\)"),
        ([START], "exit 3", "exit code 3"),
        ([START], "kill -KILL $$", "exit code 137"),
        ([], "exit 0", "ended without a report"),
        ([START, *STEPS], "exit 0", "ended without a report"),
        ([DONE], "exit 0", "ended without a report"),
        ([START, {**DONE, "interrupted": True}], "exit 0", "ended without a report"),
        (["not json", START, DONE], "exit 0", "line 1 of the report .* is wrong: JSON"),
        ([START, '{"event": "done", "ste'], "exit 0", "ended without a report"),
        (['{"event": "step", "x": ' + "[" * 10**5 + "\n"], "exit 0", "line 1 of the report .* is wrong"),
        ([{**START, "world_size": math.nan}, DONE, ""], "exit 0", "line 1 .* Expected `int`, got `null`"),
    ],
)
def test_a_run_that_failed_is_reported_with_its_cause_and_log(verified, tmp_path, lines, then, message):
    with pytest.raises(WorkerError, match=message) as caught:
        verified(lines, then)
    assert str(tmp_path / "run" / "verify.log") in caught.value.hint
    assert caught.value.exit_code == ExitCode.WORKER
    assert "hello from torch" in (tmp_path / "run" / "verify.log").read_text()


def until_error(events):
    with contextlib.suppress(WorkerError):
        yield from events


def test_the_end_of_the_output_comes_before_the_error(make_recipe, tmp_path, interpreter):
    request = VerifyRequest(python=interpreter([], "exit 1"))
    events = verify_launch(make_recipe(), request, tmp_path / "run")
    messages = [event.message for event in until_error(events) if isinstance(event, Progress)]
    assert messages[-1] == "hello from torch"


def test_a_missing_interpreter_is_reported(make_recipe, tmp_path):
    with pytest.raises(WorkerError, match=r"no Python interpreter /no/such/python on .* \(exit code 127\)"):
        verify(make_recipe(), tmp_path, "/no/such/python")


def test_a_hanging_run_is_ended(make_recipe, tmp_path, interpreter):
    with pytest.raises(WorkerError, match="did not end within"):
        verify(make_recipe(), tmp_path, interpreter([START], "exec sleep 1000"), limit_s=1.0)


def test_the_named_interpreter_wins_over_the_shells(make_recipe, tmp_path, interpreter, monkeypatch):
    monkeypatch.setenv("RIGTUNE_PYTHON", "/no/such/python")
    verify(make_recipe(), tmp_path, interpreter([START, DONE]))


def test_a_relative_interpreter_is_meant_from_the_current_folder(
    make_recipe, tmp_path, interpreter, monkeypatch
):
    interpreter([START, DONE])
    monkeypatch.chdir(tmp_path)
    verify(make_recipe(), tmp_path, "./python")


def test_an_old_report_is_not_taken_for_a_new_one(make_recipe, tmp_path, interpreter):
    verify(make_recipe(), tmp_path, interpreter([START, DONE]))
    with pytest.raises(WorkerError, match="ended without a report"):
        verify(make_recipe(), tmp_path, interpreter(None))


def test_nodes_that_cannot_be_reached_from_here_are_reported(make_recipe, tmp_path):
    with pytest.raises(UsageError, match="needs 2 nodes, but names no hosts"):
        verify(make_recipe(nodes=2), tmp_path, None)


def test_numbers_that_are_not_finite_do_not_end_the_run(make_recipe, tmp_path, interpreter):
    steps = [{**step, "loss": math.nan, "peak_memory_bytes": -math.inf} for step in STEPS]
    done = {**DONE, "loss_last": math.nan}
    result = verify(make_recipe(), tmp_path, interpreter([START, *steps, done]))[-1].result
    assert (result.steps, result.loss_first, result.loss_last) == (2, 2.0, None)
    assert "diverged" in result.notes[0]
    assert "loss 2.000" in text_of(verify_page(result), width=100)


def test_each_figure_of_memory_is_compared_with_its_own_prediction(make_recipe, tmp_path, interpreter):
    predicted = Prediction(peak_memory_bytes=800.0, reserved_memory_bytes=900.0, worst_memory_bytes=1100.0)
    for reserved, within in ((1100, True), (1101, False)):
        python = interpreter([START, *STEPS, {**DONE, "peak_reserved_bytes": reserved}])
        result = verify(make_recipe(predicted=predicted), tmp_path, python)[-1].result
        assert result.peak_memory_bytes.predicted == 800
        assert (result.reserved_memory_bytes.predicted, result.reserved_memory_bytes.measured) == (
            900,
            reserved,
        )
        assert (result.worst_memory_bytes.predicted, result.worst_memory_bytes.within_range) == (1100, within)
        text = text_of(verify_page(result), width=100)
        assert all(f"{figure} per rank" in text for figure in ("allocated", "reserved", "worst case"))
