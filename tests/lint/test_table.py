"""The table of rules: each row is valid, a text shows each mistake, and each function judges every text."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recipes.lint import rule_table
from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.reading import read_document
from recipes.lint.rule_table import LintRule, lint, load_rules, rule_rows
from tests.support.lint_script_texts import CONTEXT_MISTAKES, MACHINE, REACHING_MISTAKES, SCRIPT_MISTAKES
from tests.support.lint_sound_texts import SETTINGS_OF_OTHER_COMMANDS, SOUND_FILES, SOUND_SCRIPTS
from tests.support.lint_texts import MISTAKES
from tests.support.linting import judge, read, rule_ids, rules_by_function

_FOLDER = Path(__file__).parent
_CASES = sorted(path for path in (_FOLDER / "cases").iterdir() if (path / "rule").exists())
_ROWS = {str(row.get("id", number)): row for number, row in enumerate(rule_rows())}
_FUNCTIONS = rules_by_function()


@pytest.mark.parametrize("row", _ROWS.values(), ids=_ROWS)
def test_row_is_valid_and_gives_its_reason_and_source(row: dict[str, object]):
    rule = msgspec.convert(row, LintRule)
    assert rule.title
    assert rule.reason
    assert rule.source


def test_ids_are_unique():
    assert len(_ROWS) == len(rule_rows())


@functools.lru_cache(maxsize=1)
def _shown_rules() -> frozenset[str]:
    """Return the rules that a case folder or a short text shows."""
    texts = [*MISTAKES, *SCRIPT_MISTAKES, *CONTEXT_MISTAKES]
    cases = {(case / "rule").read_text("utf-8").strip() for case in _CASES}
    return frozenset(row[0] for row in texts) | cases | {"conf-overruled", "hostfile-refused", "hostfile-few"}


@pytest.mark.parametrize("rule_id", _ROWS)
def test_rule_is_shown_by_a_text(rule_id: str):
    assert rule_id in _shown_rules()


def _texts() -> Iterator[tuple[str, str]]:
    """Yield file names and texts of all cases, sound files and short texts."""
    for folder in (_FOLDER / "cases", _FOLDER / "clean"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.name not in ("rule", "context.json"):
                yield path.name, path.read_text("utf-8")
    for _, name, text in MISTAKES:
        yield name, text
    for _, name, text, _ in CONTEXT_MISTAKES:
        yield name, text
    for _, text in (*SCRIPT_MISTAKES, *REACHING_MISTAKES.values()):
        yield "a.sh", text
    for text in (*SOUND_SCRIPTS.values(), *SETTINGS_OF_OTHER_COMMANDS.values()):
        yield "a.sh", text
    yield from SOUND_FILES.values()


@functools.lru_cache(maxsize=1)
def _documents() -> tuple[Document, ...]:
    """Return the documents of the texts; a reader that fails on a text must not fail the tests of rules."""
    documents = []
    for name, text in _texts():
        with contextlib.suppress(Exception):
            documents.append(read_document(name, text))
    return tuple(document for document in documents if document is not None)


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_function_judges_every_text_and_reports_only_rules_of_the_table(function: str):
    context = Context(machine=MACHINE, nccl_version="2.21.5")
    own_rules = [rule for rule in load_rules().values() if rule.functions[0] == function]
    rule = min(own_rules, key=lambda own: len(own.also))
    allowed = {rule_id for name in rule.functions for rule_id in _FUNCTIONS[name]}
    for document in _documents():
        findings = lint((document,), context, only=[rule.id])
        assert {finding.rule_id for finding in findings} <= allowed


def test_rows_of_a_function_agree_on_its_input():
    inputs = {(rule.functions[0], rule.judges) for rule in load_rules().values()}
    assert len(inputs) == len({name for name, _ in inputs})
    assert {name for rule in load_rules().values() for name in rule.also} <= {name for name, _ in inputs}


_GOOD = {"id": "good", "severity": "note", "title": "a", "reason": "b", "source": "c"}


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ({**_GOOD, "module": "syntax", "function": "missing"}, "the rule syntax.missing has a bug"),
        ({**_GOOD, "module": "missing", "function": "a"}, "the rule missing.a has a bug"),
        ({"id": "half"}, "the row of the rule half is not valid"),
    ],
    ids=["function", "module", "row"],
)
def test_broken_rule_is_reported_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, row: dict[str, str], complaint: str
):
    rows = (row, *rule_rows())
    monkeypatch.setattr(rule_table, "rule_rows", lambda: rows)
    monkeypatch.setattr(rule_table, "load_rules", load_rules.__wrapped__)
    broken: list[str] = []
    document = read("a.sh", "export NCCL_SHM_DISABLE=1\n")
    assert [finding.rule_id for finding in lint((document,), Context(), broken)] == ["shm-disabled"]
    assert any(line.startswith(complaint) for line in broken)
    with pytest.raises((ValueError, ImportError, AttributeError)):
        lint((document,), Context())


def test_only_the_named_rules_are_judged():
    document = read("a.sh", "export NCCL_SHM_DISABLE=1\nexport NCCL_IB_TIMEOUT=022\n")
    assert {finding.rule_id for finding in judge(document)} == {"shm-disabled", "value-octal"}
    assert [finding.rule_id for finding in judge(document, only=["value-octal"])] == ["value-octal"]


@pytest.mark.parametrize(
    ("rule_id", "name", "text", "context"), CONTEXT_MISTAKES, ids=[row[0] for row in CONTEXT_MISTAKES]
)
def test_rule_needs_the_version_or_the_machine(rule_id: str, name: str, text: str, context: Context):
    assert rule_id in rule_ids(name, text, context=context, only=[rule_id])
    if rule_id != "connections-one":
        assert rule_id not in rule_ids(name, text, only=[rule_id])
