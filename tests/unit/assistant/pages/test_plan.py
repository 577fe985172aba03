from __future__ import annotations

import msgspec
import pytest

from assistant.pages.blocks import plain
from assistant.pages.training import plan_page as page
from assistant.pages.training.bill import speed
from assistant.pages.training.run_lines import hours
from recipes.job.candidate import Degrees
from recipes.planning.layout_words import describe, layout_title
from recipes.planning.plan import Decision
from tests.support.tui_plans import gpu_plan
from tests.support.tui_text import words


@pytest.mark.parametrize("width", [138, 76])
def test_every_decision_shows_value_basis_and_reason(width):
    text = words(page.decisions(gpu_plan()), width=width)
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
    assert "or 3.75e-5 linear" in text


def test_variables_with_one_value_and_reason_share_a_row():
    def row(name, value="expandable_segments:True"):
        return Decision(name=name, value=value, basis="rule", because="memory may reach 97 % of the GPU")

    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    made = msgspec.structs.replace(
        gpu_plan(), decisions=(*map(row, names), row("OTHER", "1"), row("a"), row("b"))
    )
    (table,) = page.decisions(made).blocks
    shown = [plain(cells[0]).split() for cells in table.rows]
    segments = "expandable_segments:True"
    assert shown == [
        ["PYTORCH_ALLOC_CONF,", names[1], segments],
        ["OTHER", "1"],
        ["a", segments],
        ["b", segments],
    ]


@pytest.mark.parametrize(
    ("tokens", "per", "shown"),
    [(839.615, "rank", "840 tokens/s per rank"), (0.51234, "GPU", "0.512 tokens/s per GPU"),
     (6553.0, "GPU", "6553 tokens/s per GPU"), (6553.2, "GPU", "6.55 k tokens/s per GPU")],
)  # fmt: skip
def test_a_speed_has_at_least_three_digits_and_names_the_rank(tokens, per, shown):
    assert speed(tokens, None, per=per) == shown


@pytest.mark.parametrize(
    ("samples", "shown"), [(5.99681, "5.997"), (9999.0, "9999"), (11049.3, "11049"), (182345.6, "182 k")]
)
def test_a_large_rate_of_samples_has_no_exponent(samples, shown):
    assert speed(None, None, samples) == f"{shown} samples/s in all"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.00102, "3.7 s"), (0.2, "12 min"), (5.2, "5.2 h"), (295.2, "12.3 days")]
)
def test_hours_are_shown_in_the_unit_that_people_use(value, shown):
    assert hours(value) == shown


@pytest.mark.parametrize(
    ("basis", "because", "shown"),
    [
        ("rule", "fp32 costs memory", "rule: fp32 costs memory"),
        ("published", "the published recipe: 0.1", "the published recipe: 0.1"),
        ("borrowed", "borrowed from GPT-3: 0.1", "borrowed from GPT-3: 0.1"),
        ("borrowed", "recipe of GPT-3", "borrowed: recipe of GPT-3"),
    ],
)
def test_a_decision_names_its_basis_once(basis, because, shown):
    row = Decision(name="learning_rate", value="0.1", basis=basis, because=because)
    plan = msgspec.structs.replace(gpu_plan(), decisions=(row,))
    assert " ".join(words(page.decisions(plan)).split()).endswith(f"learning rate 0.1 {shown}")


def test_the_prediction_names_its_terms():
    memory, time = page.prediction(gpu_plan())
    assert memory.title == "Memory per rank  62.3 GiB of 79.1 GiB, worst case 68.5 GiB"
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


def test_an_unknown_speed_is_shown_as_unknown():
    _, time = page.prediction(gpu_plan(speed_known=False))
    assert time.title == "Step time  unknown"
    assert "no GEMM rate is known" in words(time)


def test_rejected_candidates_keep_their_reason_and_are_bounded():
    text = words(page.others(gpu_plan(rejected=3)))
    assert "needs 141 GiB of 79.1 GiB" in text
    assert "and 300 more" in words(page.others(gpu_plan(rejected=500)))


def test_a_candidate_names_its_layout_once():
    rejected = gpu_plan().rejected[0].candidate
    assert describe(rejected) == "DDP over 8 GPUs, micro-batch 1 × 8, full recomputation"
    mixed = msgspec.structs.replace(
        rejected, strategy="hsdp", sharding="zero3", degrees=Degrees(dp=2, fsdp=4)
    )
    assert describe(mixed).startswith("HSDP over 2 × 4 GPUs, ")


@pytest.mark.parametrize(
    ("sharding", "degrees", "title"),
    [
        ("zero1", Degrees(dp=1, tp=4, pp=8, vp=5), "tp 4 × pp 8 (vp 5)"),
        ("zero1", Degrees(dp=16, tp=4, pp=8, vp=5), "ZeRO-1 16 × tp 4 × pp 8 (vp 5)"),
        ("zero1", Degrees(dp=16, pp=2, ep=8), "ZeRO-1 16 × pp 2, ep 8"),
        ("zero2", Degrees(dp=8), "ZeRO-2 over 8 GPUs"),
        ("zero3", Degrees(fsdp=32), "FSDP over 32 GPUs"),
        ("zero3", Degrees(fsdp=32, cp=2), "FSDP 32 × cp 2"),
        ("zero3", Degrees(dp=2, fsdp=8, tp=2), "HSDP 2 × 8 × tp 2"),
        ("none", Degrees(), "one GPU"),
        ("none", Degrees(dp=8, ep=8), "DDP over 8 GPUs, ep 8"),
    ],
)
def test_a_layout_reads_as_a_product_of_its_degrees(sharding, degrees, title):
    row = msgspec.structs.replace(gpu_plan().rejected[0].candidate, sharding=sharding, degrees=degrees)
    assert layout_title(row) == title


def test_alternatives_are_grouped_into_ties_slower_layouts_and_rejections():
    plan = gpu_plan(rejected=2)
    tie = msgspec.structs.replace(plan.chosen, is_tie=True, lost_because="1.1 % slower, within the tie")
    slow = msgspec.structs.replace(plan.chosen, lost_because="31 % slower: bubble 1.2 s longer")
    plan = msgspec.structs.replace(plan, alternatives=(slow, tie), not_searched=("fp8", "offload"))
    section = page.others(plan)
    assert section.title == "Alternatives: 1 as fast, 1 slower, 2 without room"
    text = words(section)
    assert text.index("within the tie") < text.index("bubble 1.2 s longer") < text.index("needs 141 GiB")
    assert "Not searched: fp8, offload" in text
