"""Test the limits in the evaluation of benchmarks with values close to both sides of each."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from probes.bench import attention, data_loader, noise_scale
from probes.bench.group_testing import MOST_HOSTS, SLOW_BELOW, Search, SearchResult
from probes.bench.latency_bandwidth import fit
from probes.bench.memory_copy import requests as memory_requests
from probes.bench.pair_evidence import Evidence, GroupRun, scores_of, upper
from probes.bench.resnet import RESNET_50, SMALL, forward_flops, parameter_count
from probes.bench.sustained import sustained_fraction
from probes.bench.train_cnn import requests as cnn_requests
from probes.facts import MachineFacts, NumaNode
from probes.facts.measurements import BUSY_SHARE
from tests.support.bench_answers import bench_context, lines_of, requests, sample, the_one
from tests.support.machines import h100, h100_node

GIB = 2**30


@pytest.mark.parametrize(("rate", "is_bad"), [(0.74, True), (0.76, False)])
def test_a_host_is_slow_below_three_quarters(rate: float, is_bad: bool) -> None:
    runs, result = searched(8, rate)
    assert result.bad_hosts == (("n5",) if is_bad else ())
    assert runs == [8] * (4 if is_bad else 1)  # a host is named after four slow runs
    assert (SLOW_BELOW, BUSY_SHARE, MOST_HOSTS) == (0.75, 0.1, 128)


def test_a_suspect_is_measured_again_beside_seven_partners() -> None:
    runs, result = searched(40, 0.1)
    assert (runs, result.bad_hosts) == ([40, 8, 8, 8], ("n5",))


@pytest.mark.parametrize(("as_slow", "is_named"), [(3, True), (4, False), (5, False)])
def test_a_host_is_named_if_chance_names_fewer_than_six_in_1000(as_slow: int, is_named: bool) -> None:
    """One of 8 hosts is slow in all 4 runs; the 7 other hosts were slow a = `as_slow` times of 28.

    The chance is 8 ((a + 1) / 30)^4.
    """
    hosts = tuple("abcdefgh")
    scores = [dict.fromkeys(hosts, 1.0) | {"h": 0.5} for _ in range(4)]
    for number in range(as_slow):
        scores[number % 4]["abcdefg"[number]] = 0.4
    runs = [GroupRun(hosts, {("f", "g"): 1.0}, each) for each in scores]
    assert Evidence(hosts, runs, 0.75).is_named("h") is is_named


def test_the_figure_of_a_host_is_the_upper_quartile_of_its_pairs() -> None:
    assert [upper(range(1, size + 1)) for size in (1, 2, 3, 4, 5, 9)] == [1, 2, 3, 4, 4, 7]


def test_a_dead_host_fails_with_two_partners_and_a_dead_fleet_ends_after_four_rounds() -> None:
    sizes, result = searched(8, 1.0, dead=("n5",))
    assert (sizes, result.silent_hosts) == ([8, 4, 4, 2, 2, 2, 2, 2, 8 - 1], ("n5",))
    _, none = searched(16, 1.0, dead=tuple(f"n{number}" for number in range(16)))
    assert (none.rounds, none.silent_hosts) == (4, ())


@pytest.mark.parametrize(
    ("hosts", "times", "slow_once", "is_named"),
    [("abcde", 4, 0, True), ("abcde", 4, 3, True), ("abcde", 4, 4, False), ("abcd", 5, 4, True)],
)
def test_a_link_is_named_if_chance_names_fewer_than_six_in_1000(
    hosts: str, times: int, slow_once: int, is_named: bool
) -> None:
    """The chance is p ((n + 1) / (p + 2))^k: k slow runs of the link, n slow ones of p other measurements.

    For p = 36 and k = 4 this is 0.0044 for n = 3 and 0.011 for n = 4; for p = 25, k = 5 and n = 4, 0.0054.
    """
    others = [("a", "c"), ("b", "d"), ("b", "c"), ("a", "d")][:slow_once]
    runs = []
    for number in range(times):
        slow = {("a", "b"), *others[number : number + 1]}
        pairs = {pair: 0.5 if pair in slow else 1.0 for pair in itertools.combinations(hosts, 2)}
        runs.append(GroupRun(tuple(hosts), pairs, scores_of(pairs)))
    evidence = Evidence(tuple(hosts), runs, 0.75)
    assert evidence.suspected_links == (("a", "b"),)
    assert evidence.is_link_named(("a", "b")) is is_named


def searched(hosts: int, rate: float, dead: tuple[str, ...] = ()) -> tuple[list[int], SearchResult]:
    """Return the sizes of all groups of a search in which host n5 has this rate, and its result."""
    search = Search([f"n{number}" for number in range(hosts)])
    sizes = []
    while groups := search.next_groups():
        for group in groups:
            sizes.append(len(group))
            pairs = () if set(dead) & set(group) else itertools.combinations(group, 2)
            search.record(group, {pair: rate if "n5" in pair else 1.0 for pair in pairs})
    assert search.result is not None
    return sizes, search.result


@pytest.mark.parametrize(("noise", "lines"), [(0.03, 1), (0.06, 2)])
def test_two_lines_are_tried_above_a_residual_of_three_percent(noise: float, lines: int) -> None:
    """The six smallest sizes take longer than a line predicts by the share `noise`, all larger sizes less."""
    curve = []
    for power in range(12):
        size = 1024.0 * 4**power
        factor = 1 + noise if power < 6 else 1 - noise
        curve.append((size, (1e-5 + size / 1e9) * factor))
    model = fit(curve)
    assert model is not None
    assert len(model.lines) == lines


@pytest.mark.parametrize(("noise", "lines"), [(0.04, 2), (0.06, 1)])
def test_two_lines_must_halve_the_residual(noise: float, lines: int) -> None:
    """The second line reduces the residual to 0.38 of itself with 4 % noise, and to 0.64 with 6 %."""
    curve = []
    for power in range(12):
        size, slope = 1024.0 * 4**power, 1.0 if power < 6 else 1.3
        curve.append((size, (1e-5 + size / 1e9 * slope) * (1 + noise * (-1) ** (power + 1))))
    model = fit(curve)
    assert model is not None
    assert len(model.lines) == lines


@pytest.mark.parametrize(("points", "has_model"), [(2, False), (3, True)])
def test_a_line_needs_three_sizes(points: int, has_model: bool) -> None:
    assert (fit([(2.0**number, 1.0 + number) for number in range(points)]) is not None) is has_model


def test_the_first_and_the_last_quarter_decide_how_much_of_a_rate_remains() -> None:
    assert sustained_fraction((100.0, 100.0, 1.0, 1.0, 1.0, 1.0, 50.0, 50.0)) == pytest.approx(0.5)
    assert sustained_fraction((100.0, 1.0, 1.0, 50.0)) == pytest.approx(0.5)
    assert sustained_fraction((100.0, 100.0, 50.0)) is None


@pytest.mark.parametrize(("rate", "fewest"), [(0.94, 8), (0.96, 4)])
def test_fewer_workers_are_enough_within_five_percent(rate: float, fewest: int) -> None:
    (request,) = requests("data-loader", ranks=1)
    cases = [{"num_workers": workers, "batch_size": 32} for workers in (1, 4, 8)]
    speeds = (0.5, rate, 1.0)
    request = msgspec.structs.replace(request, cases=tuple(cases))
    samples = [sample(case, (1 / speed,)) for case, speed in zip(cases, speeds, strict=True)]
    assert the_one(
        data_loader.interpret(request, {0: lines_of(request, *samples)}), "recommended_workers"
    ).samples == (fewest,)


def test_operations_of_attention_follow_the_published_formula() -> None:
    """4 B H S^2 D, halved by the causal mask; the backward pass has two and a half times as many."""
    case = {"batch": 2, "heads": 3, "sequence_length": 5, "head_dim": 7, "pass": "forward"}
    assert attention.flops(case) == 4 * 2 * 3 * 5**2 * 7 / 2
    assert attention.flops({**case, "pass": "backward"}) == 2.5 * attention.flops(case)


def test_residual_networks_have_their_published_size() -> None:
    """Compare with torchvision: 25,557,032 parameters, and 4.09 G multiply-adds at 224 pixels."""
    assert parameter_count(RESNET_50) == 25_557_032
    assert forward_flops(RESNET_50, 224) / 2 == pytest.approx(4.09e9, rel=0.005)
    assert (SMALL.depths, SMALL.width, SMALL.classes) == ((1, 1, 1, 1), 32, 100)


@pytest.mark.parametrize(("memory", "batches"), [(29 * GIB, 1), (31 * GIB, 2)])
def test_the_large_batch_of_images_needs_thirty_gib(memory: int, batches: int) -> None:
    gpus = tuple(msgspec.structs.replace(h100(index), memory_bytes=memory) for index in range(2))
    context = bench_context("cuda", 2, facts=h100_node(gpus=gpus))
    context = msgspec.structs.replace(context, model=msgspec.structs.replace(context.model, precision="bf16"))
    assert len(cnn_requests(context)[0].cases) == batches


@pytest.mark.parametrize(("memory", "fits"), [(10 * 512 * 2**20 - 1, False), (10 * 512 * 2**20, True)])
def test_five_arrays_must_fit_into_half_of_the_memory(memory: int, fits: bool) -> None:
    gpus = tuple(msgspec.structs.replace(h100(index), memory_bytes=memory) for index in range(2))
    assert bool(memory_requests(bench_context("cuda", 2, facts=h100_node(gpus=gpus)))) is fits


def test_the_noise_scale_is_that_of_the_later_half_of_the_steps() -> None:
    (request,) = requests("noise-scale")
    (case,) = request.cases
    small, large = (9.0, 9.0, 3.0, 3.0), (9.0, 9.0, 1.25, 1.25)
    answer = sample(
        case,
        series={"small_squared_norm": small, "large_squared_norm": large},
        small_batch=1.0,
        large_batch=8.0,
    )
    # (8 x 1.25 - 3) / 7 = 1 and (3 - 1.25) / (1 - 1/8) = 2 in the later half.
    result = noise_scale.interpret(request, {0: lines_of(request, answer)})
    assert the_one(result, "noise_scale_sequences").samples == (pytest.approx(2.0),)


def test_the_interval_of_the_noise_scale_covers_ninety_percent() -> None:
    signal, noise = [1.0] * 400, [float(number % 2) * 2 for number in range(400)]
    scale = noise_scale.noise_scale(signal, noise)
    # The mean of 400 values with deviation 1 has the deviation 1/20; 1.645 of these on each side are 90 %.
    assert scale.low == pytest.approx(1 - 1.645 / 20, abs=0.015)
    assert scale.high == pytest.approx(1 + 1.645 / 20, abs=0.015)


@pytest.mark.parametrize(("suite", "most_s"), [("quick", 4.0), ("full", 15.0)])
def test_many_numa_nodes_do_not_extend_the_memory_benchmark(suite: str, most_s: float) -> None:
    nodes = tuple(NumaNode(index=index, cpus=f"{4 * index}-{4 * index + 3}") for index in range(8))
    (request,) = requests("host-memory", suite=suite, facts=MachineFacts(numa_nodes=nodes))
    assert request.budget_s == most_s


def test_attention_defaults_to_the_heads_of_gpt2_medium() -> None:
    """GPT-2 medium has 16 heads of 64 channels (Radford 2019, table 2)."""
    model = msgspec.structs.replace(bench_context().model, shape={"sequence_length": 128})
    (request,) = attention.requests(msgspec.structs.replace(bench_context(), model=model))
    assert {(case["heads"], case["head_dim"]) for case in request.cases} == {(16, 64)}


def test_kernels_of_attention_have_the_names_of_torch() -> None:
    """Compare with `torch.nn.attention.SDPBackend`: MATH 0, FLASH 1, EFFICIENT 2, CUDNN 3, OVERRIDEABLE 4."""
    (request,) = requests("attention")
    names = ["math", "flash", "efficient", "cudnn", "overrideable", "unknown"]
    for number, name in enumerate(names):
        lines = {0: lines_of(request, sample(request.cases[0], kernel=float(number)))}
        assert attention.interpret(request, lines)[0].parameters["kernel"] == name
