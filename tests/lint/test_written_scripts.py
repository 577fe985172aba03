"""Lint finds nothing in the scripts that rigtune itself writes, for any platform and launcher."""

from __future__ import annotations

import shlex

import msgspec
import pytest

from probes.catalogue.hardware import load_catalogue
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.launch.launch_files import launch_files
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import Command
from recipes.launch.resolve import recipe_of
from recipes.launch.slots import load_slots
from recipes.lint.context import Context
from recipes.lint.reading import read_document
from recipes.lint.rule_table import lint
from recipes.machine.from_facts import cluster_from_facts
from recipes.planning.planner import default_workload, make_plan
from tests.support.platform_machines import PLATFORM_MACHINES
from tests.support.worlds import worlds

SLOTS = {
    name: slot.example
    for name, slot in load_slots().items()
    if name == "accelerator" or name in {needed for row in LAUNCHERS for needed in row.needs}
}


def scripts(facts, nodes: int, hosts: tuple[str, ...]):
    """Yield the name and text of every file that a launcher writes for a small job."""
    cluster = cluster_from_facts(facts, (), load_catalogue(), nodes=nodes)
    plan = make_plan(default_workload(find_model("gpt2"), cluster), cluster, facts, Pins())
    command = Command(kind="script", target="train.py")
    recipe = recipe_of(plan, name="job", command=command, python="/opt/python", facts=facts)
    # values that every site has for launchers of containers and clouds
    resources = msgspec.structs.replace(recipe.resources, hosts=hosts)
    recipe = msgspec.structs.replace(recipe, slots=SLOTS, resources=resources)
    for row in LAUNCHERS:
        if "rank" not in row.starts or (row.has_one_node and nodes > 1):
            continue
        for artifact in launch_files(recipe, row.id):
            yield row.id, artifact.path, artifact.text


def findings(facts, nodes: int, hosts: tuple[str, ...] = (), judged: set[str] | None = None) -> list[str]:
    """Return the findings in all scripts except those whose text is in `judged`, and add the texts to it."""
    complaints = []
    judged = set() if judged is None else judged
    for launcher, path, text in scripts(facts, nodes, hosts):
        if text in judged:
            continue
        judged.add(text)
        document = read_document(path, text, None)
        if document is not None:
            for context in (Context(), Context(machine=facts)):
                complaints += [
                    f"{launcher} {each.rule_id}: {each.message}"
                    for each in lint((document,), context)
                    # without the machine this rule assumes the usual 8 GPUs
                    if each.rule_id != "accelerate-processes" or context.machine is not None
                ]
    return complaints


@pytest.mark.parametrize("name", PLATFORM_MACHINES)
def test_no_finding_in_scripts_for_a_platform(name: str) -> None:
    facts = PLATFORM_MACHINES[name]
    judged: set[str] = set()
    assert findings(facts, 1, (), judged) == []
    assert findings(facts, 2, (), judged) == []
    assert findings(facts, 2, ("node0", "node1"), judged) == []


@pytest.mark.parametrize(
    "name", ["storage port", "several-interfaces aws-p5", "cpu, two interfaces", "mixed", "rtx 40"]
)
@pytest.mark.parametrize("nodes", [1, 2])
def test_no_finding_in_scripts_for_a_difficult_machine(name: str, nodes: int) -> None:
    facts = next(job.facts for job in worlds() if job.name == f"{name}, {nodes} nodes")
    assert findings(facts, nodes) == []


def test_no_finding_in_the_variables_of_any_job():
    """A workaround is right only for the machine that needs it, so lint gets the machine."""
    for job in worlds():
        exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in job.values.items())
        start = (
            f"torchrun --nnodes {job.cluster.nodes} --nproc-per-node {job.cluster.ranks_per_node} "
            '--node-rank "$rank" --master-addr "$master" --master-port "$port" train.py\n'
        )
        document = read_document("launch.sh", f"#!/bin/bash\n{exports}{start}", None)
        assert document is not None
        complaints = lint((document,), Context(machine=job.facts))
        assert [(each.rule_id, each.message) for each in complaints] == [], job.name


def test_variables_of_mpi_are_in_its_script_alone():
    texts = {
        (launcher, path): text
        for launcher, path, text in scripts(PLATFORM_MACHINES["oci-a100"], 2, ())
        if path != "recipe.toml"
    }
    assert {launcher for (launcher, _), text in texts.items() if "UCX_TLS" in text} == {"mpi"}
    assert "-x UCX_TLS" in texts["mpi", "launch-mpi.sh"]
