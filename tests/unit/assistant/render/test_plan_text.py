"""The text of `rigtune plan`: what memory and time are made of, and what is not known."""

from __future__ import annotations

from assistant.render.plan_text import render_plan
from tests.support.tui_plans import gpu_plan


def test_compute_is_told_by_its_terms_and_memory_with_its_margin() -> None:
    text = render_plan(gpu_plan())
    assert "compute 4.6 s, exposed communication 400 ms, optimizer 210 ms, data unknown\n" in text
    assert (
        "of compute: products 3.3 s, attention 700 ms, elementwise 350 ms, launches 50 ms, head 200 ms\n"
        in text
    )
    assert "at most 68.5 GiB (62.3 GiB needed when memory is short + 6.2 GiB for the models' error)" in text


def test_an_unknown_time_has_no_terms() -> None:
    text = render_plan(gpu_plan(speed_known=False))
    assert "no GEMM rate is known" in text
    assert "of compute" not in text
