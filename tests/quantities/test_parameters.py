"""Twice a parameter moves a figure of a prediction."""

from __future__ import annotations

import pytest

from recipes.predict.parameters import values_by_id
from tests.quantities.changing import cases_by_parameter, first_moved, with_parameter

_OWN_COUNT = "every GPU of this chip has its own count of multiprocessors in its row"
_UNFUSED = "this generation has no fused attention, whose share this is"
UNMOVED = {
    "attention.backward_share": "every fused kernel has a row of its own",
    "attention.backward_share.flash3": "FlashAttention-3 runs on Hopper alone, which has a row of its own",
    "attention.backward_share.sm70": _UNFUSED,
    "attention.backward_share.sm75": _UNFUSED,
    "attention.forward_share": "every fused kernel has a row of its own",
    "attention.forward_share.flash3": "FlashAttention-3 runs on Hopper alone, which has a row of its own",
    "attention.forward_share.sm70": _UNFUSED,
    "attention.forward_share.sm75": _UNFUSED,
    "collective.nvls_share": "both architectures whose switch adds up have a row of their own",
    "gemm.full_power_w_per_tflops": "every chip with a 16-bit peak has a row of its own",
    "gemm.multiprocessors.gfx908": _OWN_COUNT,
    "gemm.multiprocessors.gfx90a": _OWN_COUNT,
    "gemm.multiprocessors.gfx942": _OWN_COUNT,
    "gemm.multiprocessors.gfx950": _OWN_COUNT,
    "gemm.multiprocessors.sm60": _OWN_COUNT,
    "gemm.multiprocessors.sm70": _OWN_COUNT,
    "gemm.multiprocessors.sm75": _OWN_COUNT,
    "gemm.multiprocessors.sm86": _OWN_COUNT,
    "gemm.multiprocessors.sm89": _OWN_COUNT,
    "time.expert_exposed.overlapped": "no stack's row says yet that it overlaps the all-to-all of experts",
}
"""Parameters that no prediction depends on, each with the reason."""


@pytest.mark.parametrize("name", values_by_id())
def test_twice_a_parameter_moves_a_figure(name: str) -> None:
    readers = cases_by_parameter().get(name, ())
    with with_parameter(name, 2 * values_by_id()[name] or 0.5):
        moved = first_moved(readers)
    if name in UNMOVED:
        assert not moved, f"{moved} depends on it now: remove the row from UNMOVED"
    else:
        assert moved, "no representative case depends on it: add one to cases.csv, or the reason to UNMOVED"


def test_the_list_of_parameters_that_nothing_depends_on_names_rows() -> None:
    assert set(UNMOVED) <= set(values_by_id())
