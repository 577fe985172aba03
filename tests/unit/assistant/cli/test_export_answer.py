"""Test the answer of `rigtune export`: remarks, and the command that starts the files of each launcher."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import jsonschema
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from assistant.usecases.export import batch_system_of
from probes.facts import MachineFacts, Scheduler, State
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import Chosen, Command
from recipes.launch.recipe_file import dump_recipe
from recipes.launch.slots import load_slots

SCRIPT = Command(kind="script", target="train.py")
SLOTS = {
    name: load_slots()[name].example
    for name in ("accelerator", *(each for row in LAUNCHERS for each in row.needs))
}
GPU = {"device": "cuda", "backend": "nccl"}
PROGRAMS = {"horovod": "horovod", "ray": "ray-train"}
TWO_NODES = {"nodes": 2, "resources": {"hosts": ("a", "b")}}


@pytest.fixture
def export(tmp_path, monkeypatch, capsys):
    """Write a recipe, export it in an empty folder, and return both streams."""
    monkeypatch.chdir(tmp_path)

    def export(recipe, *words):
        Path("recipe.toml").write_text(dump_recipe(recipe))
        capsys.readouterr()
        code = command_line(["export", "recipe.toml", *words])
        answer = capsys.readouterr()
        assert code == 0, answer.err
        return answer

    return export


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize("row", LAUNCHERS, ids=lambda row: row.id)
def test_the_command_starts_a_file_of_the_export(make_recipe, export, row, nodes):
    if row.has_one_node and nodes > 1:
        return
    fields = TWO_NODES if nodes > 1 else {"resources": {}}
    recipe = make_recipe(
        **{**fields, "resources": {**GPU, **fields["resources"]}},
        command=SCRIPT,
        program=PROGRAMS.get(row.software, "own"),
        slots=SLOTS,
    )
    answer = json.loads(export(recipe, "--to", row.id, "--format", "json").out)
    jsonschema.validate(answer, json.loads(schema_for("export")))
    (start,) = answer["starts"]
    assert start["launcher"] == row.id
    named = [word for word in shlex.split(start["command"]) if word in answer["files"]]
    if not named:  # a launcher that starts one node only has an instruction for the others
        assert nodes > 1
        assert any(f" {file} " in f"{start['command']} " for file in answer["files"])
    assert set(named) <= set(answer["files"])


@pytest.mark.parametrize(
    ("launcher", "fields", "line"),
    [
        ("slurm", {}, "sbatch launch/train.sbatch"),
        ("torchrun", {}, "launch/launch.sh"),
        ("torchrun", TWO_NODES, "launch/launch-all.sh"),
        (
            "torchrun",
            {"nodes": 2},
            "on every node: MASTER_ADDR=ADDRESS_OF_THE_FIRST launch/launch.sh NODE_RANK;",
        ),
        ("mpi", TWO_NODES, "launch/launch-mpi.sh"),
        ("mpi", {"nodes": 2}, "MASTER_ADDR=ADDRESS launch/launch-mpi.sh"),
        ("mpi", {"nodes": 2, "program": "horovod"}, "launch/launch-mpi.sh"),
    ],
)
def test_the_next_line_is_the_whole_command(make_recipe, export, launcher, fields, line):
    said = export(make_recipe(**{"command": SCRIPT, **fields}), "--to", launcher).err
    assert f"\nnext: {line}" in said


def test_several_launchers_are_named(make_recipe, export):
    said = export(make_recipe(command=SCRIPT), "--to", "slurm", "--to", "torchrun").err
    assert said.endswith("next (slurm): sbatch launch/train.sbatch\nnext (torchrun): launch/launch.sh\n")


def test_a_folder_that_looks_like_an_option_is_a_path(make_recipe, export):
    said = export(make_recipe(command=SCRIPT), "--to", "slurm", "--out=-x").err
    assert said.endswith("next: sbatch ./-x/train.sbatch\n")


def test_remarks_of_the_script_are_printed_once(make_recipe, export):
    recipe = make_recipe(command=SCRIPT, program="horovod", notes=("Warning: the disk is slow. Buy one.",))
    answer = export(recipe, "--to", "slurm", "--to", "torchrun")
    for words in ("Warning: the disk is slow. Buy one.", "no argument of your script has {micro_batch}"):
        assert answer.err.count(words) == 1
    assert not export(recipe, "--to", "slurm", "-q").err
    remarks = json.loads(export(recipe, "--format", "json").out)["remarks"]
    assert any("{micro_batch}" in each for each in remarks)


LAUNCH = (
    "torchrun --nnodes 1 --nproc-per-node 8 train.py --model_name_or_path gpt2 --lr 3e-4 --seq_len 1024 "
    "--micro_batch_size 1 --global_batch_size 64 --max_steps 100\n"
)


@pytest.mark.parametrize(
    ("text", "option"),
    [("#!/bin/bash\n#SBATCH --time=1:00:00\n", " --to slurm"), ("#!/bin/bash\nmodule load cuda\n", "")],
)
def test_an_import_names_the_launcher_of_its_batch_system(tmp_path, monkeypatch, capsys, text, option):
    monkeypatch.chdir(tmp_path)
    Path("job.sh").write_text(f"{text}{LAUNCH}")
    assert command_line(["import", "job.sh", "--strategy", "ddp", "-o", "job.toml"]) == 0
    assert capsys.readouterr().err.endswith(f"wrote job.toml; next: rigtune export job.toml{option}\n")


@pytest.mark.parametrize(
    ("scheduler", "kind"),
    [
        (Scheduler(), ""),
        (Scheduler(kind="pbs", settings=()), "pbs"),
        (Scheduler(kind=None, settings=(State(name="SelectType", value="select/cons_tres"),)), "slurm"),
        (Scheduler(kind=None, version=None, settings=()), ""),
    ],
)
def test_the_batch_system_of_a_machine(scheduler, kind):
    assert batch_system_of(MachineFacts(scheduler=scheduler)) == kind


def test_decisions_that_nobody_changed_are_not_repeated(make_recipe, export):
    decision = Chosen(name="tp", value="1", basis="user", because="--tp 1 in train.sh:3")
    assert "(yours)" not in export(make_recipe(command=SCRIPT, decisions=(decision,))).err
