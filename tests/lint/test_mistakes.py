"""Known mistakes in the files of a job, and the same files corrected.

A folder of `cases` holds the file `rule` with the id of a rule, the folders `mistake` and `corrected`, and,
if the rule needs the machine or versions, a `context.json` with the fields of `Context`. A new rule needs
such a folder or a text in `support/lint_texts.py`.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding, without_waived
from tests.support.linting import judge, read

_CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if (path / "rule").exists())


def _documents(folder: Path) -> tuple[Document, ...]:
    return tuple(read(path.name, path.read_text("utf-8")) for path in sorted(folder.iterdir()))


def _findings(case: Path, files: str, only: list[str] | None = None) -> tuple[LintFinding, ...]:
    stored = case / "context.json"
    context = msgspec.json.decode(stored.read_bytes(), type=Context) if stored.exists() else Context()
    documents = _documents(case / files)
    return without_waived(judge(*documents, context=context, only=only), documents)[0]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_mistake_is_found_and_its_correction_is_clean(case: Path):
    rule_id = (case / "rule").read_text("utf-8").strip()
    assert rule_id in {finding.rule_id for finding in _findings(case, "mistake", [rule_id])}
    assert _findings(case, "corrected") == ()


def test_forty_mistakes_and_eight_near_misses_have_a_case():
    numbers = {int(case.name[:2]) for case in _CASES if case.name[:2].isdigit()}
    assert numbers >= set(range(1, 49))


_CLEAN = sorted((Path(__file__).parent / "clean").iterdir())


@pytest.mark.parametrize("path", _CLEAN, ids=lambda path: path.name)
def test_sound_files_of_many_styles_are_clean(path: Path):
    documents = _documents(path) if path.is_dir() else (read(path.name, path.read_text("utf-8")),)
    assert judge(*documents) == ()


_EXPORTS = sorted(
    path
    for path in (Path(__file__).parents[1] / "golden" / "launch").rglob("*")
    if path.suffix in (".sh", ".sbatch")
)


@pytest.mark.parametrize("path", _EXPORTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_script_that_rigtune_exports_is_clean(path: Path):
    assert judge(read(path.name, path.read_text("utf-8"))) == ()
