"""Test the page about a tune: the answer, the table of each stage, and where the results are."""

from __future__ import annotations

import pytest

from assistant.pages.training.tune_page import tune_page
from assistant.text.plain_writer import text_of
from probes.base.units import GIB
from recipes.tuning.tune_result import CandidateResult, StageResult, TuneResult
from recipes.tuning.variants import Setting

CHANGE = Setting(name="micro_batch", value="8")


def candidate(name: str, **fields) -> CandidateResult:
    return CandidateResult(**{"name": name, "settings": (), "outcome": "measured", "rounds": 3, **fields})


BASE = candidate("recipe", step_time_s=2.0, predicted_s=1.5, peak_memory_bytes=4.0 * GIB, ratio=1.0)
FAST = candidate("micro_batch 8", step_time_s=1.0, ratio=0.5, ratio_low=0.4, ratio_high=0.6)


def stage(*candidates: CandidateResult, **fields) -> StageResult:
    base = {
        "title": "layouts and settings", "decision": "winner", "because": "", "winner": "", "alpha": 0.05,
        "most_trials": 12,
    }  # fmt: skip
    return StageResult(**{**base, "candidates": candidates, **fields})


def lines_of(*stages: StageResult, **fields) -> list[str]:
    base = {
        "name": "job", "steps": 20, "changes": (), "speed_up": 0.0, "trials": 6, "took_s": 90.0,
        "budget_s": 1200.0, "is_complete": True,
    }  # fmt: skip
    text = text_of(tune_page(TuneResult(**{**base, "stages": stages, **fields})), width=200)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


SPENT = "6 trials of 20 steps in 1 min 30 s, of at most 20 min 00 s"


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        (
            {"trials": 0},
            ["job: nothing was measured", "a tune takes at most 0 trials of 20 steps within 20 min 00 s"],
        ),
        ({}, ["The recipe stays: no candidate is faster by more than chance", SPENT]),
        ({"is_complete": False}, ["No candidate is faster by more than chance so far", SPENT]),
        (
            {"changes": (CHANGE, Setting(name="tp", value="2")), "speed_up": 0.25, "written": "r.toml"},
            ["micro_batch 8, tp 2: 25 % more steps per second", SPENT, "written to r.toml"],
        ),
        (
            {"changes": (CHANGE,), "speed_up": 0.25},
            [
                "micro_batch 8: 25 % more steps per second",
                SPENT,
                "The tune is not finished, so nothing is written yet.",
            ],
        ),
        (
            {"notes": ("busy",), "journal": "j.jsonl"},
            [
                "The recipe stays: no candidate is faster by more than chance",
                SPENT,
                "! busy",
                "trials in j.jsonl",
            ],
        ),
    ],
)
def test_the_answer_comes_before_the_trials(fields, lines):
    assert lines_of(**fields) == lines


def test_the_trials_of_all_stages_are_announced():
    one = stage(BASE)
    assert "at most 24 trials" in lines_of(one, one, trials=0)[1]


def test_a_stage_has_a_line_for_each_candidate_and_its_decision():
    made = stage(BASE, FAST, winner=FAST.name, because="it won", p_value=0.03125, tested_rounds=(2, 3, 4))
    lines = lines_of(made)[2:]
    assert lines[0] == "Layouts and settings"
    assert lines[1] == "step time ratio to the recipe runs predicted peak memory"
    assert lines[2] == "recipe 2 s 1 3 1.5 s 4.0 GiB"
    assert lines[3].startswith("micro batch 8 1 s 0.5")
    assert lines[4] == (
        "it won: p = 0.0312 over 3 paired runs after the selection (false winners at most 5 %)."
    )


def test_a_candidate_without_a_step_time_states_its_reason():
    failed = candidate("NCCL_ALGO=Ring", outcome="failed", rounds=0, reason="out of memory")
    lines = lines_of(stage(BASE, failed, because="nothing won"))
    assert "NCCL_ALGO=Ring: out of memory" in lines
    assert "nothing won." in lines


def test_before_any_trial_only_predictions_are_shown():
    plan = (candidate("recipe", rounds=0, predicted_s=1.5), candidate("b_c", rounds=0))
    assert lines_of(stage(*plan), trials=0)[2:] == [
        "Layouts and settings",
        "predicted step time",
        "recipe 1.5 s",
        "b c unknown",
    ]
    assert len(lines_of(stage(plan[0]), trials=0)) == 2
