"""Test the options of `rigtune predict` within this process: cases, formats and remarks."""

from __future__ import annotations

import csv
import io
import json

import pytest

from assistant.cli import command_line

ONE = ("--set", "model=gpt2", "--set", "gpu=H100-SXM-80GB", "--set", "n_gpus=1")
TABLE = "case_id,model,gpu,n_gpus,{more}\na,gpt2,H100-SXM-80GB,1,1\nb,no-such-model,H100-SXM-80GB,1,2\n"


@pytest.fixture
def cases(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.csv").write_text(TABLE.format(more="micro_batch"))
    return tmp_path


def predict(capsys, *words: str) -> tuple[int, str, str]:
    code = command_line(["predict", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_table_is_answered_in_order_and_summed_up(capsys, cases):
    code, out, err = predict(capsys, "cases.csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [(row["case_id"], row["status"]) for row in rows] == [("a", "predicted"), ("b", "refused")]
    assert err != ""
    assert predict(capsys, "cases.csv", "-q")[1:] == (out, "")


@pytest.mark.parametrize(
    ("name", "is_json"), [("out.json", True), ("out.JSON", True), ("out.csv", False), ("out", False)]
)
def test_the_ending_of_the_output_chooses_the_format(capsys, cases, name, is_json):
    code, out, _ = predict(capsys, "cases.csv", "-o", name)
    text = (cases / name).read_text()
    assert (code, out) == (0, "")
    assert text.startswith("{") is is_json
    if is_json:
        assert [case["case_id"] for case in json.loads(text)["cases"]] == ["a", "b"]


def test_one_case_is_explained_as_text(capsys, cases):
    for words in (ONE, ("cases.csv", "--explain", "a")):
        _, out, err = predict(capsys, *words)
        assert "One step: " in out
        assert "Memory of the fullest GPU: " in out
        assert err == ""
    assert predict(capsys, *ONE, "--format", "csv")[1].startswith("case_id,")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no cases are given"),
        (("cases.csv", *ONE), "--set and a table exclude each other"),
        (("--set", "modle=gpt2"), "did you mean model?"),
        (("--set", "model"), "give COLUMN=VALUE"),
        (("--set", "n=1"), "did you mean n_"),
        (("--set", "model=gpt2", "--set", "sharding=odd"), "sharding is 'odd', which is not known"),
        (("cases.csv", "-o", "cases.csv"), "cases.csv contains the cases"),
        (("cases.csv", "--collectives", "--model-file", "x.json"), "exclude each other"),
        (("cases.csv", "--explain", "zzz"), "zzz"),
    ],
)
def test_wrong_options_are_refused(capsys, cases, words, message):
    code, out, err = predict(capsys, *words)
    assert (code != 0, out) == (True, "")
    assert message in err


@pytest.mark.parametrize(
    ("column", "remark"),
    [
        ("micro_batch", ""),
        ("source_url", ""),
        ("raw_text", ""),
        ("colour", "these columns are unknown: colour\n"),
        ("micro_batc", "these columns are unknown: micro_batc (did you mean micro_batch?)\n"),
        ("x" * 41, f"these columns are unknown: {'x' * 40}\n"),
    ],
)
def test_columns_that_are_not_read_are_named(capsys, cases, column, remark):
    (cases / "cases.csv").write_text(TABLE.format(more=column))
    err = predict(capsys, "cases.csv")[2]
    assert ("columns are unknown" in err) is bool(remark)
    assert remark in err
    assert predict(capsys, "cases.csv", "-q")[2] == ""
