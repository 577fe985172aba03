"""Test the suggestions for names that do not exist."""

from __future__ import annotations

import pytest

from probes.base.nearest import did_you_mean, nearest, suggestion


@pytest.mark.parametrize(
    ("name", "rest", "hint"),
    [
        (" NVLNK ", "", "did you mean nvlink?"),
        ("nvlnk", "see `rigtune list`", "did you mean nvlink? see `rigtune list`"),
        ("storage", "see `rigtune list`", "see `rigtune list`"),
        ("storage", "", ""),
    ],
)
def test_a_hint_names_what_is_similar(name: str, rest: str, hint: str) -> None:
    assert did_you_mean(name, ["nvlink", "gpu"], rest) == hint


def test_the_most_similar_names_come_first() -> None:
    assert nearest("gpu_memory", ["gpu_clock", "gpu_memory_test", "nic"], most=2) == [
        "gpu_memory_test",
        "gpu_clock",
    ]
    assert nearest("gpu_memory", ["gpu_clock", "gpu_memory_test"]) == ["gpu_memory_test"]
    assert suggestion(["a", "b"]) == "did you mean a or b?"
