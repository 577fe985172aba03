"""Test that ranks are bound to the CPUs near their GPUs, with the options of each launcher."""

from __future__ import annotations

import msgspec
import pytest

from probes.facts import NumaNode
from tests.support.clusters import measured
from tests.support.machines import cpu_box, h100, h100_node
from tests.support.platform_machines import with_nccl
from tests.support.worlds import world


def test_each_rank_gets_the_processors_of_its_gpu():
    plan = world("dgx", h100_node()).plan
    assert [binding.numa_node for binding in plan.bindings] == [0] * 4 + [1] * 4
    assert [binding.local_rank for binding in plan.bindings] == list(range(8))
    assert plan.bindings[7].cpus == "56-111,168-223"


def test_each_launcher_has_its_own_words():
    words = world("dgx", with_nccl(h100_node(), "2.30.7", "2.9.0")).plan.binding_words
    assert words["torchrun"] == "--numa-binding=node"
    assert words["srun, one task per rank"] == "--cpu-bind=map_ldom:0,0,0,0,1,1,1,1 --mem-bind=local"
    assert words["mpirun of Open MPI"] == "--map-by ppr:4:numa --bind-to numa"
    assert "numactl" in words["any other"]


@pytest.mark.parametrize("torch", ["2.8.0", None])
def test_an_old_or_unknown_torchrun_is_named(torch):
    words = world("dgx", with_nccl(h100_node(), "2.30.7", torch)).plan.binding_words
    assert words["torchrun"] == "--numa-binding=node (torch 2.9 or newer)"


def test_gpus_of_alternating_nodes_need_a_rankfile():
    gpus = tuple(
        h100(index, numa_node=index % 2, cpu_affinity=("0-55", "56-111")[index % 2]) for index in range(8)
    )
    plan = world("alternating", h100_node(gpus=gpus)).plan
    assert plan.binding_words["mpirun of Open MPI"] == "a rankfile"
    assert plan.binding_words["srun, one task per rank"].startswith("--cpu-bind=map_ldom:0,1,0,1")


def test_one_node_or_no_gpu_needs_no_binding():
    gpus = tuple(h100(index, numa_node=0, cpu_affinity="0-55") for index in range(8))
    one = world("one", h100_node(gpus=gpus, numa_nodes=(NumaNode(index=0, cpus="0-55"),))).plan
    for plan in (one, world("cpu", cpu_box()).plan):
        assert (plan.bindings, plan.binding_words) == ((), {})
        assert [setting.name for setting in plan.host] == ["num_workers"]


def test_the_binding_is_a_decision_with_its_reason():
    (setting,) = [each for each in world("dgx", h100_node()).plan.host if each.name == "cpu_binding"]
    assert (setting.value, setting.basis) == ("numa", "rule")
    assert "rank 0-3 on node 0 (CPUs 0-55,112-167); rank 4-7 on node 1" in setting.because


@pytest.mark.parametrize(
    ("cores", "is_image_job", "workers"), [(14, False, 2), (14, True, 13), (32, True, 16), (1, False, 0)]
)
def test_workers_follow_from_the_cores_of_a_rank(cores, is_image_job, workers):
    plan = world(
        "dgx", h100_node(), layout={"is_image_job": is_image_job}, physical_cores_per_rank=cores
    ).plan
    assert (plan.host[0].name, plan.host[0].value, plan.host[0].basis) == (
        "num_workers",
        str(workers),
        "rule",
    )


@pytest.mark.parametrize(
    ("cores", "words"),
    [(1, "the only physical core of a rank is left"), (2, "one of the 2 physical cores of a")],
)
def test_the_core_that_is_left_to_a_rank_is_named(cores, words):
    plan = world("dgx", h100_node(), physical_cores_per_rank=cores).plan
    assert words in plan.host[0].because


def test_measured_workers_replace_the_rule():
    plan = world("dgx", h100_node(), data_loader_workers=measured(5)).plan
    assert (plan.host[0].value, plan.host[0].basis) == ("5", "measured")


def test_unknown_cores_give_no_number_of_workers():
    plan = world("dgx", h100_node(), physical_cores_per_rank=None).plan
    assert [setting.name for setting in plan.host] == ["cpu_binding"]


def test_an_unknown_place_of_a_gpu_gives_no_binding():
    facts = h100_node()
    gpus = (msgspec.structs.replace(facts.gpus[0], numa_node=None, cpu_affinity=""), *facts.gpus[1:])
    assert world("hidden", h100_node(gpus=gpus)).plan.bindings == ()
