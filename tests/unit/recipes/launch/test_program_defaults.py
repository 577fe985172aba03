"""Test that an import takes the defaults of the program where no file states a setting."""

from __future__ import annotations

import pytest

from recipes.launch.imports.spelled_settings import defaults_of, load_spellings
from recipes.planning.programs import OWN, load_programs
from tests.support.imported_launch import imported

RUN = "torchrun --nnodes 1 --nproc-per-node 8 "
SIZES = "--per_device_train_batch_size 1 --gradient_accumulation_steps 8 --max_steps 100 --bf16"
TRAINER = {"weight_decay": 0.0, "beta1": 0.9, "beta2": 0.999, "gradient_clipping": 1.0, "final_share": 0.0}
LAUNCHES = {
    "hf-trainer": (
        f"run_clm.py --model_name_or_path gpt2 --block_size 512 {SIZES}",
        {"learning_rate": 5e-5, "schedule": "linear", "warmup_steps": 0, **TRAINER},
    ),
    "trl": (
        f"-m trl.scripts.sft --model_name_or_path gpt2 {SIZES}",
        {"learning_rate": 2e-5, "schedule": "linear", "warmup_steps": 0, **TRAINER},
    ),
    "megatron": (
        "pretrain_gpt.py --tensor-model-parallel-size 1 --tokenizer-model gpt2 --seq-length 512 "
        "--micro-batch-size 1 --global-batch-size 64 --train-iters 100 --lr 1e-4 --bf16",
        {"schedule": "linear", "warmup_steps": 0, **TRAINER, "weight_decay": 0.01},
    ),
}


@pytest.mark.parametrize("program", LAUNCHES)
def test_a_setting_that_no_file_states_has_the_default_of_the_program(program):
    words, expected = LAUNCHES[program]
    answer = imported(("a.sh", RUN + words), strategy="ddp", model="gpt2")
    assert answer.program == program
    assert answer.recipe is not None, answer.missing
    values = {name: getattr(answer.recipe.convergence, name) for name in expected}
    assert values == expected
    assert answer.recipe.job.optimizer == "adamw"
    (reason,) = {each.because for each in answer.assumed if each.setting == "weight_decay"}
    assert load_spellings()[program].source in reason
    assert not any(each.setting == "weight_decay" for each in answer.settings)


def test_the_length_of_trl_is_its_default():
    recipe = imported(("a.sh", RUN + LAUNCHES["trl"][0]), strategy="ddp").recipe
    assert recipe.model.sequence_length == 1024


@pytest.mark.parametrize(
    ("option", "field", "value"),
    [
        ("--learning_rate 1e-3", "learning_rate", 1e-3),
        ("--adam_beta2 0.95", "beta2", 0.95),
        ("--weight_decay 0.1", "weight_decay", 0.1),
        ("--warmup_ratio 0.1", "warmup_steps", 10),
        ("--lr_scheduler_type cosine", "schedule", "cosine"),
    ],
)
def test_a_stated_value_has_precedence(option, field, value):
    recipe = imported(("a.sh", f"{RUN}{LAUNCHES['hf-trainer'][0]} {option}"), strategy="ddp").recipe
    assert getattr(recipe.convergence, field) == value


def test_nothing_is_assumed_of_a_program_that_reads_a_file_that_was_not_given():
    words = f"{RUN}{LAUNCHES['hf-trainer'][0]} --deepspeed ds.json"
    answer = imported(("a.sh", words), strategy="ddp")
    assert {each.setting for each in answer.missing} == {"learning_rate"}


def test_the_users_own_program_has_no_known_defaults():
    assert defaults_of(OWN) == {}


def test_programs_that_pass_arguments_on_understand_those_of_the_trainer():
    words = "llamafactory-cli train --stage sft --warmup_ratio 0.1 --save_steps 50"
    settings = {each.setting for each in imported(("a.sh", words)).settings}
    assert {"warmup_share", "checkpoint_steps"} <= settings


def test_a_file_of_axolotl_has_the_defaults_of_axolotl():
    text = "base_model: gpt2\nsequence_len: 512\nmicro_batch_size: 1\ngradient_accumulation_steps: 2\n"
    answer = imported(("a.yaml", f"{text}datasets:\n  - path: x\n    type: completion\nlr_scheduler:\n"))
    assert answer.program == "axolotl"
    assert "learning_rate" in {each.setting for each in answer.missing}
    assert ("lr_schedule", "cosine") in {(each.setting, each.value) for each in answer.assumed}


def test_defaults_are_settings_of_the_row():
    for row in load_spellings().values():
        assert not row.defaults or row.owner in load_programs()
