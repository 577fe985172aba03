"""Test that doubling any constant changes a figure of a prediction, a plan or another answer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from probes.base.units import GIB
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts, PcieLink
from probes.facts.measurements import Measurement
from probes.judging.findings import Status
from recipes.constants import load_constants
from recipes.job.models.image_models import find_vision_model
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.launch.verification import Comparison
from recipes.launch.verifying.differences import judge_memory
from recipes.machine.cluster_records import Cluster, StepAnchor
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.planning.image_jobs import image_workload
from recipes.planning.own_step import with_own_steps
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import program_named
from recipes.planning.resorts import host_limit
from recipes.planning.run_cost import run_cost
from recipes.planning.what_if import scaling_curve
from recipes.strategies.why_not import experiments
from tests.quantities.changing import figures, first_moved, load_cases, with_rows
from tests.support.check_case import links
from tests.support.clusters import case, cpu_cluster, figure, h100_cluster, predicted_time
from tests.support.machines import h100_node, with_gpus
from tests.support.strategy_cases import judged, situation
from tests.support.what_if import timed_answer
from tests.support.worlds import world

ROOMS = ("recipes.",)
OWN_STEP_S = 2.0
"""Seconds of a step that takes six times as long as predicted."""


def _plan(model: str, cluster: Cluster, **choices: Any) -> Any:
    workload = default_workload(find_model(model), cluster, **choices)
    return make_plan(workload, cluster, MachineFacts(), Pins())


def _tied() -> Any:
    program, cluster = program_named("megatron"), h100_cluster(nodes=16)
    workload = default_workload(find_model("llama-3-70b"), cluster, program=program)
    return make_plan(workload, cluster, MachineFacts(), Pins(), program=program).chosen


def _tight() -> Any:
    """Return the layout for GPUs whose memory the simplest of the fastest layouts nearly fills."""
    program, cluster = program_named("deepspeed"), h100_cluster(memory_bytes_per_rank=figure(66 * GIB))
    workload = default_workload(find_model("llama-3-8b"), cluster, program=program)
    return make_plan(workload, cluster, MachineFacts(), Pins(), headroom=0.0, program=program).chosen


def _risky() -> Any:
    """Return the layout of a plan whose fastest layout may run out of memory, unlike slightly slower ones."""
    program, cluster = program_named("megatron"), h100_cluster()
    workload = default_workload(find_model("qwen2.5-7b"), cluster, program=program)
    return make_plan(workload, cluster, MachineFacts(), Pins(), program=program).chosen


def _words(gpu: str, **words: Any) -> Cluster:
    return cluster_from_words(MachineWords(gpu=gpu, gpus=16, gpus_per_node=8, **words), load_catalogue())


def _over_sockets() -> Cluster:
    """Return a node whose GPUs have only PCIe and communicate across the sockets."""
    node = h100_node()
    slot = PcieLink(generation=5, generation_max=5, width=16, width_max=16)
    gpus = with_gpus(node, *range(8), nvlinks=(), pcie=slot)
    pairs = tuple(
        msgspec.structs.replace(links("SYS")[0], a=f"GPU{a}", b=f"GPU{b}") for a in range(8) for b in range(a)
    )
    return cluster_from_facts(msgspec.structs.replace(gpus, links=pairs), (), load_catalogue())


def _anchored(micro_batch: int) -> Any:
    anchor = StepAnchor(
        model="rigtune-mini",
        strategy="ddp",
        micro_batch=8,
        grad_accum=1,
        sequence_length=256,
        precision="fp32",
        world_size=2,
        activation_checkpointing="none",
        step_time_s=0.7,
        low_s=0.69,
        high_s=0.71,
        source="test",
    )
    run = case(
        find_model("rigtune-mini"), ranks=2, micro_batch=micro_batch, sequence_length=256, precision="fp32"
    )
    return predicted_time(*run, cpu_cluster(anchors=(anchor,)))


def _read(sequence_length: int) -> Any:
    run = case(find_model("llama-3.2-1b"), sequence_length=sequence_length)
    return predicted_time(*run, h100_cluster(reads_per_s=figure(0.01)))


def _long_run() -> Any:
    cluster = h100_cluster(nodes=1024)
    return run_cost(default_workload(find_model("llama-3-8b"), cluster, tokens=10**13), cluster, 5.0)


def _curve() -> Any:
    speeds = ((8, 100.0), (16, 170.0))
    return scaling_curve((gpus // 8, timed_answer(gpus, speed)) for gpus, speed in speeds)


def _images(name: str, nodes: int) -> Any:
    """Return the batch of an image model."""
    cluster = h100_cluster(nodes=nodes)
    job = image_workload(
        find_vision_model(name),
        cluster,
        image_size=None,
        global_batch=None,
        precision="bf16",
        steps=10**6,
        samples=None,
    )
    return [float(job.global_batch)]


def _own_step() -> Any:
    """Return how many measured steps a plan uses, given one that takes six times as long as predicted."""
    cluster = h100_cluster()
    workload = default_workload(find_model("llama-3.2-1b"), cluster)
    parameters = {"step": "train.py:make", "world_size": 8, "micro_batch": 2}
    step = Measurement(
        bench_id="own-step",
        subject="8 ranks",
        metric="step_time_s",
        unit="s",
        samples=(OWN_STEP_S,),
        parameters=parameters,
    )
    return [float(len(with_own_steps(cluster, workload, (step,)).anchors))]


def _instances() -> Any:
    """Return the verdict on a divided GPU for whose instances no report of a driver is known."""
    return judged("mig", "gpt2", gpu="B300", per_node=1, sequence_length=128, global_batch=4)


def _verified_memory() -> Any:
    """Return whether memory that is 15 % above its prediction gives a warning."""
    measured = Comparison(measured=1.15 * GIB, predicted=1.0 * GIB)
    return [float(finding.status is Status.WARN) for finding in judge_memory(measured, None, None)]


def _workers(*, is_image_job: bool) -> list[float]:
    """Return the number of DataLoader workers of a rank with many cores."""
    job = world("node", h100_node(), layout={"is_image_job": is_image_job}, physical_cores_per_rank=64)
    return [float(setting.value) for setting in job.plan.host if setting.name == "num_workers"]


def _experiments() -> Any:
    """Return the gains of the suggested experiments, one of which saves between 5 and 10 % of the step."""
    here = situation("llama-3-8b", nodes=2, network="100 Gb/s Ethernet")
    return [row.saved_share for row in experiments(here, here.plan)]


ANSWERS: dict[str, Callable[[], Any]] = {
    "plan of a machine with NVLink": lambda: _plan("llama-3.1-8b", _words("H100-SXM-80GB")),
    "plan of a machine with PCIe and Ethernet": lambda: _plan(
        "gpt2", _words("L40S", intra="PCIe", inter="100 Gb/s Ethernet, TCP")
    ),
    "plan of machines with many ports and TCP": lambda: _plan(
        "llama-3.1-8b", _words("H100-SXM-80GB", inter="8x400 Gb/s Ethernet, TCP")
    ),
    "plan with a tie of two layouts": _tied,
    "plan that leaves no memory free": _tight,
    "plan whose fastest layout may run out of memory": _risky,
    "plan of adapters": lambda: _plan("llama-3-8b", h100_cluster(), tuning="lora"),
    "plan on a CPU": lambda: _plan("smollm-135m", cpu_cluster(), sequence_length=512, global_batch=64),
    "machine whose GPUs meet across the sockets": _over_sockets,
    "step that was measured": lambda: _anchored(8),
    "step beside one that was measured": lambda: _anchored(4),
    "step that waits for many requests": lambda: _read(2**17),
    "long run of many GPUs": _long_run,
    "scaling curve": _curve,
    "workers that load tokens": lambda: _workers(is_image_job=False),
    "workers that load images": lambda: _workers(is_image_job=True),
    "images on one node": lambda: _images("resnet50", 1),
    "images of a transformer on many nodes": lambda: _images("vit_base_patch16_224", 64),
    "images on some nodes": lambda: _images("resnet50", 4),
    "images on very many nodes": lambda: _images("resnet50", 4096),
    "measured step of the user": _own_step,
    "experiments": _experiments,
    "small jobs on a divided GPU": _instances,
    "memory that a short run measured": _verified_memory,
    "memory of the host": lambda: [host_limit(MachineFacts(), h100_cluster())],
}
"""Functions that return figures which the representative cases of predictions do not contain."""


@functools.lru_cache(maxsize=1)
def _present() -> dict[str, tuple[float | bool, ...]]:
    return {name: figures(answer()) for name, answer in ANSWERS.items()}


@pytest.mark.parametrize("name", load_constants())
def test_twice_a_constant_moves_a_figure(name: str) -> None:
    row, present = load_constants()[name], _present()
    with with_rows(load_constants(), {name: msgspec.structs.replace(row, value=2 * row.value)}, *ROOMS):
        moved = next((what for what, answer in ANSWERS.items() if figures(answer()) != present[what]), "")
        assert moved or first_moved(load_cases()), "nothing depends on it: add an answer or a case"
