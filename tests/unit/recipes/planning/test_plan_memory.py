"""Memory of a plan: what stays free, the worst case, and what is said if nothing fits."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.base.errors import ExitCode, NoFeasiblePlanError
from probes.base.units import GIB, gib
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.cluster_records import Cluster
from tests.support.clusters import case, cpu_cluster, figure, h100_cluster, predicted_memory
from tests.support.plans import free_of, plan


def roomy_by(margins: float) -> Cluster:
    """Return GPUs whose memory holds llama-3.2-1b at micro-batch 4, plus `margins` times the margin."""
    cluster = h100_cluster()
    workload, candidate = case(find_model("llama-3.2-1b"), micro_batch=4, grad_accum=2, sequence_length=1024)
    memory = predicted_memory(workload, candidate, cluster)
    return h100_cluster(memory_bytes_per_rank=figure(memory.needed + margins * memory.margin))


PINNED = Pins(strategy="ddp", activation_checkpointing="none")


def test_a_plan_leaves_memory_free_and_states_the_worst_case():
    choices = {"global_batch": 64, "sequence_length": 1024, "pins": PINNED}
    ample, short = (plan("llama-3.2-1b", roomy_by(margins), **choices) for margins in (0.5, -0.05))
    assert (ample.chosen.micro_batch, short.chosen.micro_batch) == (4, 2)
    memory, limit = (ample.chosen.predicted.memory_bytes_per_gpu, ample.cluster.memory_bytes_per_rank)
    assert memory.upper >= memory.needed + memory.margin > memory.needed
    assert memory.needed <= 0.95 * limit.value
    shown = {decision.name: decision for decision in ample.decisions}
    assert shown["memory_headroom"].value == "5 %"
    margin = shown["memory_margin"]
    assert "9 of 10 published runs needed less than 1.2" in margin.because
    needed = f"{gib(memory.needed)} needed when memory is short"
    summed = f"{gib(memory.upper)} ({needed} + {gib(memory.margin)} for the models' error)"
    assert f"the worst case is {summed}" in margin.because
    assert margin.because.endswith("does not fit in the worst case")
    (warning,) = ample.warnings
    assert "may run out of memory: " in warning
    (wider,) = re.findall(r"--headroom ([0-9.]+)", warning)
    assert not plan("llama-3.2-1b", roomy_by(0.5), headroom=float(wider), **choices).warnings


@settings(max_examples=30, deadline=None)
@given(st.floats(0, 0.9), st.floats(4, 80))
def test_the_headroom_of_the_user_is_never_used(headroom, memory_gib):
    cluster = h100_cluster(memory_bytes_per_rank=figure(memory_gib * GIB))
    try:
        made = plan("llama-3.2-1b", cluster, global_batch=64, headroom=headroom)
    except NoFeasiblePlanError as error:
        needed = re.search(r"needs ([0-9.]+) GiB of", error.message)
        if needed and float(needed[1]) < memory_gib:
            assert "--headroom" in error.hint  # noqa: PT017
            free = gib(headroom * memory_gib * GIB)
            assert f"of which {100 * headroom:.3g} % ({free}) stay free" in error.message  # noqa: PT017
        return
    for choice in (made.chosen, *made.alternatives):
        assert choice.predicted.memory_bytes_per_gpu.needed <= memory_gib * GIB * (1 - headroom)
    (decision,) = [row for row in made.decisions if row.name == "memory_headroom"]
    assert decision.basis == "user"


def test_a_plan_that_fits_only_without_headroom_says_so():
    """The largest layout that fits is planned, with a warning, and never one that does not fit."""
    pins = msgspec.structs.replace(PINNED, micro_batch=4)
    choices = {"global_batch": 64, "sequence_length": 1024, "pins": pins}
    made = plan("llama-3.2-1b", roomy_by(0.1), **choices)
    assert free_of(made) == 0.0
    assert "may run out of memory" in made.warnings[0]
    with pytest.raises(NoFeasiblePlanError):
        plan("llama-3.2-1b", roomy_by(-0.1), **choices)


def test_a_cpu_has_a_bound_of_its_own_and_no_margin():
    made = plan("rigtune-mini", cpu_cluster())
    assert made.chosen.predicted.memory_bytes_per_gpu.margin == 0
    assert not [decision for decision in made.decisions if decision.name == "memory_margin"]


def test_unknown_memory_is_refused():
    with pytest.raises(NoFeasiblePlanError, match="unknown"):
        plan("gpt2", h100_cluster(memory_bytes_per_rank=None))


def test_nothing_fits_names_the_constraint_and_the_smallest_changes_that_help():
    with pytest.raises(NoFeasiblePlanError) as error:
        plan("llama-3-70b")
    assert "llama-3-70b does not fit" in error.value.message
    assert "of 79.1 GiB" in error.value.message
    (nodes,) = re.findall(r"(\d+) nodes, which share the states", error.value.hint)
    assert plan("llama-3-70b", h100_cluster(nodes=int(nodes)), pins=Pins(micro_batch=1)).chosen
    assert "--tuning lora" in error.value.hint
    assert plan("llama-3-70b", tuning="lora").chosen
    assert error.value.exit_code == ExitCode.NO_PLAN
