"""Test the text of `rigtune plan`: terms of memory and time, and unknown values."""

from __future__ import annotations

from assistant.pages.training.plan_page import plan_page
from assistant.text.plain_writer import text_of
from tests.support.tui_plans import gpu_plan


def plan_text(**changes) -> list[str]:
    return text_of(plan_page(gpu_plan(**changes)), width=100).splitlines()


def test_the_answer_comes_before_the_table_of_decisions() -> None:
    lines = plan_text()
    assert lines[:2] == ["FSDP over 8 GPUs: 5.21 s per step, 62 of 79 GiB", "micro-batch 1 × 8"]
    assert lines[4] == "59.8 GiB allocated, 61.1 GiB reserved, worst case 68.5 GiB of 79.1 GiB"
    assert lines.index("Decisions") > 2


def test_a_plan_is_readable_at_80_columns() -> None:
    lines = text_of(plan_page(gpu_plan()), width=80).splitlines()
    assert lines[0] == "FSDP over 8 GPUs: 5.21 s per step, 62 of 79 GiB"
    assert max(map(len, lines)) <= 80
    reason = next(line for line in lines if line.startswith("strategy FSDP"))
    assert len(reason.split("modelled: ")[1]) > 30


def test_compute_is_reported_by_its_terms_and_memory_with_its_margin() -> None:
    lines = plan_text()
    first = next(number for number, line in enumerate(lines) if line.startswith("  compute"))
    assert [line.split()[0] for line in lines[first : first + 6]] == [
        "compute", "products", "attention", "elementwise", "launches", "head",
    ]  # fmt: skip
    assert any(line.split() == ["data", "unknown"] for line in lines)
    assert (
        "worst case: 68.5 GiB (62.3 GiB needed when memory is short + 6.2 GiB for the models' error)"
        in "\n".join(lines)
    )


def test_an_unknown_time_has_no_terms() -> None:
    text = "\n".join(plan_text(speed_known=False))
    assert "no GEMM rate is known" in text
    assert "products" not in text
