"""The schedule of a pipeline: as stated, in words, and what it costs."""

from __future__ import annotations

import msgspec
import pytest

from recipes.cases.case import CaseError, case_of_row
from recipes.cases.prediction import CasePrediction, predict_row
from recipes.cases.resolved import resolve
from recipes.cases.table_words import schedule_of
from recipes.job.candidate import Candidate
from recipes.predict.speed.layers import computation_of
from recipes.predict.training_job import TransformerJob

ROW = {
    "case_id": "a",
    "model": "llama-3-70b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "32",
    "stack": "megatron-core",
    "tp": "4",
    "pp": "8",
    "micro_batch": "1",
    "global_batch": "32",
    "activation_checkpointing": "none",
}


def candidate(**changes: str) -> Candidate:
    return resolve(case_of_row({**ROW, **changes})).candidate


def answer(**changes: str) -> CasePrediction:
    return predict_row({**ROW, **changes})


@pytest.mark.parametrize(
    ("words", "schedule"),
    [
        ("1F1B", "1f1b"),
        ("Interleaved1F1B", "interleaved"),
        ("GPipe", "gpipe"),
        ("zero-bubble", "zero-bubble"),
        ("ZBVZeroBubble", "zero-bubble"),
        ("zb-h1", "zero-bubble"),
        ("DualPipeV", "zero-bubble"),
    ],
)
def test_words(words: str, schedule: str) -> None:
    assert schedule_of(words) == schedule


def test_an_unknown_schedule_is_refused_by_the_column() -> None:
    with pytest.raises(CaseError, match=r"^pp_schedule is 'polka'"):
        schedule_of("polka")


def test_a_blank_one_follows_from_the_parts_of_a_stage() -> None:
    assert candidate().schedule == "1f1b"
    assert candidate(vp="2").schedule == "interleaved"
    assert candidate(vp="2", pp_schedule="1f1b").schedule == "interleaved"


def test_an_interleaved_one_has_parts() -> None:
    case = resolve(case_of_row({**ROW, "pp_schedule": "interleaved"}))
    assert (case.candidate.schedule, case.candidate.degrees.vp) == ("interleaved", 2)
    assert "vp 2" in case.assumed
    assert candidate(pp_schedule="interleaved", pp="1", tp="8").degrees.vp == 1


def test_a_schedule_that_is_not_the_usual_one_is_reported_with_the_layout() -> None:
    assert "zero-bubble" in answer(pp_schedule="zero-bubble").layout
    assert "zero-bubble" not in answer(pp_schedule="zero-bubble", pp="1").layout
    assert "1f1b" not in answer().layout


def test_each_schedule_has_its_memory_and_bubble() -> None:
    # little but products: no tensor parallelism, short sequences
    row = {"tp": "1", "n_gpus": "8", "seq_len": "2048"}
    plain, all_forward, filled, cut = (
        answer(pp_schedule=words, **row) for words in ("", "gpipe", "zero-bubble", "interleaved")
    )
    assert plain.memory
    assert all_forward.memory
    assert filled.memory
    assert (
        all_forward.memory.activations > 2 * plain.memory.activations
    )  # all 32 micro-batches, not those of 8 stages
    assert filled.memory.activations == plain.memory.activations
    times = [item.time for item in (plain, all_forward, filled, cut)]
    bubbles = [time.bubble for time in times if time is not None]
    assert bubbles[0] == bubbles[1]
    assert (
        0.2 < bubbles[2] / bubbles[0] < 0.5
    )  # a third, where forward, backward and weights' gradients take equally long
    assert bubbles[3] < 0.7 * bubbles[0]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("", (8, 8, 8)),
        ("zero-bubble", (8, 8, 8)),
        ("gpipe", (8, 32, 128)),
        ("interleaved", (8, 11.5, 11.5)),
    ],
)
def test_gpipe_alone_keeps_the_activations_of_every_micro_batch(words: str, kept: tuple[float, ...]) -> None:
    def activations(schedule: str, micro_batches: int) -> float:
        row = {"tp": "1", "n_gpus": "8", "seq_len": "2048", "global_batch": str(micro_batches)}
        memory = answer(pp_schedule=schedule, **row).memory
        assert memory is not None
        return memory.activations

    # 1F1B keeps one micro-batch for each of the 8 stages.
    of_one = activations("1f1b", 8) / 8
    measured = [activations(words, micro_batches) / of_one for micro_batches in (8, 32, 128)]
    assert measured == pytest.approx(kept, rel=0.01)


def test_communication_and_attention_leave_less_to_fill_the_gaps_with() -> None:
    def left(**changes: str) -> float:
        plain, filled = (answer(pp_schedule=words, **changes).time for words in ("", "zero-bubble"))
        assert plain is not None
        assert filled is not None
        return filled.bubble / plain.bubble

    assert left(tp="1", n_gpus="8", seq_len="2048") < left(seq_len="2048") < left(seq_len="8192") < 1.0


def test_adapters_leave_no_gradients_of_weights_to_fill_the_gaps_with() -> None:
    plain, filled = (answer(pp_schedule=words, task="lora").time for words in ("", "zero-bubble"))
    assert plain is not None
    assert filled is not None
    assert filled.bubble == pytest.approx(plain.bubble)


def test_a_head_that_replaces_a_layer_hardly_delays_the_pipeline() -> None:
    """126 layers and two places are 128: the last stage of 8 has the head instead of a 16th layer."""
    row = {"model": "llama-3.1-405b", "n_gpus": "512", "tp": "8", "global_batch": "512"}
    replaced, even = answer(**row, n_layers="126"), answer(**row, n_layers="128")
    assert replaced.step_time_s is not None
    assert even.step_time_s is not None
    # Stages of both have 16 layers; only the second pays for the head beside them.
    assert 0.93 * even.step_time_s < replaced.step_time_s < 0.995 * even.step_time_s


def test_the_head_delays_every_micro_batch_but_not_the_stages_that_fill_the_pipeline() -> None:
    small, large = answer(vocab="32000"), answer(vocab="256000")
    assert small.time is not None
    assert large.time is not None
    assert large.time.compute > 1.01 * small.time.compute
    assert large.time.bubble == pytest.approx(small.time.bubble)


def test_layouts_that_differ_in_stages_share_their_computation() -> None:
    job = resolve(case_of_row(ROW)).job
    assert isinstance(job, TransformerJob)
    mine = job.candidate

    def with_degrees(**degrees: int) -> TransformerJob:
        changed = msgspec.structs.replace(mine.degrees, **degrees)
        return job._replace(candidate=msgspec.structs.replace(mine, degrees=changed))

    assert computation_of(with_degrees(pp=4, dp=2)) is computation_of(job)
    assert computation_of(with_degrees(tp=8)) != computation_of(job)
