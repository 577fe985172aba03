"""A row of cells becomes typed values, or one sentence that names the column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.cases.case import COLUMNS, Case, CaseError, case_of_row


def test_cells_in_any_order_blanks_and_unknown_columns() -> None:
    row = {
        "n_gpus": " 8 ",
        "mfu": "0.4",
        "case_id": "a",
        "model": "llama-3-8b",
        "tp": "",
        "seq_len": "4096.0",
        "cp": "n/a",
    }
    assert case_of_row(row) == Case(case_id="a", model="llama-3-8b", n_gpus=8, seq_len=4096)


def test_measured_columns_are_no_inputs() -> None:
    measured = {
        "step_time_s",
        "tokens_per_s_per_gpu",
        "samples_per_s",
        "tflops_per_gpu",
        "mfu",
        "hfu",
        "peak_mem_gib",
        "oom",
    }
    unread_columns = {"source_id", "raw_strategy", "raw_precision", "notes", "derived", "source_date"}
    assert not (measured | unread_columns) & set(COLUMNS)


@pytest.mark.parametrize("column", ["dp", "fsdp", "tp", "pp", "cp", "ep", "vp", "n_experts"])
@pytest.mark.parametrize("cell", ["0", "-1", "0.0"])
def test_a_degree_that_is_off(column: str, cell: str) -> None:
    assert getattr(case_of_row({"case_id": "a", column: cell}), column) is None


@pytest.mark.parametrize(
    ("column", "cell", "value"),
    [
        ("compile", "True", True),
        ("compile", "0", False),
        ("compile", "max-autotune", True),
        ("flash_attention", "yes", True),
        ("flash_attention", "flash_attention_2", True),
        ("flash_attention", "eager", False),
        ("sequence_parallel", "off", False),
        ("zero_stage", "0", 0),
        ("params_b", "0.11", 0.11),
        ("gpu_mem_gb", "80", 80.0),
    ],
)
def test_values(column: str, cell: str, value: object) -> None:
    assert getattr(case_of_row({"case_id": "a", column: cell}), column) == value


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("n_gpus", "eight"),
        ("n_gpus", "0"),
        ("n_gpus", "-8"),
        ("n_gpus", "nan"),
        ("n_gpus", "inf"),
        ("n_gpus", "1e30"),
        ("n_gpus", "1e12"),
        ("n_gpus", "8.5"),
        ("zero_stage", "4"),
        ("params_b", "0"),
        ("seq_len", "4k"),
        ("sequence_parallel", "perhaps"),
        ("compile", "2"),
    ],
)
def test_a_value_that_cannot_be_is_named(column: str, cell: str) -> None:
    with pytest.raises(CaseError, match=rf"^{column} is .*{cell[:3]}"):
        case_of_row({"case_id": "a", column: cell})


@given(st.dictionaries(st.sampled_from(COLUMNS), st.text(max_size=30)))
def test_any_cells_are_read_or_refused_by_the_column(row: dict[str, str]) -> None:
    case = _read(row)
    if isinstance(case, Case):
        assert all(
            getattr(case, column) in (None, "") for column in COLUMNS if not row.get(column, "").strip()
        )
    else:
        assert case.split(" ", 1)[0] in row


def _read(row: dict[str, str]) -> Case | str:
    """Return the case, or why there is none."""
    try:
        return case_of_row(row)
    except CaseError as error:
        return str(error)


def test_more_parts_of_a_stage_than_any_model_has_layers_are_refused() -> None:
    with pytest.raises(CaseError, match="vp is 1e15: give at most 1000"):
        case_of_row({"case_id": "a", "vp": "1e15"})
