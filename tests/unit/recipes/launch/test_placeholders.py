"""The recipe's settings inside the arguments of the user's program."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.placeholders import PLACEHOLDERS, expand, has_placeholder
from recipes.launch.plan_json import plan_file
from recipes.launch.recipe import Command, program_arguments

VALUES = dict.fromkeys(PLACEHOLDERS, "5")


def test_every_placeholder_gets_the_recipes_value(make_recipe):
    arguments = tuple(f"{name}={{{name}}}" for name in PLACEHOLDERS)
    recipe = make_recipe(
        command=Command(kind="script", target="t.py", arguments=arguments), slots={"data": "/data/corpus"}
    )
    assert program_arguments(recipe) == (
        *("name=mini", "program=own", "model=mini", "strategy=ddp", "pipeline_schedule=1f1b"),
        *("nodes=1", "ranks_per_node=2", "world_size=2", "micro_batch=2", "grad_accum=2", "global_batch=8"),
        *("sequence_length=32", "image_size=0", "activation_checkpointing=none"),
        *("recomputed_share=1.0", "precision=fp32", "offload=none"),
        *("optimizer=adamw", "tuning=full", "adapter_rank=0", "learning_rate=0.003"),
        *("embedding_learning_rate=0.0", "warmup_steps=2", "steps=20", "schedule=cosine"),
        *("final_share=0.1", "decay_share=0.0", "beta1=0.9", "beta2=0.95", "weight_decay=0.1"),
        *("gradient_clipping=0.0", "accumulation_dtype=fp32", "ramp_from=0", "ramp_samples=0"),
        *("checkpoint_steps=20", "bucket_mb=0", "prefetch=0", "backend=gloo", "device=cpu"),
        *("weights=", "data=/data/corpus", "tokenizer=", "output=", "checkpoints="),
        *("dp=2", "fsdp=1", "tp=1", "pp=1", "vp=1", "cp=1", "ep=1"),
    )


def test_plan_json_has_every_placeholder(make_recipe):
    plan = json.loads(plan_file(make_recipe()).text)
    assert plan.keys() - PLACEHOLDERS.keys() == {"schema_version", "degrees"}
    assert PLACEHOLDERS.keys() == (plan.keys() | plan["degrees"].keys()) - {"schema_version", "degrees"}
    assert (plan["schema_version"], plan["degrees"]["dp"], plan["learning_rate"]) == (1, 2, 0.003)


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
    assert "rigtune list placeholders" in caught.value.hint
    assert argument[:10] in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "has"),
    [
        (("--bs", "{steps}"), True),
        (("--bs={steps}x",), True),
        (("{{{steps}}}",), True),
        (("{{steps}}",), False),
        (("{{", "steps", "}}"), False),
        ((), False),
    ],
)
def test_a_name_in_double_braces_is_no_placeholder(arguments, has):
    assert has_placeholder(arguments, "steps") is has


@given(text=st.text())
def test_doubling_the_braces_of_any_text_gives_it_back(text):
    assert expand(text.replace("{", "{{").replace("}", "}}"), VALUES) == text
