"""Data that is binned by length: the mean length determines the time, the greatest length the memory."""

import pytest

from recipes.cases.prediction import CasePrediction, predict_row

BERT = {
    "model": "bert-large",
    "gpu": "V100-SXM2-16GB",
    "n_gpus": "16",
    "seq_len": "512",
    "micro_batch": "8",
    "precision": "fp16-mixed",
    "stack": "torch",
    "sharding": "ddp",
    "activation_checkpointing": "none",
}


def predicted(**changes: str) -> CasePrediction:
    answer = predict_row({**BERT, **changes})
    assert answer.status == "predicted", answer.reason
    return answer


def test_time_follows_the_mean_length_and_memory_the_longest() -> None:
    binned, whole, short = predicted(mean_seq_len="160"), predicted(), predicted(seq_len="160")
    assert binned.memory == whole.memory
    assert binned.step_time_s == short.step_time_s
    assert short.step_time_s is not None
    assert whole.step_time_s is not None
    assert short.step_time_s < whole.step_time_s


def test_tokens_are_counted_at_the_mean_length() -> None:
    binned = predicted(mean_seq_len="160.5")
    assert binned.samples_per_s is not None
    assert binned.tokens_per_s_per_gpu == pytest.approx(binned.samples_per_s * 160.5 / 16)


def test_a_stated_mean_takes_precedence_over_the_share_of_padding_that_a_stack_leaves_out() -> None:
    """MLPerf's BERT leaves padding out; its mean is assumed where the case states none."""
    assumed, stated = predicted(stack="mlperf"), predicted(stack="mlperf", mean_seq_len="511")
    assert assumed.step_time_s is not None
    assert stated.step_time_s is not None
    assert stated.step_time_s > assumed.step_time_s


@pytest.mark.parametrize("blank", ["", "-", "n/a"])
def test_a_blank_mean_changes_nothing(blank: str) -> None:
    assert predicted(mean_seq_len=blank) == predicted()


@pytest.mark.parametrize("words", ["600", "0", "-1", "nan", "inf", "1e400", "half"])
def test_an_impossible_mean_is_refused_by_its_name(words: str) -> None:
    answer = predict_row({**BERT, "mean_seq_len": words})
    assert answer.status == "refused"
    assert "mean_seq_len" in answer.reason


def test_a_mean_length_of_images_is_ignored_and_reported() -> None:
    answer = predicted(model="resnet50", seq_len="", mean_seq_len="3")
    assert "mean_seq_len is ignored: an image model has no sequences" in answer.assumed
