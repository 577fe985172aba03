from __future__ import annotations

import msgspec

from assistant.pages.blocks import plain
from assistant.pages.training import recipe_page as page
from recipes.launch.recipe import Artifact
from tests.support.tui_plans import SCRIPT, prepared
from tests.support.tui_text import words


def test_the_preview_is_the_exact_text():
    text = words(page.scripts(prepared().launchers[0]), width=200)
    assert [line.rstrip() for line in text.splitlines()][: len(SCRIPT.splitlines())] == SCRIPT.splitlines()
    assert "recipe.toml" in text


def test_nothing_is_cut_on_a_narrow_page():
    text = "".join(words(page.scripts(prepared().launchers[0]), width=40).split())
    assert "".join(SCRIPT.split()) in text


def test_the_shown_launcher_is_marked_without_colour():
    assert plain(page.tabs(prepared(), 1)).startswith(" torchrun  [slurm]")


def test_packages_that_come_along_are_counted():
    files = page.LauncherFiles(
        launcher="torchrun",
        title="torchrun",
        artifacts=(
            Artifact(path="launch.sh", text="x"),
            *(Artifact(path=f"rigtune_worker/{name}.py", text="") for name in "abc"),
        ),
    )
    assert plain(page.file_names(files)) == "launch.sh  rigtune_worker/ (3 files)"
    assert "rigtune_worker" not in words(page.scripts(files))


def test_the_result_names_every_file_and_how_to_start():
    files = prepared().launchers[1]
    assert "/srv/launch" in words(page.destination(files, "/srv/launch"))
    text = words(page.written(files, prepared().recipe, ("/srv/my launch/train.sbatch",)))
    assert "✓ /srv/my launch/train.sbatch" in text
    assert "sbatch '/srv/my launch/train.sbatch'" in text


def test_a_job_of_several_nodes_is_started_on_every_node():
    recipe = prepared().recipe
    several = msgspec.structs.replace(
        recipe, parallelism=msgspec.structs.replace(recipe.parallelism, nodes=4)
    )
    assert page.start_words("torchrun", recipe, ("/srv/launch.sh",)) == "/srv/launch.sh"
    assert page.start_words("torchrun", several, ("/srv/launch.sh",)).startswith(
        "on every node: MASTER_ADDR="
    )


def test_many_launchers_fit_into_a_line_and_the_shown_one_is_always_named():
    row = prepared()
    many = tuple(
        page.LauncherFiles(launcher=f"launcher-{number}", title=f"Title {number}") for number in range(18)
    )
    wide = msgspec.structs.replace(row, launchers=many)
    for number in range(18):
        text = plain(page.tabs(wide, number))
        assert f"[launcher-{number}]" in text
        assert f"Title {number}" in text
        assert len(text) <= 80
        assert ("more" in text) == (number < 15)


def test_a_launcher_that_cannot_start_the_recipe_says_why():
    files = page.LauncherFiles(launcher="mpi", title="mpirun", problem="no address: give --slot")
    assert "no address: give --slot" in words(page.scripts(files))
