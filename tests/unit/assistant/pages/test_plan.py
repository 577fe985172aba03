from __future__ import annotations

import msgspec
import pytest

from assistant.pages.training import plan_page as page
from assistant.usecases.plan import PlanRequest
from probes.base.errors import UsageError
from recipes.job.candidate import Degrees
from tests.support.tui_plans import gpu_plan
from tests.support.tui_text import words


@pytest.mark.parametrize(("is_wide", "width"), [(True, 138), (False, 76)])
def test_every_decision_shows_value_basis_and_reason(is_wide, width):
    text = words(
        page.decisions(gpu_plan(), with_alternatives=True) if is_wide else page.narrow_decisions(gpu_plan()),
        width=width,
    )
    for part in (
        "FSDP over 8 ranks",
        "modelled",
        "measured",
        "DDP needs 141 GiB",
        "1.06e-4",
        "NCCL_IB_HCA",
        "port mlx5_3 is down",
    ):
        assert part in text
    assert ("3.75e-5 linear" in text) == is_wide


def test_the_prediction_names_its_terms():
    memory, time = page.prediction(gpu_plan())
    assert memory.title == "Memory per rank  worst case 68.5 GiB of 79.1 GiB"
    assert "activations" in words(memory)
    bound = "worst case: 68.5 GiB (62.3 GiB needed when memory is short + 6.2 GiB for the models' error)"
    assert bound in " ".join(words(memory).split())
    assert time.title == "Step time  5.21 s  (4.7 s to 5.9 s)"
    text = words(time)
    assert "12580 tokens/s per GPU, MFU 47 %" in text
    assert (
        text.index("compute")
        < text.index("  products")
        < text.index("  attention")
        < text.index("exposed communication")
    )
    assert "recomputation" not in text


def test_an_unknown_speed_is_said_and_not_guessed():
    _, time = page.prediction(gpu_plan(speed_known=False))
    assert time.title == "Step time  unknown"
    assert "no GEMM rate is known" in words(time)


def test_rejected_candidates_keep_their_reason_and_are_bounded():
    text = words(page.others(gpu_plan(rejected=3)))
    assert "needs 141 GiB of 79.1 GiB" in text
    assert "and 300 more" in words(page.others(gpu_plan(rejected=500)))


def test_the_form_starts_from_what_was_asked_for():
    asked = page.form_values(PlanRequest(model="gpt2", nodes=2, global_batch=32), gpu_plan())
    assert asked == {"model": "gpt2", "global_batch": "32", "sequence_length": "", "nodes": "2"}
    assert page.form_values(PlanRequest(), None)["model"] == ""


def test_the_form_shows_what_rigtune_chose_and_does_not_pin_it():
    assert page.form_values(PlanRequest(), gpu_plan()) == {
        "model": "llama-3-8b",
        "global_batch": "",
        "sequence_length": "",
        "nodes": "1",
    }
    assert page.form_hints(gpu_plan())["global_batch"].endswith("now 64")
    assert page.form_hints(None)["model"] == page.form_hints(gpu_plan())["model"]


def test_a_filled_form_becomes_a_request():
    request = page.request_of({"model": " gpt2 ", "global_batch": "", "sequence_length": "1024", "nodes": ""})
    assert request == PlanRequest(model="gpt2", sequence_length=1024)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "1e3", "٣", "9" * 40])
def test_what_is_no_number_is_named(text):
    with pytest.raises(UsageError, match="global batch"):
        page.request_of({"model": "gpt2", "global_batch": text, "sequence_length": "", "nodes": ""})


def test_a_candidate_names_its_strategy_once():
    rejected = gpu_plan().rejected[0].candidate
    assert page.describe(rejected) == "ddp over 8 ranks, micro-batch 1 × 8, full recompute"
    mixed = msgspec.structs.replace(rejected, strategy="hsdp", degrees=Degrees(dp=2, fsdp=4))
    assert page.describe(mixed).startswith("hsdp dp 2 fsdp 4, ")
