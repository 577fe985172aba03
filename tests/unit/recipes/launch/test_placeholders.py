"""The recipe's settings inside the arguments of the user's program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.recipe import PLACEHOLDERS, Command, expand, program_arguments

VALUES = {name: str(number) for number, name in enumerate(PLACEHOLDERS)}


def test_every_placeholder_gets_the_recipes_value(make_recipe):
    arguments = tuple(f"{name}={{{name}}}" for name in PLACEHOLDERS)
    recipe = make_recipe(command=Command(kind="script", target="t.py", arguments=arguments))
    assert program_arguments(recipe) == (
        *(
            "micro_batch=2",
            "grad_accum=2",
            "global_batch=8",
            "learning_rate=0.003",
            "warmup_steps=2",
            "steps=20",
        ),
        "sequence_length=32",
        *("schedule=cosine", "final_share=0.1", "beta1=0.9", "beta2=0.95", "weight_decay=0.1"),
        *("gradient_clipping=0.0", "checkpoint_steps=20"),
    )


@pytest.mark.parametrize(
    ("argument", "expanded"),
    [
        ('{{"a": {steps}}}', '{"a": 5}'),
        ("{{steps}}", "{steps}"),
        ("$HOME `id` 'x'", "$HOME `id` 'x'"),
        ("", ""),
        ("{steps}{steps}", "55"),
    ],
)
def test_double_braces_are_braces(argument, expanded):
    assert expand(argument, VALUES) == expanded


@pytest.mark.parametrize(
    "argument", ["{microbatch}", "{", "}", "{}", "{steps", "{steps!r}", "{steps:>9}", "{0}", '{"a": 1}']
)
def test_other_braces_are_errors_that_list_the_placeholders(argument):
    with pytest.raises(UsageError) as caught:
        expand(argument, VALUES)
    assert "{micro_batch}, {grad_accum}" in caught.value.hint
    assert argument[:10] in caught.value.message


@given(text=st.text())
def test_doubling_the_braces_of_any_text_gives_it_back(text):
    assert expand(text.replace("{", "{{").replace("}", "}}"), VALUES) == text
