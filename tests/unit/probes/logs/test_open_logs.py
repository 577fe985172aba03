"""Test recorded logs outside the project: the right cause comes first for 95 %, and healthy logs have no fault."""

from __future__ import annotations

import pytest

from tests.support.log_cases.reading import explained_file, ids
from tests.support.recordings import MACHINES, index, needs_recordings

KINDS = ("nccl_log", "kernel_log", "nccl_tests", "nvlink", "dcgm", "perftest", "nvbandwidth")
FIRST = 0.95
"""Share of logs whose cause must be the first."""
WITHOUT_ITS_EVIDENCE = ("nccl_log/excerpt-wrong-nic-mlx5_bond_0-included.log",)
"""Recordings that differ from their row of the index: this log names eight HCAs and no bond."""

pytestmark = needs_recordings


def paths(*, state: str = "", with_causes: bool = False) -> list[str]:
    """Return the recordings of some kinds."""
    return [
        path
        for path, row in index().items()
        if row["kind"] in KINDS
        and (not state or row["state"] == state)
        and (not with_causes or row["accepted_causes"])
    ]


def test_the_cause_of_the_index_is_the_first_for_95_percent() -> None:
    wrong = {}
    for path in paths(with_causes=True):
        causes = ids(explained_file(MACHINES / path))
        if causes[0] not in index()[path]["accepted_causes"].split():
            wrong[path] = causes
    assert len(wrong) <= (1 - FIRST) * len(paths(with_causes=True)), wrong


@pytest.mark.parametrize(
    "path", [path for path in paths(with_causes=True) if path not in WITHOUT_ITS_EVIDENCE]
)
def test_an_accepted_cause_is_among_the_first_three(path: str) -> None:
    causes = ids(explained_file(MACHINES / path))[:3]
    assert set(causes) & set(index()[path]["accepted_causes"].split()), causes


@pytest.mark.parametrize("path", paths(state="healthy"))
def test_healthy_logs_are_accused_of_nothing(path: str) -> None:
    explanation = explained_file(MACHINES / path)
    assert explanation.state == "healthy"
    assert not [diagnosis.summary for diagnosis in explanation.diagnoses if diagnosis.is_fault]
