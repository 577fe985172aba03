"""Test which training software a command starts."""

from __future__ import annotations

import pytest

from recipes.planning.programs import program_of_command


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (("/opt/venv/bin/trl", "sft"), "trl"),
        (("trl sft",), "trl"),
        (("trl", "sft", "--config", "a.yaml"), "trl"),
        (("trl", "dpo"), None),
        (("sft", "trl"), None),
        (("python", "-m", "torchtitan.train"), "torchtitan"),
        (("torchrun", "Megatron-LM/pretrain_gpt.py"), "megatron"),
        (("bash", "-c", "deepspeed 'unclosed"), "deepspeed"),
        (("python", "train.py"), None),
        ((), None),
    ],
)
def test_words_of_a_program_are_recognised_anywhere_in_a_command(
    command: tuple[str, ...], program: str | None
) -> None:
    row = program_of_command(command)
    assert (row and row.id) == program
