"""Test that a decision which a program cannot apply becomes a remark in the script, with several programs."""

from __future__ import annotations

import pytest

from recipes.launch.launch_files import program_files
from recipes.launch.recipe import Command, Job
from tests.support.program_recipes import program_recipe

SCRIPT = Command(
    kind="script", target="train.py", arguments=("{micro_batch}", "{grad_accum}", "{learning_rate}")
)
LITERAL = Command(kind="script", target="train.py", arguments=("{{learning_rate}}", "{{precision}}"))
"""A command whose arguments contain literal braces, which a recipe states as double braces."""
PLACES = {"model": "org/Llama", "data": "/data/chats"}
DDP = {"strategy": "ddp", "fsdp": 1, "dp": 8}
FSDP = {"fsdp": 8}
MUP = {"rates": {"embedding_learning_rate": 0.01}}
OWN_FILE = Command(kind="module", target="axolotl.cli.train", arguments=("mine.yaml",))
NO_DATA = "slot data is left out: mine.yaml must name the data"
TOKENIZER = {"slots": {**PLACES, "tokenizer": "org/T"}}
TAKEN = "takes the tokenizer from the model"
IN_BF16 = "sums gradients over the ranks in bf16, not in fp32"


@pytest.mark.parametrize(
    ("program", "fields", "remark"),
    [
        (
            "horovod",
            {"layout": {**DDP, "precision": "fp16"}, "command": SCRIPT},
            "{precision}: it must use fp16",
        ),
        (
            "horovod",
            {"layout": {**DDP, "precision": "fp32", "activation_checkpointing": "full"}, "command": SCRIPT},
            "{activation_checkpointing}: it must use full",
        ),
        ("tensorflow", {"layout": DDP, "command": SCRIPT}, "set_global_policy('mixed_bfloat16')"),
        (
            "tensorflow",
            {"layout": DDP, "command": LITERAL},
            "{learning_rate}: it must use",
        ),
        ("tensorflow", {"layout": DDP, "command": LITERAL}, "set_global_policy('mixed_bfloat16')"),
        ("trl", {"layout": FSDP, **TOKENIZER}, TAKEN),
        ("llama-factory", {"layout": FSDP, **TOKENIZER}, TAKEN),
        ("ms-swift", {"layout": FSDP, **TOKENIZER}, TAKEN),
        *((name, {"layout": FSDP, "slots": PLACES}, IN_BF16) for name in ("trl", "axolotl", "ms-swift")),
        ("axolotl", {"layout": FSDP, "slots": PLACES, "command": OWN_FILE}, NO_DATA),
        ("torchtitan", {"layout": FSDP, **MUP}, "rate of 0.01 (muP), which rigtune cannot state here"),
        ("megatron", {"layout": {"strategy": "zero1", "dp": 8}, **MUP}, "which rigtune cannot state here"),
        ("torchtune", {"layout": FSDP, **MUP}, "which rigtune cannot state here"),
        ("deepspeed", {"layout": FSDP, "command": SCRIPT, **MUP}, "make parameter groups in your script"),
        (
            "torchtune",
            {"layout": FSDP, "rates": {"ramp_from": 4, "ramp_samples": 100}},
            "grows from 4 to 8 samples",
        ),
    ],
)
def test_a_decision_that_a_program_cannot_take_is_a_remark(program, fields, remark):
    notes = program_files(program_recipe(program, **fields)).notes
    assert [note for note in notes if remark in note], notes


@pytest.mark.parametrize(
    ("job", "continues"),
    [(Job(), False), (Job(fine_tuning=True), True), (Job(tuning="lora"), True), (Job(tuning="qlora"), True)],
)
def test_adapters_continue_a_trained_model_as_fine_tuning_does(job, continues):
    assert job.continues is continues
    files = program_files(program_recipe("ms-swift", layout=FSDP, job=job, slots=PLACES))
    assert files.words[:2] == ("-m", "swift.cli.sft" if continues else "swift.cli.pt")
