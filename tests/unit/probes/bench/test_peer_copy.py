"""Test the matrix of copies between GPUs: the requests, and the names and rates of pairs."""

from __future__ import annotations

from probes.bench.peer_copy import interpret
from probes.facts import MachineFacts
from tests.support.bench_answers import answer, requests, the_one
from tests.support.machines import h100


def asked(gpus=4, suite="full"):
    facts = MachineFacts(gpus=tuple(h100(index) for index in range(gpus)))
    (request,) = requests(
        "peer-copy", "cuda", gpus, suite=suite, facts=facts, subjects={"GPU-00000001": "GPU1"}
    )
    return request


def test_each_gpu_sends_to_each_other_and_each_pair_both_ways():
    cases = asked(4).cases
    one_way = {(case["from"], case["to"]) for case in cases if case["direction"] == "one_way"}
    assert one_way == {(f"GPU{a}", f"GPU{b}") for a in range(4) for b in range(4) if a != b}
    assert len([case for case in cases if case["direction"] == "both"]) == 6
    assert {case["direction"] for case in asked(4, "quick").cases} == {"one_way"}


def test_one_process_copies_between_all_gpus():
    request = asked(8)
    assert (request.ranks, request.backend, request.subjects) == (1, "gloo", {"GPU-00000001": "GPU1"})


def test_one_gpu_has_no_peer():
    assert requests("peer-copy", "cuda", 1, facts=MachineFacts(gpus=(h100(0),))) == ()
    assert requests("peer-copy", "cpu", 2) == ()


def test_a_pair_has_one_name_whichever_of_the_two_sends():
    request = asked(2)
    measurements = interpret(request, {0: answer(request, 0, (1.0,), peer_access=1.0)})
    size = request.cases[0]["bytes"]
    assert {m.subject for m in measurements} == {"GPU0-GPU1"}
    assert (
        the_one(measurements, "peer_bandwidth_bytes_per_s", **{"from": "GPU1", "to": "GPU0"}).median == size
    )
    assert the_one(measurements, "peer_bandwidth_bytes_per_s", direction="both").median == 2 * size
    assert all(m.parameters["peer_access"] is True for m in measurements)


def test_the_names_of_a_pair_are_in_the_order_of_their_numbers():
    request = asked(12)
    measurements = interpret(request, {0: answer(request, 0)})
    assert {"GPU2-GPU10", "GPU1-GPU2"} <= {m.subject for m in measurements}
    assert "GPU10-GPU2" not in {m.subject for m in measurements}
