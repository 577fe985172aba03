"""Test the site's slots in launch files: their values come from options, the recipe and the site files."""

from __future__ import annotations

import pytest

from assistant.cli import command_line
from assistant.usecases.site_slots import filled
from probes.base.errors import InputError, UsageError
from recipes.launch.recipe import Command
from recipes.launch.recipe_file import dump_recipe


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Return a function that writes the site files."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("RIGTUNE_SITE", raising=False)

    def write(own: str = "", team: str = "") -> None:
        folder = tmp_path / "config" / "rigtune"
        folder.mkdir(parents=True)
        (folder / "site.toml").write_text(own)
        (tmp_path / "team.toml").write_text(team)
        monkeypatch.setenv("RIGTUNE_SITE", str(tmp_path / "team.toml"))

    return write


def test_the_option_wins_over_the_recipe_and_the_recipe_over_the_site_files(make_recipe, site):
    site(own='[slots]\naccount = "own"\nqos = "own"', team='[slots]\naccount = "team"\nmodules = "cuda/12.8"')
    recipe = make_recipe(slots={"qos": "recipe", "reservation": "recipe"})
    slots = filled(recipe, ("reservation=option",), ("slurm",)).slots
    assert slots == {
        "account": "own",
        "qos": "recipe",
        "modules": "cuda/12.8",
        "reservation": "option",
    }


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("accuont=lab", "there is no slot 'accuont'"),
        ("account", "has no value"),
        ("account=", "cannot be the slot account"),
        ("account=two words", "cannot be the slot account"),
        ("account=lab\n#SBATCH --uid=0", "cannot be the slot account"),
        ("time=tomorrow", "write a value such as '24:00:00'"),
        ("data=a\nb", "cannot be the slot data"),
        ("partition=-x", "cannot be the slot partition"),
    ],
)
def test_a_wrong_slot_is_refused_by_name(make_recipe, given, words):
    with pytest.raises(UsageError) as refused:
        filled(make_recipe(), (given,), ("slurm",))
    assert words in f"{refused.value.message} {refused.value.hint}"


@pytest.mark.parametrize(
    "text", ["account = 'lab'", "[slots]\naccount = 3", "[slots]\nacount = 'lab'", "[slots"]
)
def test_a_wrong_site_file_is_refused_by_its_path(make_recipe, site, text):
    site(own=text)
    with pytest.raises(InputError, match=r"site\.toml"):
        filled(make_recipe(), (), ())


def test_export_writes_the_slots_into_the_script_and_leaves_the_others_as_comments(
    make_recipe, tmp_path, site
):
    site(own='[slots]\nqos = "high"')
    file = tmp_path / "recipe.toml"
    file.write_text(dump_recipe(make_recipe(nodes=2)))
    wanted = [
        "export",
        str(file),
        "--to",
        "slurm",
        "--slot",
        "account=lab",
        "--out",
        str(tmp_path / "out"),
        "-q",
    ]
    assert command_line(wanted) == 0
    lines = (tmp_path / "out" / "train.sbatch").read_text().splitlines()
    assert {"#SBATCH --account=lab", "#SBATCH --qos=high", "##SBATCH --reservation=launch-week"} <= set(lines)


IMAGE = "container_image=registry.example.org/train:1"


@pytest.mark.parametrize(
    ("launchers", "given", "ignored"),
    [
        (("slurm",), ("account=lab", "min_nodes=2"), "min_nodes"),
        (("torchrun-elastic",), ("min_nodes=2",), ""),
        (("docker",), (IMAGE, "account=lab"), "account"),
        (("docker",), (IMAGE, "run_as=1000:1000"), ""),  # its default, too
        (("docker", "slurm"), (IMAGE, "account=lab"), ""),
        (
            ("slurm",),
            ("container_mounts=/data:/data",),
            "container_mounts",
        ),
        (("slurm",), (IMAGE, "container_mounts=/data:/data"), ""),
        (("torchrun",), ("logs=logs", "output=/runs"), ""),  # plan.json states the folder of results
        (("kubernetes-job",), (IMAGE, "queue=mine", "partition=gpu"), "partition"),
    ],
)
def test_a_slot_of_the_command_line_that_changes_nothing_is_refused(
    make_recipe, site, launchers, given, ignored
):
    site(own="[slots]\nqos = 'high'\nnamespace = 'training'\nreservation = 'mine'")  # for all launchers
    recipe = make_recipe(nodes=2, command=Command(kind="script", target="train.py"))
    if not ignored:
        assert len(filled(recipe, given, launchers).slots) == 3 + len(given)
        return
    with pytest.raises(UsageError) as refused:
        filled(recipe, given, launchers)
    assert refused.value.message.startswith(f"--slot {ignored}: {launchers[0]} with the program own would")
    in_use = refused.value.hint.partition("slots in use here: ")[2].split(", ")
    names = {pair.partition("=")[0] for pair in given}
    assert names - {ignored} <= set(in_use)
    assert "logs" in in_use or "docker" in launchers or "kubernetes-job" in launchers
    assert ignored not in in_use


def test_export_run_and_verify_refuse_a_slot_that_they_would_ignore(make_recipe, tmp_path, capsys):
    file = tmp_path / "recipe.toml"
    file.write_text(dump_recipe(make_recipe()))
    for command in ("export", "run", "verify"):
        assert command_line([command, str(file), "--slot", "account=lab"]) == 2
        assert "torchrun with the program own would ignore it" in capsys.readouterr().err
    assert not (tmp_path / "launch").exists()
