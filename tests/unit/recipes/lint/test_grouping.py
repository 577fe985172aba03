"""Test that files of one call are judged together only if they belong together."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.usecases.lint import judge_documents
from recipes.lint.context import Context
from recipes.lint.grouping import groups
from tests.support.linting import read

_CONFIG = ("ds.json", '{"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1}\n')
_LAUNCH = "deepspeed --num_gpus 8 t.py --deepspeed_config {name}\n"


def _groups(*files: tuple[str, str]) -> list[list[str]]:
    documents = tuple(read(name, text) for name, text in files)
    return [[document.name for document in group] for group in groups(documents, "/home/a")]


@pytest.mark.parametrize(
    ("script", "name", "config"),
    [
        ("run.sh", "ds.json", "ds.json"),
        ("jobs/run.sh", "ds.json", "jobs/ds.json"),
        ("jobs/run.sh", "ds.json", "ds.json"),
        ("jobs/run.sh", "../configs/ds.json", "configs/ds.json"),
        ("jobs/run.sh", "$ROOT/configs/ds.json", "configs/ds.json"),
        ("jobs/run.sh", "/workspace/configs/ds.json", "configs/ds.json"),
        ("/data/jobs/run.sh", "ds.json", "ds.json"),
    ],
)
def test_file_and_the_file_that_it_names_are_one_group(script: str, name: str, config: str):
    assert _groups((script, _LAUNCH.format(name=name)), (config, _CONFIG[1])) == [[script, config]]


@pytest.mark.parametrize(
    ("script", "name", "config"),
    [
        ("a/run.sh", "ds.json", "b/ds.json"),
        ("a/run.sh", "other/ds.json", "a/ds.json"),
        ("a/run.sh", "ds.json.old", "a/ds.json"),
        ("a/run.sh", "my-ds.json", "a/ds.json"),
        ("a/run.sh", "x.py  # ds.json is older\n# see ds.json", "b/ds.json"),
    ],
)
def test_files_of_other_projects_are_apart(script: str, name: str, config: str):
    assert _groups((script, _LAUNCH.format(name=name)), (config, _CONFIG[1])) == [[script], [config]]


def test_two_scripts_of_one_configuration_are_two_groups():
    first, second = ("a.sh", _LAUNCH.format(name="ds.json")), ("b.sh", _LAUNCH.format(name="ds.json"))
    assert _groups(first, _CONFIG, second) == [["a.sh", "ds.json"], ["ds.json", "b.sh"]]


def test_files_that_name_each_other_are_one_group():
    assert _groups(("a.sh", "bash b.sh\n"), ("b.sh", "sbatch a.sh\n")) == [["a.sh", "b.sh"]]


@pytest.mark.parametrize(
    ("conf", "is_near"),
    [
        ("jobs/nccl.conf", True),
        ("jobs/.nccl.conf", True),
        ("nccl.conf", False),
        ("other/nccl.conf", False),
    ],
)
def test_the_configuration_of_nccl_is_grouped_with_a_script_beside_it(conf: str, is_near: bool):
    files = [["jobs/run.sh", conf]] if is_near else [["jobs/run.sh"], [conf]]
    assert _groups(("jobs/run.sh", "torchrun t.py\n"), (conf, "NCCL_DEBUG=INFO\n")) == files


def test_unrelated_files_have_the_findings_of_single_calls():
    folder = Path(__file__).parents[3] / "lint" / "cases"
    files = sorted(
        path for path in folder.rglob("*") if path.is_file() and path.suffix in (".sh", ".sbatch", ".yaml")
    )
    documents = tuple(
        read(f"{number}/{path.name}", path.read_text("utf-8")) for number, path in enumerate(files)
    )
    together = judge_documents(documents, Context()).findings
    assert together
    assert together == tuple(
        finding for document in documents for finding in judge_documents((document,), Context()).findings
    )
