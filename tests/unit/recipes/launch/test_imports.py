"""Test that the files of an existing launch become one recipe, and what it keeps and leaves out."""

from __future__ import annotations

import re

import msgspec
import pytest

from recipes.launch.edited import refreshed
from recipes.launch.imports.adopted import Imported
from recipes.launch.recipe_file import dump_recipe, load_recipe
from tests.support.imported_launch import TORCHRUN, imported, kept

ARGUMENTS = "--per_device_train_batch_size 2 --learning_rate 1e-4 --max_steps 50"

SBATCH = """\
#!/bin/bash
#SBATCH --job-name=llama-sft
#SBATCH --nodes=4
#SBATCH --gpus-per-node=8
#SBATCH --time=24:00:00
#SBATCH --mail-type=END
#SBATCH --qos=long
module load cuda/12.4 openmpi
conda activate train; cd /home/me/project
ulimit -n 65536
export NCCL_IB_HCA=mlx5_0,mlx5_1 OUT=/data
export PATH=/opt/mpi/bin:$PATH
export HF_TOKEN=hf_abcdefghijklmnopqrstuvwx0123456789
srun accelerate launch --config_file conf/accelerate.yaml --machine_rank $SLURM_NODEID --debug \\
  --num_processes 32 train.py --model_name_or_path meta-llama/Meta-Llama-3-8B \\
  --per_device_train_batch_size 2 --gradient_accumulation_steps 4 --learning_rate 2e-5 \\
  --max_steps 1000 --warmup_ratio 0.03 --bf16 True --output_dir $OUT/run --seed $RANDOM 2>&1 | tee log.txt
"""
ACCELERATE = """\
distributed_type: FSDP
num_machines: 4
num_processes: 8
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
"""


def whole() -> Imported:
    return imported(("train.sbatch", SBATCH), ("accelerate.yaml", ACCELERATE), sequence_length=4096)


def test_files_given_together_are_one_launch():
    recipe = whole().recipe
    assert recipe is not None
    assert (recipe.name, recipe.model.id, recipe.program) == ("llama-sft", "llama-3-8b", "accelerate")
    layout = recipe.parallelism
    assert (layout.strategy, layout.nodes, layout.ranks_per_node, layout.fsdp) == ("fsdp", 4, 8, 32)
    assert (layout.micro_batch, layout.grad_accum, layout.global_batch) == (2, 4, 256)
    assert recipe.resources.time_limit == "24:00:00"
    assert recipe.convergence.learning_rate == 2e-5
    assert recipe.convergence.warmup_steps == 30
    assert recipe.model.sequence_length == 4096
    assert recipe.command.target == "train.py"
    assert recipe.command.working_directory == "/home/me/project"
    assert recipe.slots == {"modules": "cuda/12.4 openmpi", "conda": "train", "qos": "long"}
    assert {each.basis for each in recipe.decisions} == {"user"}
    variables = {each.name: (each.value, each.source) for each in recipe.environment}
    assert variables == {
        "NCCL_IB_HCA": ("mlx5_0,mlx5_1", "train.sbatch:11"),
        "OUT": ("/data", "train.sbatch:11"),
    }


@pytest.mark.parametrize(
    ("directives", "cores"),
    [
        ("#SBATCH -N 2\n#SBATCH --ntasks-per-node=1\n#SBATCH -c 96", 96),
        ("#SBATCH -N 2\n#SBATCH --ntasks=16\n#SBATCH --cpus-per-task=12", 96),
        ("#SBATCH -N 2\n#SBATCH --cpus-per-task=90", 90),
        ("#SBATCH -N 2", None),
    ],
)
def test_the_cores_of_a_node_stay(directives, cores):
    answer = imported(
        ("t.sbatch", f"#!/bin/bash\n{directives}\nsrun {TORCHRUN} train.py {ARGUMENTS}\n"),
        model="llama-3-8b",
        sequence_length=2048,
        sharding="zero3",
        grad_accum=1,
    )
    assert answer.recipe is not None
    assert answer.recipe.resources.cpus_per_node == cores
    assert "cpus" not in kept(answer)


def test_a_later_change_of_the_recipe_reaches_the_program():
    recipe = whole().recipe
    assert recipe is not None
    arguments = dict(zip(recipe.command.arguments[::2], recipe.command.arguments[1::2], strict=True))
    assert arguments["--per_device_train_batch_size"] == "{micro_batch}"
    assert arguments["--learning_rate"] == "{learning_rate}"
    assert arguments["--max_steps"] == "{steps}"
    assert arguments["--output_dir"] == "/data/run"


