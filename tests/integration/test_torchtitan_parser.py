"""Give exported arguments to torchtitan's own parser, and assert their effect.

RIGTUNE_TORCHTITAN_PYTHON names an interpreter that has torchtitan and torchao; without it, the tests are
skipped.
"""

from __future__ import annotations

import math

import pytest

from recipes.job.models.names import find_model
from recipes.launch.known_names import known_names
from recipes.launch.program_files import FolderFile
from recipes.launch.programs.torchtitan import load_presets, write
from tests.support.program_answers import answer_of, required_variable
from tests.support.program_recipes import program_recipe

pytestmark = pytest.mark.slow

LAYOUTS = {
    "tp4 pp4 dp4": (
        "llama-3-8b",
        {"fsdp": 4, "tp": 4, "pp": 4, "grad_accum": 8, "activation_checkpointing": "full"},
        (1, 4, 4, 4, 1, 1),
        {
            "local_batch": 8,
            "global_batch": 32,
            "accumulation": 1,
            "micro_batch": 1,
            "layers_of_parts": [8, 8, 8, 8],
            "recomputation": "FullAC.Config",
        },
    ),
    "a preset with tp 8, planned without": (
        "llama-3-70b",
        {"fsdp": 16, "micro_batch": 2, "grad_accum": 4, "activation_checkpointing": "selective"},
        (1, 16, 1, 1, 1, 1),
        {"local_batch": 2, "global_batch": 128, "accumulation": 4, "recomputation": "SelectiveAC.Config"},
    ),
    "hsdp": ("llama-3-8b", {"strategy": "hsdp", "dp": 2, "fsdp": 8}, (2, 8, 1, 1, 1, 1), {}),
    "ddp": ("llama-3-8b", {"strategy": "ddp", "dp": 8}, (8, 1, 1, 1, 1, 1), {}),
    "cp": ("llama-3-8b", {"fsdp": 4, "cp": 2}, (1, 4, 1, 1, 2, 1), {"balancer": "ptrr"}),
    "ep": ("qwen3-30b-a3b", {"fsdp": 8, "ep": 4}, (1, 8, 1, 1, 1, 4), {"recomputation": "NoneType"}),
    "vp": (
        "llama-3-8b",
        {"fsdp": 2, "pp": 4, "vp": 2, "pipeline_schedule": "interleaved", "grad_accum": 8},
        (1, 2, 1, 4, 1, 1),
        {"schedule": "Interleaved1F1B", "layers_of_parts": [4] * 8},
    ),
    "uneven parts": (
        "llama-3.1-405b",
        {"pp": 8, "vp": 4, "fsdp": 2, "pipeline_schedule": "interleaved", "grad_accum": 8},
        (1, 2, 1, 8, 1, 1),
        {"layers_of_parts": [3, *[4] * 30, 3], "model": [126, 16384, 128256, 128256]},
    ),
    "zero bubble": (
        "llama-3-8b",
        {"fsdp": 2, "pp": 4, "pipeline_schedule": "zero-bubble", "grad_accum": 8},
        (1, 2, 1, 4, 1, 1),
        {"schedule": "InterleavedZeroBubble", "layers_of_parts": [4] * 8},
    ),
    **{
        precision: (
            "llama-3-8b",
            {"fsdp": 8, "precision": precision},
            (1, 8, 1, 1, 1, 1),
            {"linear": f"{name}Linear.Config", "head": "Linear.Config", "compiles": True},
        )
        for precision, name in (("fp8", "Float8"), ("mxfp8", "MXFP8"), ("nvfp4", "NVFP4"))
    },
}
RATES = {
    "cosine": (
        {},
        {"decay_ratio": None, "decay_type": "cosine", "min_lr_factor": 0.1, "warmup_steps": 100},
    ),
    "constant": ({"schedule": "constant"}, {"decay_ratio": 0.0}),
    "wsd": ({"schedule": "wsd", "decay_share": 0.2}, {"decay_ratio": 0.2, "decay_type": "cosine"}),
    "other": ({"gradient_clipping": 0.0, "weight_decay": 0.05, "beta2": 0.99}, {}),
}


@pytest.fixture(scope="module")
def torchtitan(tmp_path_factory):
    """Return the answers of torchtitan's parser by case; one process asks them all, as its import is slow."""
    python = required_variable("RIGTUNE_TORCHTITAN_PYTHON")
    recipes = {name: program_recipe("torchtitan", case[0], layout=case[1]) for name, case in LAYOUTS.items()}
    for name, (rates, _) in RATES.items():
        slots = {"data": "/d", "output": "/o"}
        recipes[name] = program_recipe("torchtitan", layout={"fsdp": 8}, rates=rates, slots=slots)
    for row in load_presets():
        recipes[row.models[0]] = program_recipe("torchtitan", row.models[0], layout={"fsdp": 8})
    cases = []
    for recipe in recipes.values():
        folder, files = tmp_path_factory.mktemp("job"), write(recipe)
        for file in files.files:
            (folder / file.path).write_text(file.text)
        words = [word for word in files.words if not isinstance(word, FolderFile)]
        cases.append(
            {
                "world_size": recipe.parallelism.world_size,
                "folder": str(folder),
                "arguments": words[words.index("--module") :],
            }
        )
    answer = answer_of("torchtitan_parser.py", python, cases)
    return {**answer, "effects": dict(zip(recipes, answer["effects"], strict=True))}


def test_torchtitan_still_has_the_recorded_names(torchtitan):
    recorded = known_names("torchtitan")
    assert torchtitan["version"] == recorded.version
    assert set(torchtitan["names"]) == recorded.names


@pytest.mark.parametrize("case", LAYOUTS)
def test_torchtitan_understands_the_layout(torchtitan, case):
    _, _, degrees, expected = LAYOUTS[case]
    effect = torchtitan["effects"][case]
    names = ("dp_replicate", "dp_shard", "tp", "pp", "cp", "ep")
    assert effect["degrees"] == dict(zip(names, degrees, strict=True))
    assert {name: effect[name] for name in expected} == expected
    assert (effect["length"], effect["steps"], effect["log"]) == (8192, 2000, [1, False])
    assert effect["format"] == "bfloat16"
    checkpoint = {"enable": True, "interval": 250, "last_save_model_only": False}
    assert checkpoint.items() <= effect["checkpoint"].items()


@pytest.mark.parametrize("case", RATES)
def test_torchtitan_understands_the_optimizer(torchtitan, case):
    rates, expected = RATES[case]
    effect = torchtitan["effects"][case]
    assert {name: effect["rate"][name] for name in expected} == expected
    assert effect["optimizer"]["lr"] == 3e-4
    assert effect["optimizer"]["weight_decay"] == rates.get("weight_decay", 0.1)
    assert effect["optimizer"]["betas"] == [0.9, rates.get("beta2", 0.95)]
    assert float(effect["clipping"]) == (math.inf if "gradient_clipping" in rates else 1)
    assert effect["paths"][1:] == ["/o", "/d"]


@pytest.mark.parametrize("preset", load_presets(), ids=lambda row: row.models[0])
def test_torchtitan_builds_every_model_of_the_table(torchtitan, preset):
    effect = torchtitan["effects"][preset.models[0]]
    shape = find_model(preset.models[0])
    assert effect["model"] == [shape.layers, shape.hidden, shape.vocab, shape.vocab]
    assert effect["groups"] == 1
    assert effect["paths"][0] == preset.assets
    assert effect["degrees"]["ep"] == effect["degrees"]["tp"] == 1
