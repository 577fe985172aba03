"""Test how much each benchmark asks of a machine: starts, ranks, cases and seconds, which users wait for."""

from __future__ import annotations

import re

import pytest

from probes.bench.across_nodes import pair_cases, pairs_request
from probes.bench.bench_requests import BenchSettings
from probes.bench.collectives import own_work
from probes.facts import MachineFacts
from tests.support.bench_answers import BENCHES, MODEL, SHAPE, bench_context, requests
from tests.unit.probes.bench.test_benchmarks import CONTEXTS, cpu_context, every_request, gpu_context


@pytest.mark.parametrize(
    ("bench_id", "where", "ranks", "cases", "seconds", "title"),
    [
        ("gemm", "8 GPUs, quick", (8,), (25,), 8.0, "matrix multiply"),
        ("gemm", "8 GPUs, full", (8,), (65,), 45.0, "matrix multiply"),
        ("gemm", "2 CPU ranks, quick", (2,), (13,), 7.0, "matrix multiply"),
        ("attention", "8 GPUs, quick", (8,), (4,), 2.0, "attention"),
        ("attention", "8 GPUs, full", (8,), (10,), 15.0, "attention"),
        ("attention", "2 CPU ranks, quick", (2,), (4,), 2.0, "attention"),
        ("memory-copy", "8 GPUs, quick", (8,), (2,), 2.0, "memory bandwidth"),
        ("memory-copy", "8 GPUs, full", (8,), (8,), 6.0, "memory bandwidth"),
        ("memory-copy", "2 CPU ranks, quick", (2,), (2,), 5.0, "memory bandwidth"),
        ("launch-latency", "8 GPUs, quick", (8,), (2,), 0.5, "launch latency"),
        ("launch-latency", "8 GPUs, full", (8,), (2,), 2.0, "launch latency"),
        ("launch-latency", "2 CPU ranks, quick", (2,), (1,), 0.5, "launch latency"),
        ("host-device", "8 GPUs, quick", (8,), (5,), 3.0, "copies between host and GPU"),
        ("host-device", "8 GPUs, full", (8,), (20,), 25.0, "copies between host and GPU"),
        ("peer-copy", "8 GPUs, quick", (1,), (56,), 3.0, "copies between 8 GPUs"),
        ("peer-copy", "8 GPUs, full", (1,), (84,), 30.0, "copies between 8 GPUs"),
        ("sustained", "8 GPUs, quick", (8,), (1,), 25.0, "matrix multiply for 20 s"),
        ("sustained", "8 GPUs, full", (8,), (1,), 25.0, "matrix multiply for 20 s"),
        ("sustained", "2 CPU ranks, quick", (2,), (1,), 25.0, "matrix multiply for 20 s"),
        ("memory-test", "8 GPUs, quick", (8,), (5,), 40.0, "memory test"),
        ("memory-test", "8 GPUs, full", (8,), (5,), 40.0, "memory test"),
        ("memory-test", "2 CPU ranks, quick", (2,), (5,), 20.0, "memory test"),
        ("collectives", "8 GPUs, quick", (8,), (37,), 8.0, "collectives over 8 ranks"),
        ("collectives", "8 GPUs, full", (8,), (79,), 75.0, "collectives over 8 ranks"),
        ("collectives", "2 CPU ranks, quick", (2,), (30,), 8.0, "collectives over 2 ranks"),
        ("isolation", "8 GPUs, quick", (8, 8, 8), (2, 2, 2), 12.0, "all-reduce over the NICs alone"),
        ("isolation", "8 GPUs, full", (8, 8, 8), (2, 2, 2), 12.0, "all-reduce over the NICs alone"),
        ("pairs", "8 GPUs, quick", (8,), (56,), 30.0, "bandwidth of 28 pairs of ranks"),
        ("pairs", "8 GPUs, full", (8,), (56,), 30.0, "bandwidth of 28 pairs of ranks"),
        ("pairs", "2 CPU ranks, quick", (2,), (1,), 15.0, "bandwidth of 1 pair of ranks"),
        ("host-memory", "8 GPUs, quick", (1,), (4,), 4.0, "memory bandwidth of each NUMA node"),
        ("host-memory", "8 GPUs, full", (1,), (6,), 10.0, "memory bandwidth of each NUMA node"),
        ("host-memory", "2 CPU ranks, quick", (1,), (2,), 2.9, "memory bandwidth of each NUMA node"),
        ("cpu-gemm", "8 GPUs, quick", (1,), (12,), 5.0, "matrix multiply on the CPUs of each NUMA node"),
        ("cpu-gemm", "8 GPUs, full", (1,), (12,), 10.0, "matrix multiply on the CPUs of each NUMA node"),
        ("storage", "8 GPUs, quick", (1,), (3,), 7.0, "reading at /data/images"),
        ("storage", "8 GPUs, full", (1,), (5,), 30.0, "reading at /data/images"),
        ("storage", "2 CPU ranks, quick", (1,), (3,), 7.0, "reading at /data/images"),
        ("data-loader", "8 GPUs, quick", (8,), (7,), 15.0, "data loaders of 8 ranks"),
        ("data-loader", "8 GPUs, full", (8,), (7,), 40.0, "data loaders of 8 ranks"),
        ("data-loader", "2 CPU ranks, quick", (2,), (3,), 15.0, "data loaders of 2 ranks"),
        ("train-step", "8 GPUs, quick", (1, 8), (2, 2), 12.0, "training step on 8 ranks"),
        ("train-step", "8 GPUs, full", (1, 8), (4, 8), 36.0, "training step on 8 ranks"),
        ("train-step", "2 CPU ranks, quick", (1, 2), (2, 2), 20.0, "training step on 2 ranks"),
        ("train-step", "across hosts", (1, 2), (4, 8), 60.0, "training step on 2 ranks"),
        ("train-cnn", "8 GPUs, quick", (1, 8), (2, 2), 24.0, "training step of resnet-50 on 8 ranks"),
        ("train-cnn", "8 GPUs, full", (1, 8), (2, 2), 24.0, "training step of resnet-50 on 8 ranks"),
        ("train-cnn", "2 CPU ranks, quick", (1, 2), (1, 1), 8.0, "training step of resnet-14 on 2 ranks"),
        ("micro-batch", "8 GPUs, quick", (1,), (2,), 25.0, "micro-batches until the memory is full"),
        ("micro-batch", "8 GPUs, full", (1,), (2,), 80.0, "micro-batches until the memory is full"),
        ("micro-batch", "2 CPU ranks, quick", (1,), (2,), 25.0, "micro-batches until the memory is full"),
        ("overlap", "8 GPUs, quick", (8,), (3,), 15.0, "communication behind computation on 8 ranks"),
        ("overlap", "8 GPUs, full", (8,), (3,), 15.0, "communication behind computation on 8 ranks"),
        ("overlap", "2 CPU ranks, quick", (2,), (3,), 10.0, "communication behind computation on 2 ranks"),
        ("own-step", "8 GPUs, quick", (1, 8), (1, 1), 40.0, "your step train:step on 8 ranks"),
        ("own-step", "8 GPUs, full", (1, 8), (1, 1), 40.0, "your step train:step on 8 ranks"),
        ("own-step", "2 CPU ranks, quick", (1, 2), (1, 1), 40.0, "your step train:step on 2 ranks"),
        ("noise-scale", "8 GPUs, quick", (1,), (1,), 25.0, "gradient noise scale on 1 rank"),
        ("noise-scale", "8 GPUs, full", (1,), (1,), 50.0, "gradient noise scale on 1 rank"),
        ("noise-scale", "2 CPU ranks, quick", (1,), (1,), 25.0, "gradient noise scale on 1 rank"),
        ("network", "across hosts", (3,), (12,), 26.4, "TCP between 3 hosts"),
        ("across-nodes", "across hosts", (6,), (17,), 121.0, "3 hosts (a, b, c)"),
    ],
)
def test_the_work_of_a_benchmark(  # noqa: PLR0917 - a row of the table
    bench_id: str, where: str, ranks: tuple[int, ...], cases: tuple[int, ...], seconds: float, title: str
) -> None:
    asked = BENCHES[bench_id].requests(CONTEXTS[where])
    assert tuple(request.ranks for request in asked) == ranks
    assert tuple(len(request.cases) for request in asked) == cases
    assert sum(request.budget_s for request in asked) == pytest.approx(seconds)
    assert asked[-1].title == title


