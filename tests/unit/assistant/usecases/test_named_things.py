"""Test how files of programs, models and hooks are found by the names that a user gives."""

from __future__ import annotations

import pytest

from assistant.engines.engine_table import Wanted, find_engine
from assistant.usecases import hooks
from assistant.usecases.model_file import model_named
from assistant.usecases.own_program import program_text
from probes.base.errors import InputError, UsageError
from recipes.launch.recipe import Command


@pytest.mark.parametrize(
    ("kind", "target", "text"),
    [
        ("script", "train.py", "script"),
        ("script", "pkg/run.py", "module"),
        ("module", "pkg.run", "module"),
        ("module", "train.py", ""),
        ("script", "missing.py", ""),
        ("script", "", ""),
        ("module", "", ""),
        ("script", "pkg", ""),
    ],
)
def test_the_source_of_a_program_is_read_where_it_runs(tmp_path, kind, target, text):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "train.py").write_text("script")
    (tmp_path / "pkg" / "run.py").write_text("module")
    command = Command(kind=kind, target=target, working_directory=str(tmp_path))
    assert program_text(command) == text


def test_a_model_is_named_or_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert model_named("gpt2").id == "gpt2"
    assert model_named("timm/resnet50.a1_in1k").id == "resnet50"
    for missing in ("./missing/model", "/missing/model", "~missing/model"):
        with pytest.raises(InputError):
            model_named(missing)
    (tmp_path / "gpt2").mkdir()
    assert model_named("gpt2").id == "gpt2"
    for unknown in ("missing/model", "no-such-model", "resnét50", ".gpt", "~gpt"):
        with pytest.raises(UsageError):
            model_named(unknown)
    (tmp_path / "org").mkdir()
    (tmp_path / "org" / "gpt2").mkdir()
    with pytest.raises(InputError):
        model_named("org/gpt2")


@pytest.mark.parametrize(("number", "is_refused"), [(3, False), (4, True)])
def test_a_folder_with_too_many_files_is_no_folder_of_hooks(tmp_path, monkeypatch, number, is_refused):
    monkeypatch.setattr(hooks, "_MOST_FILES", 3)
    for index in range(number):
        (tmp_path / f"f{index}").write_text("")
    with pytest.raises(InputError) as raised:
        hooks.judge_hooks((tmp_path,), version="1.0", commit="abc")
    assert ("more than 3 files" in raised.value.message) is is_refused


@pytest.mark.parametrize(("nodes", "has_more"), [(("n1",), False), (("n1", "n2"), True)])
def test_mpirun_starts_the_command_on_each_host(nodes, has_more):
    wanted = Wanted(nodes, ("rigtune", "check"), 60.0)
    text = find_engine("mpi").load().plan(wanted)
    assert text.startswith("mpirun -n 1 -host n1 sh -c ")
    assert text.endswith("# the same for each other node") is has_more
