"""Figures that measurements give, and the machine on which they were taken."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from probes.base.record import Reason, Unknown
from probes.facts import MachineFacts
from probes.facts.measurements import MeasuredMachine, Measurement
from recipes.machine import measured_rates as rates
from recipes.machine.measured_on import (
    has_gpu,
    machine_of_run,
    machine_words,
    measured_machine,
    require_same_machine,
)
from tests.support.machines import cpu_box, h100_node
from tests.support.measured import collective, copies, gemm, host_copies, measured, run_of

THREADS = {"threads": 4}


def value(figure: object) -> float | None:
    return None if figure is None else figure.value  # type: ignore[attr-defined]


@pytest.mark.parametrize(("threads", "rate"), [(None, 3e12), (4, 3e12), (8, 6e12), (2, 1.5e12), (0, 3e12)])
def test_a_rank_with_more_threads_has_a_higher_rate(threads: int | None, rate: float) -> None:
    product = measured("gemm", "gemm_flops_per_s", "CPU", 3e12, conditions=THREADS, dtype="fp32")
    copy = measured("memory-copy", "memory_bandwidth_bytes_per_s", "CPU", 3e12, conditions=THREADS)
    assert rates.measured_flops((product,), threads)["fp32"].value == rate
    assert value(rates.measured_memory_bandwidth((copy,), threads)) == rate
    silent = measured("gemm", "gemm_flops_per_s", "CPU", 3e12, dtype="fp32")
    assert rates.measured_flops((silent,), 8)["fp32"].value == 3e12


def test_the_best_shape_of_the_slowest_device_counts() -> None:
    products = (*gemm(500, 300), *gemm(400, 350, size=2048), *gemm(0.0, 5.0, dtype="fp8"))
    flops = rates.measured_flops(products)
    assert {dtype: figure.value for dtype, figure in flops.items()} == {"bf16": 350e12}
    assert rates.measured_flops(()) == {}


def test_only_copies_within_the_memory_of_a_device_count() -> None:
    case = (*copies(2000, 1800), *copies(2100, 1900, bytes=1), *copies(1.0, direction="host_to_device"))
    assert value(rates.measured_memory_bandwidth((*case, *copies(5.0, operation="triad")))) == 1.9e12
    assert rates.measured_memory_bandwidth(()) is None
    assert rates.measured_memory_bandwidth(tuple(copies(0.0))) is None
    slow = measured("memory-copy", "memory_bandwidth_bytes_per_s", "GPU0", 0.5)
    assert value(rates.measured_memory_bandwidth((slow,))) == 0.5


def test_the_slower_direction_of_page_locked_copies_counts() -> None:
    case = (
        *host_copies(50, 40),
        *host_copies(55, 30, bytes=1),
        *host_copies(45, 41, direction="device_to_host"),
        *host_copies(5, pinned=False),
        *host_copies(4, direction="device_to_device"),
    )
    assert value(rates.measured_host_bandwidth(case)) == 40e9
    assert rates.measured_host_bandwidth(()) is None
    assert value(rates.measured_host_bandwidth(tuple(host_copies(0.5e-9)))) == 0.5


def timed(size: int, seconds: float, ranks: int = 8, **more: object) -> Measurement:
    case = {"collective": "all_reduce", "bytes": size, "world_size": ranks, **more}
    return measured("collectives", "collective_time_s", f"{ranks} ranks", seconds, **case)  # type: ignore[arg-type]


@pytest.mark.parametrize(("ranks", "hop_s"), [(1, None), (2, 7e-6), (8, 1e-6)])
def test_a_hop_takes_its_part_of_the_smallest_all_reduce(ranks: int, hop_s: float | None) -> None:
    """A ring of N ranks has 2 (N - 1) hops."""
    times = (timed(2048, 20e-6, ranks), timed(1024, 14e-6, ranks), timed(0, 1e-6, ranks))
    latency_s = value(rates.measured_hop(times, ranks))
    assert latency_s == (None if hop_s is None else pytest.approx(hop_s))


@pytest.mark.parametrize(
    "more",
    [
        {"collective": "all_gather"},
        {"world_size": 4},
        {"layers": "one"},
        {"bytes": 0},
        {"bytes": float("nan")},
    ],
)
def test_other_collectives_are_no_all_reduce_of_these_ranks(more: dict[str, object]) -> None:
    assert rates.measured_hop((timed(1024, 14e-6, **{"bytes": 1024, **more}),), 8) is None


def test_the_ring_has_its_best_bandwidth() -> None:
    case = (*collective((1, 5.0), (64, 300.0), (256, 280.0)), *collective((64, 400.0), name="all_gather"))
    assert value(rates.measured_ring(case, 8)) == 300e9
    assert rates.measured_ring(case, 4) is None


def test_the_last_overlap_of_these_ranks_counts() -> None:
    def overlap(share: float, ranks: int) -> Measurement:
        return measured("overlap", "overlap_fraction", f"{ranks} ranks", share, world_size=ranks)

    case = (overlap(0.2, 8), overlap(0.6, 8), overlap(0.9, 4))
    assert value(rates.measured_overlap(case, 8)) == 0.6
    assert rates.measured_overlap(case, 2) is None


def step(median: float = 2.0, bench: str = "train-step", **case: object) -> Measurement:
    sizes = {"micro_batch": 1, "sequence_length": 1, "image_size": 1, "world_size": 1, **case}
    return measured(bench, "step_time_s", "1 rank", median, conditions=THREADS, **sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("made", "counts"),
    [
        (step(), True),
        (step(bench="micro-batch"), True),
        (step(bench="other"), False),
        (step(0.0), False),
        (step(micro_batch=0), False),
        (step(sequence_length=0), False),
        (step(world_size=0), False),
        (step(micro_batch=True), True),
    ],
)
def test_a_step_anchors_the_model_if_all_its_sizes_are_known(made: Measurement, counts: bool) -> None:
    assert len(rates.step_anchors((made,))) == counts


def test_an_anchor_has_the_settings_and_the_spread_of_its_step() -> None:
    (anchor,) = rates.step_anchors((step(10.0, grad_accum=0, activation_checkpointing="full"),))
    assert (anchor.grad_accum, anchor.activation_checkpointing, anchor.threads) == (1, "full", 4)
    # The samples are 9.9, 9.95, 10, 10, 10.05 and 10.1 s.
    assert (anchor.low_s, anchor.step_time_s, anchor.high_s) == pytest.approx((9.925, 10.0, 10.075))
    (anchor,) = rates.step_anchors((step(10.0, grad_accum=4, activation_checkpointing="other"),))
    assert (anchor.grad_accum, anchor.activation_checkpointing) == (4, "none")
    (image,) = rates.image_anchors((step(bench="train-cnn", micro_batch=3, image_size=224, world_size=2),))
    assert (image.micro_batch, image.image_size, image.world_size, image.threads) == (3, 224, 2, 4)


def test_figures_of_the_data_come_from_their_last_run() -> None:
    def one(metric: str, median: float, **case: object) -> Measurement:
        bench = "storage" if "_bytes" in metric or "read" in metric else "data-loader"
        return measured(bench, metric, "host", median, **case)  # type: ignore[arg-type]

    reads = tuple(
        one("read_rate_per_s", rate, block_bytes=size, data_path="/data")
        for rate, size in ((5e3, 4096), (4e3, 131072), (3e3, 65536), (0.0, 131072))
    )
    reads_by_size = {size: value(rates.measured_reads((each,))) for each in reads for size in [each.median]}
    assert [rate for rate in reads_by_size.values() if rate is not None] == [
        value(rates.measured_reads(reads))
    ]
    writes = (one("write_bandwidth_bytes_per_s", 2e9, data_path="/data"),)
    assert value(rates.measured_writes(writes)) == 2e9
    assert rates.measured_writes((one("write_bandwidth_bytes_per_s", 0.0),)) is None
    workers = (
        one("recommended_workers", 4.0, world_size=2),
        one("recommended_workers", 6.0, world_size=2, data_path="/mine"),
        one("recommended_workers", 9.0, world_size=1),
    )
    assert value(rates.measured_workers(workers, 2)) == 6.0
    assert rates.measured_workers(workers, 2).source == "benchmark data-loader, /mine"
    assert rates.measured_workers(workers[:1], 2).source == "benchmark data-loader, a made-up data set"
    assert rates.measured_workers(workers, 8) is None
    scale = one("noise_scale_sequences", 300.0)
    assert rates.measured_noise_scale((scale,)) is None
    own = one("noise_scale_sequences", 200.0, step="mine.py")
    assert value(rates.measured_noise_scale((own, scale))) == 200.0


@pytest.mark.parametrize(
    ("conditions", "words"),
    [
        ({"host_busy": False}, ""),
        ({"host_busy": True, "others_cpu_share": 0.254}, "others used up to 25 % of the CPUs during gemm: "),
        ({"host_busy": True, "others_cpu_share": 0.0}, "others used the machine during gemm: "),
    ],
)
def test_benchmarks_that_others_disturbed_are_named(conditions: dict[str, object], words: str) -> None:
    made = measured("gemm", "gemm_flops_per_s", "GPU0", 1.0, conditions=conditions)  # type: ignore[arg-type]
    disturbances = rates.disturbances((made,))
    assert len(disturbances) == bool(words)
    assert "".join(disturbances).startswith(words)


NODE = h100_node()
UNKNOWN = Unknown(Reason.PERMISSION, "no access")
H100 = "NVIDIA H100 80GB HBM3"
HERE = measured_machine(NODE)
BOX = MeasuredMachine(hostname="box", cpu="AMD EPYC 9654", cores=96)


def on(machine: MeasuredMachine | None, facts: MachineFacts = NODE) -> str:
    taken = msgspec.structs.replace(run_of(gemm(700)), taken_on=machine)
    return require_same_machine(taken, facts, "bench.json")


def test_a_machine_is_described_by_its_devices() -> None:
    assert (HERE.hostname, HERE.gpus) == ("node17", (H100,) * 8)
    blank = measured_machine(msgspec.structs.replace(NODE, hostname=UNKNOWN))
    assert (blank.hostname, blank.gpus) == ("", HERE.gpus)
    assert machine_words(HERE) == f"node17 (8 x {H100})"
    assert machine_words(BOX) == "box (CPU, 96 cores of AMD EPYC 9654)"
    assert machine_words(MeasuredMachine()) == "unnamed machine (CPU, unknown model)"
    assert machine_words(MeasuredMachine(gpus=("",)), "a.tar") == "a.tar (1 x unknown GPU)"
    assert machine_words(MeasuredMachine(gpus=(H100,), counted=False), "a") == f"a ({H100})"


@pytest.mark.parametrize(
    ("machine", "facts", "words"),
    [
        (HERE, NODE, ""),
        (msgspec.structs.replace(HERE, hostname=""), NODE, ""),
        (msgspec.structs.replace(HERE, hostname="node18"), NODE, "of the same kind as node17"),
        (msgspec.structs.replace(HERE, gpus=("",) * 8), NODE, ""),
        (msgspec.structs.replace(HERE, gpus=(H100,) * 4, counted=False), NODE, ""),
        (None, NODE, "does not state which machine was measured"),
        (MeasuredMachine(hostname="x"), NODE, "does not state which machine was measured"),
    ],
)
def test_rates_of_a_like_machine_are_used(
    machine: MeasuredMachine | None, facts: MachineFacts, words: str
) -> None:
    remark = on(machine, facts)
    assert words in remark
    assert bool(remark) == bool(words)


@pytest.mark.parametrize(
    "machine",
    [
        msgspec.structs.replace(HERE, gpus=(H100,) * 4),
        msgspec.structs.replace(HERE, gpus=("NVIDIA A100-SXM4-80GB",) * 8),
        msgspec.structs.replace(HERE, gpus=(H100,) * 7 + ("NVIDIA A100-SXM4-80GB",)),
        msgspec.structs.replace(HERE, gpus=("NVIDIA A100-SXM4-80GB",), counted=False),
        msgspec.structs.replace(HERE, gpus=("",) * 4),
        BOX,
    ],
)
def test_rates_of_another_machine_are_refused(machine: MeasuredMachine) -> None:
    with pytest.raises(UsageError, match=r"bench\.json was measured on .*, not on node17"):
        on(machine)


@pytest.mark.parametrize(
    ("changes", "is_like"),
    [
        ({}, True),
        ({"cores": None}, True),
        ({"cpu": ""}, True),
        ({"cores": 1}, False),
        ({"cpu": "Other CPU"}, False),
        ({"gpus": (H100,)}, False),
    ],
)
def test_processors_are_compared_by_what_both_state(changes: dict[str, object], is_like: bool) -> None:
    box = cpu_box()
    mine = msgspec.structs.replace(measured_machine(box), hostname="", **changes)
    if not (mine.cpu or mine.gpus):
        mine = msgspec.structs.replace(mine, cpu=measured_machine(box).cpu + " ")
    if is_like:
        assert on(mine, box) == ""
    else:
        with pytest.raises(UsageError, match="was measured on"):
            on(mine, box)


def test_files_of_older_versions_name_the_device_in_their_measurements() -> None:
    gpu = {"device_memory_bytes": 8e10, "device_name": H100}
    old = run_of(
        measured("gemm", "gemm_flops_per_s", "GPU0", 1.0, conditions=gpu),
        measured("cpu-gemm", "gemm_flops_per_s", "CPU", 1.0, conditions={"device_name": "EPYC"}),
    )
    assert machine_of_run(old) == MeasuredMachine(hostname="", gpus=(H100,), counted=False)
    named = msgspec.structs.replace(old, machine="node-17-20261120")
    assert machine_of_run(named).hostname == "node-17"
    host = {**gpu, "hostname": "n1"}
    assert machine_of_run(run_of(measured("gemm", "x", "GPU0", 1.0, conditions=host))).hostname == "n1"
    cpu = run_of(measured("gemm", "x", "CPU", 1.0, conditions={"device_name": "EPYC"}))
    assert (machine_of_run(cpu).cpu, machine_of_run(cpu).gpus) == ("EPYC", ())
    other = run_of(measured("cpu-gemm", "x", "CPU", 1.0, conditions={"device_name": "EPYC"}))
    assert machine_of_run(other) is None


@pytest.mark.parametrize(
    ("name", "has"), [("H100", True), ("h100-sxm", True), ("A100-SXM4-80GB", False), ("Unheard-of 1", False)]
)
def test_a_gpu_is_found_under_any_spelling(name: str, has: bool) -> None:
    assert has_gpu(HERE, name) is has
    assert has_gpu(MeasuredMachine(gpus=("Unheard-Of  1",)), "unheard-of 1")
