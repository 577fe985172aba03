"""Test the export: complete folders, and no file of a person is overwritten."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from assistant.usecases.events import StageFinished, StageStarted, Written
from assistant.usecases.export import export_recipe
from probes.base.errors import ExitCode, OutputError, UsageError
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import load_recipe


def export(recipe, folder, *launchers, overwrite=False):
    events = list(export_recipe(recipe, launchers or ("torchrun",), folder, overwrite=overwrite))
    assert isinstance(events[0], StageStarted)
    assert isinstance(events[-1], StageFinished)
    return events


def test_the_folder_is_complete_for_both_launchers(make_recipe, tmp_path):
    folder = tmp_path / "new" / "folder"
    events = export(make_recipe(), folder, "torchrun", "slurm")
    names = {
        *("launch.sh", "train.sbatch", "preflight.sh"),
        *("recipe.toml", "plan.json", "workload.json"),
    }
    assert {event.path.rpartition("/")[2] for event in events if isinstance(event, Written)} == names
    paths = events[-1].result
    assert len(paths) == len(set(paths))
    assert all(path.is_file() for path in paths)
    assert os.access(folder / "launch.sh", os.X_OK)
    assert (folder / "rigtune_worker" / "__init__.py").exists()
    assert load_recipe((folder / "recipe.toml").read_text(), "recipe.toml") == make_recipe()


def test_a_users_program_needs_no_reference_program(make_recipe, tmp_path):
    export(make_recipe(command=Command(kind="script", target="t.py")), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        *("launch.sh", "preflight.sh", "recipe.toml", "plan.json", ".rigtune-export.json"),
    }


@pytest.mark.parametrize(
    ("launchers", "message", "hint"),
    [
        (
            ("slrum",),
            "no launcher 'slrum'",
            "did you mean slurm? launchers: torchrun, torchrun-elastic, slurm",
        ),
        (("Torchrun",), "no launcher 'Torchrun'", "did you mean torchrun?"),
        (("",), "no launcher ''", "launchers: torchrun, torchrun-elastic, slurm"),
        (("torchrun", "x"), "no launcher 'x'", "launchers: torchrun, torchrun-elastic, slurm"),
        ((), "no launcher is named", "launchers: torchrun, torchrun-elastic, slurm"),
    ],
)
def test_an_unknown_launcher_is_reported_with_the_list_and_writes_nothing(
    make_recipe, tmp_path, launchers, message, hint
):
    with pytest.raises(UsageError, match=message) as caught:
        list(export_recipe(make_recipe(), launchers, tmp_path / "out"))
    assert hint in caught.value.hint
    assert caught.value.exit_code == ExitCode.USAGE
    assert not (tmp_path / "out").exists()


def test_a_contradictory_recipe_writes_nothing(make_recipe, tmp_path):
    with pytest.raises(UsageError, match="global_batch"):
        export(make_recipe(parallelism={"global_batch": 7}), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_later_export_replaces_what_rigtune_wrote(make_recipe, tmp_path):
    export(make_recipe(), tmp_path)
    export(make_recipe(title="another"), tmp_path)
    assert "# another\n" in (tmp_path / "launch.sh").read_text()


@pytest.mark.parametrize("earlier_export", [True, False])
def test_a_persons_file_stays_unless_overwriting_is_asked_for(make_recipe, tmp_path, earlier_export):
    if earlier_export:
        export(make_recipe(), tmp_path)
    (tmp_path / "launch.sh").write_text("mine\n")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(OutputError, match=r"launch\.sh exists and is not as rigtune wrote it") as caught:
        export(make_recipe(title="another"), tmp_path)
    assert "--overwrite" in caught.value.hint
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    export(make_recipe(title="another"), tmp_path, overwrite=True)
    assert "# another\n" in (tmp_path / "launch.sh").read_text()


def test_the_same_export_again_is_always_possible(make_recipe, tmp_path):
    export(make_recipe(), tmp_path)
    (tmp_path / ".rigtune-export.json").write_text("{ damaged")
    export(make_recipe(), tmp_path)


def test_an_edited_recipe_exported_in_place_keeps_its_comments(make_recipe, tmp_path):
    export(make_recipe(), tmp_path)
    edited = (tmp_path / "recipe.toml").read_text().replace("steps = 20", "steps = 40 # twice as long")
    (tmp_path / "recipe.toml").write_text(edited)
    export(load_recipe(edited, "recipe.toml"), tmp_path)
    assert (tmp_path / "recipe.toml").read_text() == edited
    assert msgspec.json.decode((tmp_path / "workload.json").read_bytes())["convergence"]["steps"] == 40


def test_an_export_that_was_killed_halfway_can_be_repeated_with_either_recipe(make_recipe, tmp_path):
    """The manifest with both versions is written first, so that no file of a killed export looks foreign."""
    first, second = make_recipe(title="first"), make_recipe(title="second")
    export(first, tmp_path)
    old = (tmp_path / "launch.sh").read_bytes()
    export(second, tmp_path)
    (tmp_path / "launch.sh").write_bytes(old)  # as if the kill had come before this file
    export(first, tmp_path)
    export(second, tmp_path)


def test_a_file_where_the_folder_should_be_is_reported(make_recipe, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        export(make_recipe(), tmp_path / "out")


def test_a_folder_where_a_file_should_be_is_reported(make_recipe, tmp_path):
    (tmp_path / "launch.sh").mkdir()
    with pytest.raises(OutputError, match=r"launch\.sh"):
        export(make_recipe(), tmp_path)


def test_no_permission_is_reported(make_recipe, tmp_path):
    (tmp_path / "out").mkdir(mode=0o555)
    if os.access(tmp_path / "out", os.W_OK):
        pytest.skip("this user may write everywhere")
    with pytest.raises(OutputError, match="permission"):
        export(make_recipe(), tmp_path / "out")


def test_exporting_imports_no_worker(make_recipe, tmp_path):
    """The reference program is read as text, because importing it would import torch."""
    code = (
        "import sys, recipes.launch.launchers.torchrun, recipes.launch.launchers.slurm;"
        "sys.exit('torch' in sys.modules)"
    )
    subprocess.run((sys.executable, "-c", code), check=True)
