"""Test that the reader returns one row for each line, with its cells or its fault."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from assistant.usecases.case_rows import CaseRow, case_rows
from probes.base.errors import InputError

COLUMNS = ("case_id", "model", "tp")


def rows_of(tmp_path: Path, data: str | bytes) -> list[CaseRow]:
    path = tmp_path / "cases.csv"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return list(case_rows(path, COLUMNS))


def test_columns_in_any_order_with_others_between(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "tp,notes,CASE_ID , model\n8,x,a,m\n,,b,\n")
    assert [row.cells for row in rows] == [
        {"case_id": "a", "model": "m", "tp": "8"},
        {"case_id": "b", "model": "", "tp": ""},
    ]
    assert [(row.line, row.fault) for row in rows] == [(2, ""), (3, "")]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_separators_and_line_ends_of_spreadsheets_are_read(
    encoding: str, separator: str, end: str, tmp_path: Path
) -> None:
    text = f"case_id,model{end}a,Modèle{end}b,m{end}".replace(",", separator)
    rows = rows_of(tmp_path, text.encode(encoding))
    assert [row.cells for row in rows] == [
        {"case_id": "a", "model": "Modèle"},
        {"case_id": "b", "model": "m"},
    ]
    assert not any(row.fault for row in rows)


def test_an_id_in_another_encoding_leaves_as_it_came(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, "case_id,model\nlauf-größe,m\n".encode("latin-1"))
    assert row.cells["case_id"].encode("utf-8", "surrogateescape") == "lauf-größe".encode("latin-1")


def test_lines_within_quotes_and_blank_lines(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, 'case_id,model,notes\n\na,m,"one\ntwo, three"\n\nb,n,""\n')
    assert [(row.cells["case_id"], row.fault) for row in rows] == [("a", ""), ("b", "")]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("x,m", ("line 3", "2 cells", "header has 3")),
        ("x,m,8,9", ("line 3", "4 cells", "header has 3")),
        (",m,8", ("case_id is blank", "line 3")),
        ("a,m,8", ("case_id", "line 2")),
        ("x,m\x00,8", ("line 3", "NUL")),
        (f"x,{'m' * 200_000},8", ("line 3", "field larger")),
        (f"x,{'m' * (2**20 + 5)},8", ("line 3", "longer than")),
    ],
    ids=["short", "long", "no id", "same id", "NUL", "huge cell", "huge line"],
)
def test_a_bad_row_is_reported_and_the_next_one_read(
    line: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    rows = rows_of(tmp_path, f"case_id,model,tp\na,m,8\n{line}\nb,m,8\n")
    assert len(rows) == 3
    assert [rows[0].fault, rows[2].fault] == ["", ""]
    assert rows[2].cells["case_id"] == "b"
    assert all(word in rows[1].fault for word in words), rows[1].fault


def test_a_quote_that_is_never_closed_names_the_lines_it_takes(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, 'case_id,model,tp\na,m,8\nb,"m,8\nc,m,8\nd,m,8\n')
    good, bad = rows
    assert good.fault == ""
    assert "lines 3 to 5" in bad.fault


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "empty"),
        (b"\n", "blank"),
        (b"model,tp\nm,8\n", "no column case_id"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "no column case_id"),
        (b'{"case_id": "a"}\n', "no column case_id"),
        (b"case_id,tp,TP\na,1,2\n", "column tp more than once"),
        (b"x" * (2**20 + 10), "does not end"),
    ],
    ids=["nothing", "blank", "no id", "picture", "JSON", "twice", "endless"],
)
def test_a_file_that_is_no_table_of_cases_is_refused(data: bytes, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words) as caught:
        rows_of(tmp_path, data)
    assert "cases.csv" in caught.value.message
    assert caught.value.hint


def test_a_file_that_cannot_be_read_as_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        list(case_rows(tmp_path / "missing.csv", COLUMNS))
    with pytest.raises(InputError, match="folder"):
        list(case_rows(tmp_path, COLUMNS))
    with pytest.raises(InputError, match="does not end"):
        list(case_rows(Path("/dev/zero"), COLUMNS))


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"case_id\na\n"))))
    assert [row.cells for row in case_rows(Path("-"), COLUMNS)] == [{"case_id": "a"}]


def test_other_columns_are_reported_once_and_only_where_there_are_any(tmp_path: Path) -> None:
    skipped: list[tuple[str, ...]] = []
    path = tmp_path / "cases.csv"
    path.write_text("case_id,tp,microbatch,,zero,zero\na,1,2,,3,3\nb,1,2,,3,3\n")
    assert len(list(case_rows(path, COLUMNS, skipped.append))) == 2
    path.write_text("case_id,tp\na,1\n")
    assert len(list(case_rows(path, COLUMNS, skipped.append))) == 1
    assert skipped == [("microbatch", "zero")]