@every_request
def test_a_title_uses_the_singular_for_one(bench_id, request_):
    assert not re.search(r"\b1 (rank|GPU|pair|host)s\b", request_.title)


@pytest.mark.parametrize(
    ("bench_id", "fewest"),
    [("isolation", 2), ("peer-copy", 2), ("pairs", 2), ("overlap", 2), ("host-device", 1)],
)
def test_a_benchmark_between_gpus_starts_with_two(bench_id: str, fewest: int) -> None:
    assert [bool(BENCHES[bench_id].requests(gpu_context(gpus))) for gpus in (1, 2)] == [fewest < 2, True]


@pytest.mark.parametrize("bench_id", ["isolation", "peer-copy", "host-device"])
def test_a_benchmark_of_gpus_asks_nothing_of_cpus(bench_id: str) -> None:
    assert requests(bench_id, ranks=2) == ()


@pytest.mark.parametrize("bench_id", ["network", "across-nodes"])
def test_a_benchmark_between_hosts_starts_with_two(bench_id: str) -> None:
    asked = [
        BENCHES[bench_id].requests(cpu_context(2, hosts=tuple("abcd"[:hosts]))) for hosts in (0, 1, 2, 4)
    ]
    assert [bool(each) for each in asked] == [False, False, True, True]
    # TCP takes 2 directions x 2 numbers of streams x 1 or 3 rounds of pairs x 2.2 s. `across-nodes` takes
    # two minutes for collectives, and half a second for each of the 1 or 3 distances in the circle.
    seconds = {"network": (8.8, 26.4), "across-nodes": (120.5, 121.5)}[bench_id]
    assert [each[0].budget_s for each in asked[2:]] == pytest.approx(seconds)


