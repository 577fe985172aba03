"""Test that ms-swift trains as the exported options state: ranks, shards, adapters, batch, rate, schedule."""

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
from swift.arguments import PretrainArguments, SftArguments
names = [field.name for kind in (SftArguments, PretrainArguments) for field in dataclasses.fields(kind)]
print("NAMES " + json.dumps(names))
"""
OPTIONS = (
    "--logging_steps",
    "1",
    "--model_type",
    "llama",
    "--template",
    "llama3_2",
    "--use_chat_template",
    "false",
    "--use_cpu",
    "true",
)


@pytest.fixture
def python():
    return program_python("RIGTUNE_MS_SWIFT_PYTHON", "swift")


@pytest.fixture
def recipe_of(make_recipe, tmp_path, python):
    """Return a function that makes a recipe for a tiny Llama and a file of chats."""
    run_script(python, SCRIPTS / "tiny_llama.py", tmp_path)
    rows = [
        {"messages": [{"role": "user", "content": f"w{at}"}, {"role": "assistant", "content": f"w{at + 1}"}]}
        for at in range(48)
    ]
    (tmp_path / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def make(**fields):
        slots = {
            name: str(tmp_path / place)
            for name, place in {"model": "model", "data": "chats.jsonl", "output": "out"}.items()
        }
        fields = {"convergence": CONVERGENCE, "checkpoints": CheckpointSettings(every_steps=4), **fields}
        fields["resources"] = {"device": "cpu", **fields.get("resources", {}), "python": python}
        fields["parallelism"] = {"precision": "bf16", **fields.get("parallelism", {})}
        command = Command(kind="program")
        recipe = make_recipe(program="ms-swift", command=command, slots=slots, **fields)
        return msgspec.structs.replace(recipe, model=msgspec.structs.replace(recipe.model, id="llama-3-8b"))

    return make


def history(folder):
    state = json.loads((folder / "checkpoint-8" / "trainer_state.json").read_text())
    return state, [entry for entry in state["log_history"] if "loss" in entry]


def test_adapters_train_on_two_ranks(recipe_of, export, tmp_path):
    script = export("torchrun", recipe_of(job=Job(tuning="lora", adapter_rank=8)), tmp_path / "export")
    run_script(script, *OPTIONS)
    out = tmp_path / "out"
    state, logs = history(out)
    assert (state["global_step"], state["train_batch_size"], len(logs)) == (8, 2, 8)
    # the cosine ends at a tenth of the peak
    assert 3e-4 < logs[-1]["learning_rate"] < 1e-3
    assert logs[-1]["loss"] < logs[0]["loss"]
    assert json.loads((out / "checkpoint-8" / "adapter_config.json").read_text())["r"] == 8
    assert json.loads((out / "checkpoint-8" / "args.json").read_text())["global_world_size"] == 2


def test_all_weights_train_in_shards(recipe_of, export, tmp_path):
    recipe = recipe_of(
        resources={"device": "cuda", "backend": "nccl"},
        job=Job(fine_tuning=True),
        parallelism={"strategy": "fsdp", "activation_checkpointing": "full"},
    )
    script = export("torchrun", recipe, tmp_path / "export")
    run_script(script, *OPTIONS, **GPU_STANDIN)
    _, logs = history(tmp_path / "out")
    assert logs[-1]["loss"] < logs[0]["loss"]
    shards = list((tmp_path / "out" / "checkpoint-8").glob("pytorch_model_fsdp_0/*.distcp"))
    assert len(shards) == 2


def test_the_installed_version_reads_every_known_name(python):
    output = run_script(python, "-c", NAMES)
    installed = set(json.loads(output.partition("NAMES ")[2].splitlines()[0]))
    assert {name.partition(".")[0] for name in known_names("ms-swift").names} - installed == set()
