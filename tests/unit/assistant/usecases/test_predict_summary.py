"""Test how the answers to a table are counted."""

from __future__ import annotations

import pytest

from assistant.usecases.case_rows import CaseRow
from assistant.usecases.predict import OTHER, CaseAnswered, PredictSummary, predict_cases, predict_collectives

GOOD = {
    "model": "llama-3-8b",
    "gpu": "H100-SXM-80GB",
    "n_gpus": "8",
    "micro_batch": "1",
    "global_batch": "64",
}
ALL_REDUCE = {"gpu": "H100-SXM-80GB", "n_gpus": "8", "collective": "all_reduce", "bytes": "1048576"}


def rows(*changes: dict[str, str], base: dict[str, str]) -> list[CaseRow]:
    cells = [{"case_id": f"case {number}", **base, **change} for number, change in enumerate(changes)]
    return [CaseRow(line=number + 2, cells=each, fault="") for number, each in enumerate(cells)]


@pytest.mark.parametrize(
    ("changes", "predicted", "refused_for"),
    [
        ((), 0, {}),
        (({},), 1, {}),
        (({"n_gpus": "many"},), 0, {"n_gpus": 1}),
        (({}, {"tp": "x"}, {"n_gpus": "many"}, {"n_gpus": "few"}), 1, {"n_gpus": 2, "tp": 1}),
    ],
)
def test_cases_are_counted_by_the_column_that_refuses_them(
    changes: tuple[dict[str, str], ...], predicted: int, refused_for: dict[str, int]
) -> None:
    *answers, end = predict_cases(rows(*changes, base=GOOD))
    summary = PredictSummary(predicted=predicted, refused=sum(refused_for.values()), refused_for=refused_for)
    assert end.result == summary  # type: ignore[union-attr]
    assert list(summary.refused_for) == list(end.result.refused_for)  # type: ignore[union-attr]
    answered = [event.answer.case_id for event in answers if isinstance(event, CaseAnswered)]
    assert answered == [f"case {number}" for number in range(len(changes))]


def test_a_row_that_could_not_be_read_is_refused_for_no_column() -> None:
    (row,) = rows({}, base=GOOD)
    *_, end = predict_cases([CaseRow(line=row.line, cells=row.cells, fault="the line has 3 cells too many")])
    assert end.result.refused_for == {OTHER: 1}  # type: ignore[union-attr]


def test_collectives_are_counted_in_the_same_way() -> None:
    *_, end = predict_collectives(rows({}, {"collective": "polka"}, base=ALL_REDUCE))
    assert end.result == PredictSummary(predicted=1, refused=1, refused_for={"collective": 1})  # type: ignore[union-attr]
