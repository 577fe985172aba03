"""The program that would be fastest for a job."""

from __future__ import annotations

import pytest

from assistant.usecases.plan import PlanRequest, plan_workload
from probes.base.errors import UsageError
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from recipes.job.models.names import find_model
from recipes.job.pins import Pins
from recipes.machine.from_words import MachineWords, cluster_from_words
from recipes.planning.plan import OWN_PROGRAM
from recipes.planning.planner import default_workload, request_of
from recipes.planning.program_comparison import fastest_program
from recipes.planning.programs import device_family, load_programs, program_named
from recipes.planning.refusals import require_sound
from recipes.planning.search import search, search_with_headroom
from tests.support.clusters import figure, h100_cluster


@pytest.mark.parametrize(("model", "nodes"), [("llama-3-8b", 1), ("llama-3-8b", 4), ("mixtral-8x7b", 4)])
def test_fastest_program_agrees_with_a_full_search_of_each(model: str, nodes: int) -> None:
    cluster = h100_cluster(nodes=nodes)
    workload = default_workload(find_model(model), cluster)
    fastest = fastest_program(workload, cluster, Pins(), own_s=1e9)
    assert fastest is not None
    seconds = {}
    for name in fastest.compared:
        result, _ = search_with_headroom(request_of(workload, cluster, program_named(name), Pins()))
        if result.ranked:
            seconds[name] = result.ranked[0].seconds
    best = min(seconds.values())
    assert fastest.step_time_s <= best * 1.06  # the quick comparison leaves some layouts out
    assert seconds[fastest.program] <= fastest.step_time_s * 1.02
    assert fastest.speed_up == pytest.approx(1e9 / fastest.step_time_s - 1)


def test_limit_prunes_without_changing_the_winner() -> None:
    cluster = h100_cluster(nodes=4)
    workload = default_workload(find_model("llama-3-8b"), cluster)
    request = request_of(workload, cluster, program_named("torchtitan"), Pins())
    room = 75e9
    whole = search(request, lambda needed: needed > room)
    best = whole.ranked[0].seconds
    fast = min(member.seconds for member in whole.ranked)
    assert min(
        member.seconds
        for member in search(
            request, lambda needed: needed > room, alternatives=0, limit_s=1.01 * fast
        ).ranked
    ) == pytest.approx(fast)
    below = search(request, lambda needed: needed > room, alternatives=0, limit_s=0.99 * fast)
    assert all(member.seconds >= 0.99 * fast for member in below.ranked)
    assert best >= fast


def test_only_programs_that_train_encoders_are_compared_for_bert() -> None:
    workload = default_workload(find_model("bert-base"), h100_cluster())
    fastest = fastest_program(workload, h100_cluster(), Pins(), own_s=1e9)
    assert fastest is not None
    assert "megatron" in fastest.compared
    assert not {"torchtitan", "torchtune", "olmo-core", "nanotron", "maxtext"} & set(fastest.compared)
    with pytest.raises(UsageError, match=r"MaxText .* does not train models such as bert-base"):
        require_sound(workload, h100_cluster(), Pins(), program_named("maxtext"))


def test_own_program_is_named_if_no_other_is_clearly_faster() -> None:
    cluster = h100_cluster()
    workload = default_workload(find_model("llama-3-8b"), cluster)
    fastest = fastest_program(workload, cluster, Pins(), own_s=1e-6)
    assert fastest is not None
    assert (fastest.program, fastest.speed_up) == (OWN_PROGRAM, 0.0)


def test_programs_that_cannot_train_the_job_are_not_compared() -> None:
    cluster = h100_cluster()
    workload = default_workload(find_model("llama-3-8b"), cluster, tuning="qlora")
    fastest = fastest_program(workload, cluster, Pins(), own_s=1e9)
    assert fastest is not None
    assert fastest.compared
    assert all("qlora" in load_programs()[name].tunings for name in fastest.compared)


def test_unknown_memory_is_not_compared() -> None:
    cluster = h100_cluster(memory_bytes_per_rank=None, flops_per_s={"bf16": figure(1e14)})
    workload = default_workload(find_model("llama-3-8b"), cluster)
    assert fastest_program(workload, cluster, Pins(), own_s=1.0) is None


@pytest.mark.parametrize("gpu", ["Gaudi2", "Gaudi3", "MI300X", "H100", "V100"])
@pytest.mark.parametrize("model", ["llama-3-8b", "bert-large", "mixtral-8x7b"])
def test_only_programs_that_support_the_devices_are_suggested(gpu: str, model: str) -> None:
    cluster = cluster_from_words(MachineWords(gpu=gpu, gpus=16), load_catalogue())
    family = device_family(cluster)
    workload = default_workload(find_model(model), cluster)
    answer = fastest_program(workload, cluster, Pins(), own_s=1e6)
    assert answer is not None
    assert all(family in program_named(name).devices for name in (answer.program, *answer.compared))
    for row in load_programs().values():
        assert "nvidia" in row.devices


def test_a_program_that_does_not_support_the_device_is_planned_with_a_warning() -> None:
    *_, last = plan_workload(
        MachineFacts(), (), PlanRequest(model="llama-3-8b", gpu="Gaudi3", gpus=8, program="maxtext")
    )
    assert any("does not support Gaudi 3" in warning for warning in last.result.warnings)
