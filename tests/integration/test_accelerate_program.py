"""Test that accelerate shards as the exported files state: ranks, wrapped layers, mesh and placement."""

from __future__ import annotations

import json

import msgspec
import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import Command
from tests.support.hf_programs import GPU_STANDIN, SCRIPTS, hf_python, reports, run_script

pytestmark = pytest.mark.slow

NAMES = """
import dataclasses, json
from accelerate.commands.config.config_args import ClusterConfig
from accelerate.commands.launch import launch_command_parser

blocks = {"fsdp_config": "", "parallelism_config": "", "deepspeed_config": ""}
blocks |= {"fp8_config": "fp8_", "dynamo_config": "dynamo_"}
options = [action.dest for action in launch_command_parser()._actions]
names = {field.name for field in dataclasses.fields(ClusterConfig)}
for block, start in blocks.items():
    names |= {f"{block}.{option.removeprefix(start)}" for option in options}
print(json.dumps(sorted(names)))
"""


@pytest.fixture
def sharded(make_recipe):
    """Return a function that makes a recipe for GPUs whose model has the layers of Llama."""

    def make(strategy, ranks=2, **parallelism):
        recipe = make_recipe(
            program="accelerate",
            ranks_per_node=ranks,
            command=Command(
                kind="script",
                target=str(SCRIPTS / "accelerate_train.py"),
                arguments=("--batch-size", "{micro_batch}", "--lr", "{learning_rate}", "--steps", "2"),
            ),
            resources={"python": hf_python(), "device": "cuda", "backend": "nccl"},
            parallelism={"strategy": strategy, "precision": "bf16", **parallelism},
        )
        return msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))

    return make


def assert_trained(ranks, world):
    assert [rank["rank"] for rank in ranks] == list(range(world))
    for rank in ranks:
        assert rank["world"] == world
        assert rank["precision"] == "bf16"
        # 64 sequences, 2 epochs, 2 sequences per batch and rank, 2 batches per update
        assert (rank["grad_accum"], rank["batches"]) == (2, 64 // world)
        assert rank["updates"] == rank["batches"] // 2
        assert rank["losses"][-1] < rank["losses"][0] - 0.5


@pytest.mark.parametrize("launcher", ["torchrun", "mpi"])
def test_fsdp_shards_and_recomputes_every_layer(sharded, export, tmp_path, launcher):
    recipe = sharded("fsdp", activation_checkpointing="full")
    script = export(launcher, recipe, tmp_path)
    ranks = reports(run_script(script, **GPU_STANDIN))
    assert_trained(ranks, 2)
    for rank in ranks:
        assert rank["wrapper"] == "FSDPLlamaForCausalLM"
        assert (rank["placements"], rank["sharded"]) == ("(Shard(dim=0),)", True)
        assert (rank["units"], rank["recomputed"]) == (4, 4)


def test_hsdp_has_copies_of_shards(sharded, export, tmp_path):
    recipe = sharded("hsdp", ranks=4, dp=2, fsdp=2)
    ranks = reports(run_script(export("torchrun", recipe, tmp_path), **GPU_STANDIN))
    assert_trained(ranks, 4)
    for rank in ranks:
        assert rank["placements"] == "(Replicate(), Shard(dim=0))"
        assert "dp_replicate" in rank["mesh"]
        assert (rank["units"], rank["recomputed"]) == (4, 0)


def test_every_rank_gets_the_variables_that_accelerate_launch_sets(sharded, export, tmp_path):
    seen = {}
    for launcher in ("torchrun", "mpi"):
        script = export(launcher, sharded("hsdp", ranks=4, dp=2, fsdp=2), tmp_path / launcher)
        output = run_script(script, **GPU_STANDIN)
        seen[launcher] = reports(output)[0]["variables"]
    assert {name: seen["torchrun"][name] for name in seen["mpi"]} == seen["mpi"]
    # variables that only the agent sets have default values of accelerate, or FSDP2 does not read them
    missing = {name: seen["torchrun"][name].lower() for name in set(seen["torchrun"]) - set(seen["mpi"])}
    defaults = {"no", "false", "default", "0", "1", "100000000", "full_shard", "torch", "deepspeed"}
    assert {name: value for name, value in missing.items() if value not in defaults} == {
        "FSDP_SYNC_MODULE_STATES": "true",
        "FSDP_USE_ORIG_PARAMS": "true",
    }


def test_ddp_runs_on_a_cpu(make_recipe, export, tmp_path):
    recipe = make_recipe(
        program="accelerate",
        command=Command(
            kind="script",
            target=str(SCRIPTS / "accelerate_train.py"),
            arguments=("--batch-size", "{micro_batch}", "--lr", "{learning_rate}", "--steps", "2"),
        ),
        resources={"python": hf_python()},
        parallelism={"precision": "bf16"},
    )
    ranks = reports(run_script(export("torchrun", recipe, tmp_path)))
    assert_trained(ranks, 2)
    assert [rank["type"] for rank in ranks] == ["DistributedType.MULTI_CPU"] * 2
    assert [rank["wrapper"] for rank in ranks] == ["DistributedDataParallel"] * 2


def test_the_installed_version_reads_every_known_name():
    output = run_script(hf_python(), "-c", NAMES)
    installed = next(json.loads(line) for line in output.splitlines() if line.startswith('["'))
    assert known_names("accelerate").names - set(installed) == set()
