"""Each mistake of the field, in a script that shows it, and the same script corrected.

A folder of `cases` holds the id of the rule, and the files of a job: `mistake` and `corrected`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.facts import Gpu, Interface, MachineFacts, Nic
from recipes.lint.context import Context
from recipes.lint.document import Document
from recipes.lint.finding import LintFinding
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint, load_rules
from recipes.lint.waiving import without_waived

_CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if (path / "rule").exists())
_MACHINES = {
    "05-names-differ": MachineFacts(
        interfaces=(
            Interface(name="lo"),
            Interface(name="enp5s0f0", addresses=("10.1.0.4/24",), is_default_route=True),
        )
    ),
    "06-other-route": MachineFacts(
        interfaces=(
            Interface(name="eno1", addresses=("192.168.7.10/24",), is_default_route=True),
            Interface(name="enp5s0f0", addresses=("10.1.0.4/24",)),
        )
    ),
    "25-old-driver": MachineFacts(
        gpus=tuple(
            Gpu(index=index, name="NVIDIA GeForce RTX 4090", driver_version="535.104.05")
            for index in range(2)
        )
    ),
    "27-mixed-hcas": MachineFacts(
        nics=(
            Nic(name="mlx5_0", link_layer="InfiniBand", state="ACTIVE"),
            Nic(name="mlx5_1", link_layer="InfiniBand", state="ACTIVE"),
            Nic(name="mlx5_2", link_layer="Ethernet", state="ACTIVE"),
        )
    ),
}


def _documents(folder: Path) -> tuple[Document, ...]:
    read = [read_document(path.name, path.read_text("utf-8")) for path in sorted(folder.iterdir())]
    assert None not in read
    return tuple(document for document in read if document is not None)


def _findings(folder: Path, case: str) -> tuple[LintFinding, ...]:
    documents = _documents(folder)
    return without_waived(lint(documents, Context(machine=_MACHINES.get(case))), documents)[0]


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_mistake_is_found_and_its_correction_is_clean(case: Path):
    rule = (case / "rule").read_text("utf-8").strip()
    found = _findings(case / "mistake", case.name)
    assert rule in {finding.rule_id for finding in found}
    assert _findings(case / "corrected", case.name) == ()


def test_all_forty_mistakes_and_eight_near_misses_have_a_case():
    numbers = {int(case.name[:2]) for case in _CASES}
    assert numbers == set(range(1, 49))


def test_every_case_names_a_rule():
    assert {(case / "rule").read_text("utf-8").strip() for case in _CASES} <= set(load_rules())


_CLEAN = sorted((Path(__file__).parent / "clean").iterdir())


@pytest.mark.parametrize("path", _CLEAN, ids=lambda path: path.name)
def test_sound_files_of_many_styles_are_clean(path: Path):
    documents = _documents(path) if path.is_dir() else (read_document(path.name, path.read_text("utf-8")),)
    assert None not in documents
    assert lint(documents, Context()) == ()  # type: ignore[arg-type]


_EXPORTS = sorted(
    path
    for path in (Path(__file__).parents[1] / "golden" / "launch").rglob("*")
    if path.suffix in (".sh", ".sbatch")
)


@pytest.mark.parametrize("path", _EXPORTS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_rigtune_exports_is_clean(path: Path):
    document = read_document(path.name, path.read_text("utf-8"))
    assert document is not None
    assert lint((document,), Context()) == ()