def test_lines_that_are_not_understood_are_kept_word_for_word_with_the_reason():
    reasons = {(each.file, each.line, each.text): each.why for each in whole().kept}
    assert reasons["train.sbatch", 6, "#SBATCH --mail-type=END"] == "not understood"
    assert reasons["train.sbatch", 10, "ulimit -n 65536"] == "another command of the script"
    assert reasons["train.sbatch", 12, "export PATH=/opt/mpi/bin:$PATH"] == "another command of the script"
    assert reasons["train.sbatch", 14, "--debug"] == "not understood"
    assert "launcher that rigtune writes" in reasons["train.sbatch", 14, "--machine_rank $SLURM_NODEID"]
    assert "only when the job runs" in reasons["train.sbatch", 17, "$RANDOM"]
    assert ("train.sbatch", 17, "2>&1 | tee log.txt") in reasons
    assert "replaced by train.sbatch:15" in reasons["accelerate.yaml", 3, "num_processes: 8"]
    assert reasons["accelerate.yaml", 5, "fsdp_config.fsdp_version: 2"] == "not understood"


def test_a_recipe_warns_of_what_its_launch_files_lack():
    recipe = whole().recipe
    assert recipe is not None
    first, last = recipe.notes
    assert "the program gets the text $RANDOM, not its value in the run (train.sbatch:17)" in first
    lacking = [
        each for each in recipe.kept if each.text.startswith(("#SBATCH --mail", "ulimit", "export PATH"))
    ]
    assert len(lacking) == 3
    assert re.search(r"lack \d+ parts of the imported files", last)
    steps = {"steps": 1, "learning_rate": 1, "grad_accum": 1}
    sizes = {"model": "llama-3-8b", "sequence_length": 8, "sharding": "none", "micro_batch": 1}
    plain = imported(("a.sh", "torchrun --nproc-per-node 2 t.py"), **steps, **sizes)
    assert plain.recipe is not None
    assert plain.recipe.notes == ()


def test_secrets_are_named_and_never_copied():
    answer = whole()
    assert "HF_TOKEN=<hidden>" in kept(answer)
    assert "hf_abc" not in msgspec.json.encode(answer).decode()


HEX_KEY = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    ("script", "argument"),
    [
        ("WANDB_KEY={0}\n{1} --api_key $WANDB_KEY", "{$WANDB_KEY}"),
        ("WANDB_KEY={0}\n{1} --note $WANDB_KEY", "{$WANDB_KEY}"),
        ("A={0}\n{1} --api_key $A", "{$A}"),
        ("A={0}\n{1} --api_key=${{A}} --note $A", "{$A}"),
        ("API_KEY={0}\nB=x-$API_KEY\n{1} --note $B", "{$B}"),
        ("API_KEY=${{API_KEY:-{0}}}\nexport NOTE=$API_KEY\n{1} --note $API_KEY", "{$API_KEY}"),
        ('API_KEY={0}\nexport NOTE=$API_KEY\n{1} --note "$NOTE"', "{$NOTE}"),
        ("{1} --api_key {0}", "{$API_KEY}"),
        ("{1} --api-key={0} --note x", "x"),
        ("API_KEY={0}\n{1} logger.key=$API_KEY", "logger.key={$API_KEY}"),
    ],
)
def test_a_secret_in_a_variable_is_not_filled_into_the_arguments(script, argument):
    sizes = {"model": "llama-3-8b", "sequence_length": 8, "sharding": "none", "micro_batch": 1}
    launch = "torchrun --nproc-per-node 2 t.py"
    settings = {**sizes, "steps": 1, "learning_rate": 1, "grad_accum": 1}
    answer = imported(("a.sh", script.format(HEX_KEY, launch)), **settings)
    assert answer.recipe is not None
    assert answer.recipe.command.arguments[-1] == argument
    assert HEX_KEY not in msgspec.json.encode(answer).decode()
    assert any("secret is not copied" in each.why for each in answer.kept)
    assert not any("gets the text" in note for note in answer.recipe.notes)
    assert HEX_KEY not in dump_recipe(answer.recipe)


def test_an_imported_recipe_survives_its_file():
    recipe = whole().recipe
    assert recipe is not None
    assert load_recipe(dump_recipe(recipe), "recipe.toml") == recipe
    assert refreshed(recipe) == recipe
