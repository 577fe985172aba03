"""Test that lint reads back the numbers of nodes, ranks and GPUs from files for containers and clouds."""

from __future__ import annotations

import pytest

from recipes.launch.launch_files import launch_files
from recipes.lint.context import Context
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint
from recipes.lint.views import commands, option_number, ranks_here
from tests.support.manifests import H100

MORE = {"role": "arn:aws:iam::1:role/T", "instance_type": "ml.p5.48xlarge"}
PODS = ("kubernetes-job", "pytorchjob", "trainjob", "jobset")
AGENTS = (*PODS, "docker", "podman", "compose", "skypilot", "sagemaker")
RULES = {"kubernetes-gpus-fewer", "kubernetes-nodes-differ"}


def documents(make_recipe, launcher: str, change: tuple[str, str] = ("", "")):
    recipe = make_recipe(**{**H100, "slots": {**H100["slots"], **MORE}})
    for file in launch_files(recipe, launcher):
        document = read_document(file.path, file.text.replace(*change) if change[0] else file.text, None)
        if document is not None:
            yield document


@pytest.mark.parametrize("launcher", AGENTS)
def test_the_agents_have_the_recipes_nodes_and_ranks(make_recipe, launcher):
    sizes = {
        (option_number(document, command, "nnodes"), ranks_here(document, command))
        for document in documents(make_recipe, launcher)
        for command in commands(document, "torchrun")
    }
    assert sizes == {(4, 8)}


@pytest.mark.parametrize("launcher", PODS)
@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (("nvidia.com/gpu: 8", "nvidia.com/gpu: 4"), "kubernetes-gpus-fewer"),
        (('- "4"', '- "5"'), "kubernetes-nodes-differ"),
    ],
)
def test_numbers_that_contradict_each_other_are_reported(make_recipe, launcher, change, rule):
    for given, rules in ((("", ""), set()), (change, {rule})):
        judged = tuple(documents(make_recipe, launcher, given))
        assert {each.rule_id for each in lint(judged, Context())} & RULES == rules
