"""Remarks and variables of programs that depend on the job, and commands that belong to no program."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from probes.base.errors import UsageError
from recipes.launch.hf_arguments import hf_environment
from recipes.launch.launch_files import program_files
from recipes.launch.program_files import HELPER, ProgramFiles, torch_agent
from recipes.launch.recipe import Artifact, Command, Job, Resources
from tests.support.program_recipes import program_recipe

RANDOM = "training starts from random weights"


@pytest.mark.parametrize("program", ["megatron", "torchtitan"])
@pytest.mark.parametrize(
    ("fine_tuning", "slots", "is_warned"),
    [(True, {}, True), (True, {"model": "/m"}, False), (False, {}, False), (False, {"model": "/m"}, False)],
)
def test_fine_tuning_needs_the_weights_of_a_model(program: str, fine_tuning: bool, slots, is_warned: bool):
    layout = {"strategy": "ddp", "dp": 8} if program == "megatron" else {"fsdp": 8}
    recipe = program_recipe(program, layout=layout, job=Job(fine_tuning=fine_tuning), slots=slots)
    assert any(RANDOM in note for note in program_files(recipe).notes) is is_warned


@pytest.mark.parametrize(
    ("tuning", "precision", "is_told"),
    [("full", "bf16", True), ("full", "fp32", False), ("lora", "bf16", False)],
)
def test_ms_swift_updates_weights_in_the_format_in_which_it_loads_them(tuning, precision, is_told):
    recipe = program_recipe(
        "ms-swift",
        layout={"fsdp": 8, "precision": precision},
        job=Job(tuning=tuning, fine_tuning=True),
        slots={"model": "/m", "data": "/d"},
    )
    assert any("loads the weights in" in note for note in program_files(recipe).notes) is is_told


@pytest.mark.parametrize(
    ("device", "layout", "names"),
    [
        ("cuda", {"fsdp": 8}, set()),
        ("cpu", {"strategy": "ddp", "dp": 8}, set()),
        ("cpu", {"strategy": "zero2", "dp": 8}, {"DS_ACCELERATOR"}),
    ],
)
def test_deepspeed_in_the_trainer_is_told_of_a_cpu(device: str, layout: dict[str, object], names: set[str]):
    recipe = program_recipe("hf-trainer", layout=layout, resources=Resources(device=device, backend="gloo"))
    rows = hf_environment(recipe)
    assert {row.name for row in rows} == names
    assert all(row.source.startswith("DeepSpeed") and "looks for a GPU" in row.why for row in rows)


def test_copies_of_shards_are_variables_of_accelerate_with_their_source():
    rows = hf_environment(program_recipe("hf-trainer", layout={"strategy": "hsdp", "dp": 2, "fsdp": 8}))
    assert "ACCELERATE_USE_PARALLELISM_CONFIG" in {row.name for row in rows}
    assert all(row.source.startswith("accelerate") and "TrainingArguments" in row.why for row in rows)


@pytest.mark.parametrize(
    ("program", "target", "arguments"),
    [
        ("axolotl", "axolotl", ("preprocess", "a.yaml")),
        ("axolotl", "other", ("train", "a.yaml")),
        ("axolotl", "x" * 100, ("train", "a.yaml")),
        ("ms-swift", "swift", ("infer",)),
        ("ms-swift", "other", ("sft",)),
    ],
)
def test_another_command_than_that_of_the_program_is_refused(program: str, target: str, arguments):
    recipe = program_recipe(program, layout={"fsdp": 8}, slots={"model": "/m", "data": "/d"})
    recipe = replace(recipe, command=Command(kind="script", target=target, arguments=arguments))
    with pytest.raises(UsageError, match="rigtune starts `") as raised:
        program_files(recipe)
    assert len(raised.value.message) < 160


@pytest.mark.parametrize(
    ("in_folder", "path", "imports"),
    [(True, "a", True), (False, "a", False), (False, HELPER, True), (True, HELPER, True)],
)
def test_a_program_imports_its_source_or_the_helper(make_recipe, in_folder: bool, path: str, imports: bool):
    files = ProgramFiles(
        words=(),
        agent=torch_agent(make_recipe()),
        runs_in_folder=in_folder,
        files=(Artifact(path=path, text=""),),
    )
    assert files.imports_from_folder is imports
