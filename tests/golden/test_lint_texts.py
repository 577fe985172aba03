"""Compare all findings of lint in the texts of its tests. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

The tables of mistakes compare only the ids of rules; here severity, place, words and edits of a finding must
not change unnoticed. Each rule has a file of its own, so that a broken rule fails its own test only.
"""

from __future__ import annotations

import functools
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint, load_examples, load_rules
from tests.support.lint_script_texts import CONTEXT_MISTAKES, MACHINE, REACHING_MISTAKES, SCRIPT_MISTAKES
from tests.support.lint_texts import MISTAKES

FOLDER = Path(__file__).parent / "lint"
CASES = Path(__file__).parents[1] / "lint" / "cases"
SHARED = Context(machine=MACHINE, nccl_version="2.21.5", torch_version="2.8.0")

MOST_FINDINGS = 20
"""Maximum number of findings in each file, because a rule about the machine has one in nearly every text."""


def _texts() -> Iterator[tuple[str, str, Context]]:
    """Yield names and texts with their contexts."""
    for folder in sorted(CASES.iterdir()):
        stored = folder / "context.json"
        context = msgspec.json.decode(stored.read_bytes(), type=Context) if stored.exists() else Context()
        for path in sorted((folder / "mistake").glob("*")):
            yield path.name, path.read_text("utf-8"), context
    for example in load_examples().values():
        for text in (example.bad, example.good):
            yield from ((example.name, text, context) for context in (Context(), SHARED))
    for _, name, text in MISTAKES:
        yield from ((name, text, context) for context in (Context(), SHARED))
    for _, text in (*SCRIPT_MISTAKES, *REACHING_MISTAKES.values()):
        yield "a.sh", text, Context()
    yield from ((name, text, context) for _, name, text, context in CONTEXT_MISTAKES)


def _place(place: Place) -> str:
    end = "" if place.end_column is None else f"-{place.end_line or place.line}:{place.end_column}"
    return f"{place.line}:{place.column}{end}"


def _lines_of(document: Document, finding: LintFinding) -> Iterator[str]:
    label = f"{document.name} {zlib.crc32(document.text.encode('utf-8', 'surrogatepass')):08x}"
    lines = document.text.split("\n")
    line = lines[finding.place.line - 1] if 0 < finding.place.line <= len(lines) else ""
    yield f"# {label}: {line.strip()}"
    yield f"{finding.severity} {_place(finding.place)}: {finding.message}"
    if finding.fix:
        yield f"  fix: {finding.fix}"
    kinds: tuple[tuple[str, tuple[Edit, ...]], ...] = (
        ("edit", finding.edits),
        ("unsafe edit", finding.unsafe_edits),
    )
    for kind, edits in kinds:
        yield from (f"  {kind} {_place(edit.place)}: {edit.text!r}" for edit in edits)


@functools.lru_cache(maxsize=1)
def _findings() -> dict[str, str]:
    """Return the text of all findings by rule; a rule that crashes has no findings."""
    texts: dict[str, dict[str, None]] = {}
    for name, text, context in _texts():
        document = read_document(name, text)
        for finding in () if document is None else lint((document,), context, []):
            block = "".join(f"{line}\n" for line in _lines_of(document, finding))
            texts.setdefault(finding.rule_id, {})[block] = None
    return {rule_id: "".join(sorted(blocks)[:MOST_FINDINGS]) for rule_id, blocks in texts.items()}


@pytest.mark.parametrize("rule_id", sorted(load_rules()))
def test_no_part_of_a_finding_changes_unnoticed(rule_id: str) -> None:
    text, file = _findings().get(rule_id, ""), FOLDER / f"{rule_id}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN") and text:
        file.write_text(text, "utf-8")
    assert (file.read_text("utf-8") if file.exists() else "") == text


def test_every_file_belongs_to_a_rule() -> None:
    assert {file.stem for file in FOLDER.iterdir()} <= load_rules().keys()
