"""Let torchtune validate exported files and build their models, and assert the effect.

RIGTUNE_TORCHTUNE_PYTHON names an interpreter that has torchtune; without it, the tests are skipped.
"""

from __future__ import annotations

import pytest

from recipes.launch.known_names import known_names
from recipes.launch.programs.torchtune import load_tuned_models, write
from recipes.launch.recipe import Job
from tests.support.program_answers import answer_of, required_variable
from tests.support.program_recipes import program_recipe

pytestmark = pytest.mark.slow

CASES = {
    "full": (
        {"layout": {"fsdp": 8, "micro_batch": 2, "grad_accum": 4, "activation_checkpointing": "full"}},
        {
            "batch_size": 2,
            "gradient_accumulation_steps": 4,
            "enable_activation_checkpointing": True,
            "dtype": "bf16",
            "max_steps_per_epoch": 2000,
            "clip_grad_norm": 1,
        },
    ),
    "tensor": (
        {"layout": {"fsdp": 4, "tp": 2}},
        {
            "tensor_parallel_dim": 2,
            "tensor_parallel_plan": {"_component_": "torchtune.models.llama3.base_llama_tp_plan"},
        },
    ),
    "lora": ({"layout": {"fsdp": 8}, "job": Job(tuning="lora", adapter_rank=16)}, {"batch_size": 1}),
    "qlora": ({"layout": {"fsdp": 8}, "job": Job(tuning="qlora", adapter_rank=32)}, {"batch_size": 1}),
    "constant": (
        {"layout": {"fsdp": 8}, "rates": {"schedule": "constant", "gradient_clipping": 0.0}},
        {"clip_grad_norm": None},
    ),
    "small rate": (
        {"layout": {"fsdp": 8, "precision": "fp32"}, "rates": {"learning_rate": 3e-5, "beta2": 0.99}},
        {"dtype": "fp32"},
    ),
}


@pytest.fixture(scope="module")
def torchtune():
    """Return the answers of torchtune by case; one process asks them all, as its import is slow."""
    python = required_variable("RIGTUNE_TORCHTUNE_PYTHON")
    recipes = {name: program_recipe("torchtune", **case[0]) for name, case in CASES.items()}
    for row in load_tuned_models():
        recipes[row.models[0]] = program_recipe("torchtune", row.models[0], layout={"fsdp": 8})
    cases = [{"config": write(recipe).files[0].text} for recipe in recipes.values()]
    answer = answer_of("torchtune_parser.py", python, cases)
    return {**answer, "effects": dict(zip(recipes, answer["effects"], strict=True)), "recipes": recipes}


def test_torchtune_still_has_the_recorded_names(torchtune):
    recorded = known_names("torchtune")
    assert (torchtune["version"], set(torchtune["names"])) == (recorded.version, recorded.names)


@pytest.mark.parametrize("case", CASES)
def test_torchtune_understands_the_file(torchtune, case):
    fields, expected = CASES[case]
    effect, recipe = torchtune["effects"][case], torchtune["recipes"][case]
    assert {name: effect["values"][name] for name in expected} == expected
    assert effect["rate"] == recipe.convergence.learning_rate
    assert effect["betas"] == [0.9, recipe.convergence.beta2]
    assert effect["decays"] == 0.1
    assert effect["values"]["tokenizer"]["max_seq_len"] == 8192
    assert effect["ranks"] == ([] if "job" not in fields else [recipe.job.adapter_rank])
    start, warm, _, end = effect["course"]
    assert (start, warm) == (0.0, 1.0)
    assert end == pytest.approx(1.0 if case == "constant" else 0.0)


@pytest.mark.parametrize("row", load_tuned_models(), ids=lambda row: row.models[0])
def test_torchtune_builds_every_model_of_the_table(torchtune, row):
    assert torchtune["effects"][row.models[0]]["layers"] == torchtune["recipes"][row.models[0]].model.layers
