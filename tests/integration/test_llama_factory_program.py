"""Test that LLaMA-Factory trains as the exported files state: ranks, shards, adapters, batch and rate."""

from __future__ import annotations

import json

import msgspec
import pytest

from recipes.launch.known_names import known_names
from recipes.launch.recipe import CheckpointSettings, Command, Convergence, Job
from tests.support.hf_programs import GPU_STANDIN, SCRIPTS, program_python, run_script

pytestmark = pytest.mark.slow

CONVERGENCE = Convergence(
    learning_rate=3e-3, warmup_steps=2, steps=8, gradient_clipping=0.5, beta2=0.98, weight_decay=0.2
)
NAMES = """
import dataclasses, json
from llamafactory.hparams.parser import _TRAIN_ARGS
print(json.dumps([field.name for kind in _TRAIN_ARGS for field in dataclasses.fields(kind)]))
"""
PARSED = """
import json, sys
from omegaconf import OmegaConf
from llamafactory.hparams import get_train_args
model, data, training, tuning, _ = get_train_args(OmegaConf.to_container(OmegaConf.load(sys.argv[1])))
deepspeed = training.deepspeed
print(json.dumps({
    "batch": training.per_device_train_batch_size,
    "grad_accum": training.gradient_accumulation_steps,
    "rate": training.learning_rate,
    "optimizer": training.optim.value,
    "bf16": training.bf16,
    "length": data.cutoff_len,
    "tuning": tuning.finetuning_type,
    "stage": tuning.stage,
    "recomputes": not model.disable_gradient_checkpointing,
    "zero": deepspeed and deepspeed["zero_optimization"]["stage"],
}))
"""
"""Program that prints the settings that LLaMA-Factory's own parser and checks read from a file."""


@pytest.fixture
def python():
    return program_python("RIGTUNE_LLAMA_FACTORY_PYTHON", "llamafactory")


@pytest.fixture
def recipe_of(make_recipe, tmp_path, python):
    """Return a function that makes a recipe for a tiny Llama and a folder of questions with answers."""
    run_script(python, SCRIPTS / "tiny_llama.py", tmp_path)
    data = tmp_path / "chats"
    data.mkdir()
    rows = [{"instruction": f"w{at} w{at + 1}", "input": "", "output": f"w{at + 2}"} for at in range(48)]
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(command=CLI, **fields):
        slots = {name: str(tmp_path / place) for name, place in PLACES.items()}
        fields = {"convergence": CONVERGENCE, "checkpoints": CheckpointSettings(every_steps=4), **fields}
        fields["resources"] = {"device": "cpu", **fields.get("resources", {}), "python": python}
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        recipe = make_recipe(program="llama-factory", command=command, slots=slots, **fields)
        return msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))

    return make


CLI = Command(kind="program")
PLACES = {"model": "model", "data": "chats", "output": "out"}
LORA = Job(tuning="lora", adapter_rank=8)


def history(folder):
    state = json.loads((folder / "out" / "trainer_state.json").read_text())
    return state, [entry for entry in state["log_history"] if "loss" in entry]


def test_adapters_train_on_two_ranks(recipe_of, export, tmp_path):
    script = export("torchrun", recipe_of(job=LORA), tmp_path / "export")
    assert "world size: 2" in run_script(script, "logging_steps=1")
    state, logs = history(tmp_path)
    assert (state["global_step"], state["train_batch_size"], len(logs)) == (8, 2, 8)
    assert logs[-1]["loss"] < logs[0]["loss"]
    adapter = json.loads((tmp_path / "out" / "adapter_config.json").read_text())
    assert adapter["r"] == 8
    assert "gate_proj" in adapter["target_modules"]


def test_a_file_of_the_user_follows_the_plan(recipe_of, export, tmp_path):
    mine = tmp_path / "mine.yaml"
    mine.write_text("stage: sft\ndo_train: true\nfinetuning_type: full\nlearning_rate: 1.0\nlogging_steps: 1")
    command = Command(kind="script", target="llamafactory-cli", arguments=("train", str(mine), "seed=3"))
    run_script(export("torchrun", recipe_of(command, job=LORA), tmp_path / "export"))
    state, logs = history(tmp_path)
    assert state["global_step"] == 8
    # the cosine ends at a tenth of the peak
    assert 3e-4 < logs[-1]["learning_rate"] < 1e-3
    assert (tmp_path / "out" / "adapter_config.json").exists()


def test_all_weights_train_in_shards(recipe_of, export, tmp_path):
    recipe = recipe_of(
        resources={"device": "cuda", "backend": "nccl"},
        parallelism={"strategy": "fsdp", "activation_checkpointing": "full"},
    )
    script = export("torchrun", recipe, tmp_path / "export")
    # a tensor that was gathered on a CPU cannot be written by safetensors
    script.write_text(script.read_text().replace("FULL_STATE_DICT", "SHARDED_STATE_DICT"))
    output = run_script(script, "logging_steps=1", "use_cpu=true", **GPU_STANDIN)
    assert "You are using fsdp2" in output
    assert "Gradient checkpointing enabled" in output
    state, logs = history(tmp_path)
    assert (state["global_step"], len(logs)) == (8, 8)
    assert logs[-1]["loss"] < logs[0]["loss"]
    shards = list((tmp_path / "out" / "checkpoint-8").glob("pytorch_model_fsdp_0/*.distcp"))
    assert len(shards) == 2


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"job": LORA}, {"tuning": "lora", "stage": "sft", "zero": None}),
        (
            {"parallelism": {"strategy": "zero2", "activation_checkpointing": "full"}},
            {"zero": 2, "stage": "pt"},
        ),
    ],
)
def test_the_parser_takes_every_decision(recipe_of, export, tmp_path, fields, expected):
    python = program_python("RIGTUNE_LLAMA_FACTORY_PYTHON", "llamafactory")
    if expected["zero"]:
        program_python("RIGTUNE_LLAMA_FACTORY_PYTHON", "deepspeed")
    export("torchrun", recipe_of(**fields), tmp_path / "export")
    ranks = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    file = tmp_path / "export" / "llama_factory.yaml"
    parsed = json.loads(run_script(python, "-c", PARSED, file, **ranks, MASTER_PORT="0").splitlines()[-1])
    plan = {"batch": 2, "grad_accum": 2, "rate": 3e-3, "bf16": True, "length": 32, **expected}
    assert {name: parsed[name] for name in plan} == plan
    assert parsed["optimizer"] == "adamw_torch_fused"
    assert parsed["recomputes"] == bool(expected["zero"])


def test_a_misspelt_name_is_refused_by_the_program(python, tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("model_name_or_path: m\ncutof_len: 3\n")
    with pytest.raises(AssertionError, match="cutof_len"):
        run_script(python, "-c", PARSED, file)


def test_the_installed_version_reads_every_known_name(python):
    installed = set(json.loads(run_script(python, "-c", NAMES).splitlines()[-1]))
    known = {name.partition(".")[0] for name in known_names("llama-factory").names}
    assert known - installed == set()