def test_a_large_fleet_has_a_bounded_number_of_rounds() -> None:
    assert [len(pair_cases(hosts, "cpu")) for hosts in (2, 63, 64, 65)] == [1, 62, 63, 63]
    hosts = tuple(f"n{number}" for number in range(4))
    request = pairs_request(cpu_context(2), hosts)
    assert (request.title, request.budget_s, request.ranks) == ("4 hosts (n0, n1, n2, ...)", 1.5, 8)
    assert pairs_request(cpu_context(2), hosts[:1]).budget_s == 0.5


@pytest.mark.parametrize(("device", "pinned", "size"), [("cuda", False, 1024), ("cpu", True, 256)])
def test_ranks_on_cpus_keep_to_their_own_cores(device: str, pinned: bool, size: int) -> None:
    case = own_work(device)
    assert (case["pinned"], case["m"], case["n"], case["k"]) == (pinned, size, size, size)


def test_collectives_double_their_sizes_where_a_fit_needs_them() -> None:
    """The quick suite measures all sizes of all-reduce, and fewer sizes of the other collectives."""
    (quick,), (full,) = (requests("collectives", "cuda", 8, suite=suite) for suite in ("quick", "full"))

    def sizes(request, collective: str) -> list[int]:
        return [case["bytes"] for case in request.cases if case.get("collective") == collective]

    assert len(sizes(quick, "all_reduce")) > len(sizes(quick, "broadcast"))
    assert len(sizes(full, "all_reduce")) == len(sizes(full, "broadcast"))
    assert (sizes(quick, "all_reduce")[0], sizes(full, "broadcast")[0]) == (1024, 1024)


def test_the_products_of_a_model_are_those_of_its_layer_and_its_head() -> None:
    """512 tokens of 4 sequences; 8 + 2 x 2 heads of 32 are 384 columns for queries, keys and values."""
    (request,) = requests("gemm", "cuda", suite="quick")
    products = {(case["m"], case["n"], case["k"]) for case in request.cases if case["dtype"] == "bf16"}
    model = {(512, 384, 256), (512, 256, 256), (512, 688, 256), (512, 256, 688), (512, 4096, 256)}
    assert model < products
    assert {case["m"] for case in request.cases if case["dtype"] == "fp16"} == {2048, 4096, 8192}
    nothing = BenchSettings(model={**SHAPE, "hidden": "unknown"})
    (request,) = requests("gemm", "cuda", suite="quick", settings=nothing)
    assert all(case["m"] == case["n"] for case in request.cases)
    assert MODEL.micro_batches[-1] * SHAPE["sequence_length"] == 512


def test_attention_keeps_its_tokens_and_has_at_least_one_sequence() -> None:
    (request,) = requests("attention", "cuda", suite="full")
    tokens = {case["batch"] * case["sequence_length"] for case in request.cases}
    assert all(case["batch"] >= 1 for case in request.cases)
    assert len(tokens) == 1 or min(case["batch"] for case in request.cases) == 1


def test_a_machine_without_a_known_processor_has_one_thread() -> None:
    (request,) = requests("host-memory", facts=MachineFacts())
    assert request.threads_per_rank == 1
    assert bench_context().threads_per_rank == 1
