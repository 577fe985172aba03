"""Test the selection of host copies by the known NUMA nodes, and the count of their bytes."""

from __future__ import annotations

import pytest

from probes.base.record import NOT_RECORDED
from probes.bench.host_device import interpret
from probes.facts import MachineFacts, NumaNode
from tests.support.bench_answers import answer, requests, the_one
from tests.support.machines import h100


def nodes(*distances: tuple[int, ...]) -> tuple[NumaNode, ...]:
    return tuple(
        NumaNode(index=index, cpus=f"{index * 4}-{index * 4 + 3}", distances=row)
        for index, row in enumerate(distances)
    )


TWO_NODES = nodes((10, 21), (21, 10))


def facts(*gpu_nodes, numa_nodes=TWO_NODES) -> MachineFacts:
    gpus = tuple(h100(index, numa_node=node) for index, node in enumerate(gpu_nodes))
    return MachineFacts(gpus=gpus, numa_nodes=numa_nodes)


def asked(machine, ranks=2, suite="full"):
    (request,) = requests("host-device", "cuda", ranks, suite=suite, facts=machine)
    return request


def test_near_and_far_are_those_of_each_gpu():
    request = asked(facts(0, 1))
    assert request.settings == {"near GPU0": 0, "far GPU0": 1, "near GPU1": 1, "far GPU1": 0}
    assert request.numa_cpus == {"0": (0, 1, 2, 3), "1": (4, 5, 6, 7)}
    assert {case["near"] for case in request.cases} == {True, False}


def test_far_is_what_the_firmware_calls_most_distant():
    four = nodes((10, 12, 32, 30), (12, 10, 30, 32), (32, 30, 10, 12), (30, 32, 12, 10))
    assert asked(facts(0, 1, numa_nodes=four)).settings == {
        "near GPU0": 0,
        "far GPU0": 2,
        "near GPU1": 1,
        "far GPU1": 3,
    }


def test_numa_nodes_of_gpu_memory_are_no_source_of_host_copies():
    with_gpu = (*TWO_NODES, NumaNode(index=2, cpus="", is_gpu_memory=True))
    assert set(asked(facts(0, 1, numa_nodes=with_gpu)).settings.values()) == {0, 1}


@pytest.mark.parametrize("unknown", [None, NOT_RECORDED])
def test_every_node_is_measured_where_a_gpus_own_is_not_known(unknown):
    request = asked(facts(0, unknown))
    assert request.settings == {}
    assert {case.get("numa_node") for case in request.cases} == {0, 1}
    assert not any("near" in case for case in request.cases)


def test_a_single_node_is_near_whatever_the_platform_states():
    request = asked(facts(None, None, numa_nodes=nodes((10,))))
    assert {case["near"] for case in request.cases} == {True}
    assert request.settings == {"near GPU0": 0, "near GPU1": 0}


def test_without_any_facts_memory_comes_from_anywhere():
    request = asked(MachineFacts())
    assert not any({"near", "numa_node"} & case.keys() for case in request.cases)


def test_all_at_once_is_measured_beside_each_alone_where_there_are_several():
    assert {case["concurrent"] for case in asked(facts(0, 1)).cases} == {False, True}
    assert {case["concurrent"] for case in asked(facts(0), ranks=1).cases} == {False}


def test_pageable_copies_are_asked_for_one_way_and_in_the_full_suite_only():
    pageable = [case for case in asked(facts(0, 1)).cases if not case["pinned"]]
    assert {case["direction"] for case in pageable} == {"host_to_device", "device_to_host"}
    assert all(case["pinned"] for case in asked(facts(0, 1), suite="quick").cases)


def test_a_byte_crosses_the_bus_once_and_both_ways_add_up():
    request = asked(facts(0, 1), ranks=1)
    measurements = interpret(request, {0: answer(request, 0, (1.0,), numa_node=1.0)})
    size = request.cases[0]["bytes"]
    where = {"pinned": True, "near": True, "concurrent": False}
    assert (
        the_one(measurements, "memory_bandwidth_bytes_per_s", direction="device_to_host", **where).median
        == size
    )
    assert the_one(measurements, "memory_bandwidth_bytes_per_s", direction="both", **where).median == 2 * size
    assert {m.parameters["numa_node"] for m in measurements} == {1}


def test_a_machine_without_gpus_has_nothing_to_copy_to():
    assert requests("host-device", "cpu") == ()
