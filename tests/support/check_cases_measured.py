"""What the checks of rigtune's own measurements say."""

from __future__ import annotations

import itertools

from probes.facts import EnvironmentVariable, Link, MachineFacts
from probes.measurements import Measurement, MeasurementSet
from tests.support.check_case import BOX, NODE, TIMEOUT, Case, nvlinks, pcie
from tests.support.machines import h100_node, with_gpus
from tests.support.measured import (
    collective,
    copies,
    earlier,
    failed,
    gemm,
    host_copies,
    measured,
    pairs,
    peer_copies,
    run_of,
    sustained,
)


def case(
    check_id: str,
    name: str,
    said: tuple[str, ...],
    run: MeasurementSet | list[Measurement],
    facts: MachineFacts = NODE,
    **more: object,
) -> Case:
    return Case(check_id, name, facts, said, measured=run if isinstance(run, MeasurementSet) else run_of(run), **more)  # type: ignore[arg-type]


def pairs_of(slow: dict[tuple[int, int], float], count: int = 4, usual: float = 370.0) -> dict[tuple[int, int], float]:
    return {ends: slow.get(ends, usual) for ends in itertools.combinations(range(count), 2)}


def variable(name: str, value: str) -> MachineFacts:
    return h100_node(environment=(EnvironmentVariable(name=name, value=value, origin="environment"),))


FOUR_GPUS = h100_node(gpus=NODE.gpus[:4])  # type: ignore[index]
UNREAD_GPUS = h100_node(gpus=TIMEOUT)
UNKNOWN_GPUS = with_gpus(NODE, name="NVIDIA X900", pci_device_id="10de:ffff")
CAPPED = with_gpus(NODE, 3, power_limit_w=400.0)
NARROW = with_gpus(NODE, 3, pcie=pcie(8))
DEAD_LINKS = with_gpus(NODE, 3, nvlinks=nvlinks(up=9))
EIGHT = (720.0,) * 8
ONE_SLOW = (720.0, 720.0, 720.0, 430.0, 720.0, 720.0, 720.0, 720.0)
ONE_LATE = (1.0e-3, 1.01e-3, 0.99e-3, 1.9e-3)
RING = collective((512, 335.0), (1024, 352.0))


def rank_work(*times_s: float, kind: str = "CPU rank ") -> list[Measurement]:
    return [
        measured("collectives", "rank_compute_s", f"{kind}{rank}", time_s, work="gemm") for rank, time_s in enumerate(times_s)
    ]


def images(rate: float, ranks: int = 8) -> Measurement:
    return measured("train-cnn", "images_per_s", f"{ranks} ranks", rate, model="resnet-50", micro_batch=64, world_size=ranks)


def reads(rate: float) -> Measurement:
    return measured("storage", "read_rate_per_s", "storage", rate, order="random", block_bytes=131072, mount_point="/data")


def loads(rate: float, workers: int = 8) -> Measurement:
    return measured("data-loader", "batch_rate_per_s", "8 ranks", rate, num_workers=workers, batch_size=32, world_size=8)


def step(flops: float, ranks: int, bench: str = "train-step") -> Measurement:
    return measured(bench, "model_flops_per_s", f"{ranks} ranks", flops, micro_batch=4, world_size=ranks)


def hosts(rates: dict[str, float]) -> list[Measurement]:
    return [measured("network", "tcp_bandwidth_bytes_per_s", subject, rate * 1e9) for subject, rate in rates.items()]


def memory_errors(*counts: int) -> list[Measurement]:
    return [
        measured("memory-test", "memory_errors", f"GPU{index}", float(errors), pattern="address")
        for index, errors in enumerate(counts)
    ]


DEVICE_CASES = (
    case("measured-gemm", "as usual", ("PASS GPU0-7",), gemm(*EIGHT)),
    case("measured-gemm", "one GPU at 60 %", ("FAIL GPU3", "PASS GPU0-2, GPU4-7"), gemm(*ONE_SLOW)),
    case("measured-gemm", "one power-capped", ("FAIL GPU3", "PASS GPU0-2, GPU4-7"), gemm(*ONE_SLOW), CAPPED),
    case("measured-gemm", "a little less", ("WARN GPU0",), gemm(600.0)),
    case("measured-gemm", "the best shape counts", ("PASS GPU0",), [*gemm(720.0), *gemm(300.0, size=4096)]),
    case("measured-gemm", "small shapes tell nothing", ("SKIP GPU0",), gemm(300.0, size=2048)),
    case("measured-gemm", "no reference for the dtype", ("SKIP GPU0",), gemm(50.0, dtype="fp32")),
    case("measured-gemm", "no reference for the GPU", ("SKIP GPU0-7",), gemm(*ONE_SLOW), UNKNOWN_GPUS),
    case("measured-gemm", "a slice of a GPU", ("SKIP GPU0",), gemm(100.0), with_gpus(NODE, 0, mig_enabled=True)),
    case("measured-gemm", "a CPU", ("SKIP CPU rank 0-1",), gemm(0.1, 0.1, kind="CPU rank "), BOX),
    case("measured-gemm", "GPUs unread", ("UNKNOWN host",), gemm(*EIGHT), UNREAD_GPUS),
    case("measured-gemm", "the worker crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("gemm")),
    case("measured-gemm", "unsupported", ("SKIP 8 ranks", "SKIP host"), failed("gemm", "unsupported")),
    case(
        "measured-attention",
        "a slow kernel never fails",
        ("WARN GPU0",),
        [
            measured(
                "attention",
                "attention_flops_per_s",
                "GPU0",
                9e13,
                dtype="bf16",
                head_dim=128,
                sequence_length=8192,
                **{"pass": "forward"},
            )
        ],
    ),
    case(
        "measured-attention",
        "as usual",
        ("PASS GPU0",),
        [
            measured(
                "attention",
                "attention_flops_per_s",
                "GPU0",
                3e14,
                dtype="bf16",
                head_dim=128,
                sequence_length=8192,
                **{"pass": "forward"},
            )
        ],
    ),
    case("measured-attention", "the worker crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("attention")),
    case("measured-memory", "as usual", ("PASS GPU0-1",), copies(2550.0, 2900.0)),
    case("measured-memory", "half of it", ("FAIL GPU0", "PASS GPU1"), copies(1270.0, 2550.0)),
    case("measured-memory", "timeout", ("UNKNOWN 8 ranks", "SKIP host"), failed("memory-copy", "timeout")),
    case("measured-host-device", "as the link", ("PASS GPU0-1",), host_copies(55.0, 54.0)),
    case("measured-host-device", "a part of it", ("FAIL GPU0", "PASS GPU1"), host_copies(12.0, 54.0)),
    case("measured-host-device", "as a narrow link", ("PASS GPU0-3", "WARN GPU3"), host_copies(55.0, 54.0, 55.0, 27.0), NARROW),
    case(
        "measured-host-device",
        "slower than a narrow link",
        ("FAIL GPU3", "PASS GPU0-2"),
        host_copies(55.0, 54.0, 55.0, 9.0),
        NARROW,
    ),
    case("measured-host-device", "far memory is slower by nature", ("SKIP GPU0",), host_copies(20.0, near=False)),
    case(
        "measured-host-device",
        "of unknown nodes the fastest is the near one",
        ("PASS GPU0",),
        [
            *copies(54.0, bench="host-device", direction="host_to_device", numa_node=0),
            *copies(12.0, bench="host-device", direction="host_to_device", numa_node=1),
        ],
    ),
    case("measured-host-device", "no interpreter", ("UNKNOWN 8 ranks", "SKIP host"), failed("host-device", "no_interpreter")),
    case(
        "measured-peer-copy", "as the links", ("PASS GPU0-GPU1-3, GPU1-GPU2-3, GPU2-GPU3",), peer_copies(pairs_of({})), FOUR_GPUS
    ),
    case(
        "measured-peer-copy",
        "one pair",
        ("FAIL GPU1-GPU2", "PASS GPU0-GPU1-3, GPU1-GPU3, GPU2-GPU3"),
        peer_copies(pairs_of({(1, 2): 40.0})),
        FOUR_GPUS,
    ),
    case(
        "measured-peer-copy",
        "one GPU",
        ("FAIL GPU3", "PASS GPU0-GPU1-2, GPU1-GPU2"),
        peer_copies(pairs_of({(0, 3): 180.0, (1, 3): 180.0, (2, 3): 180.0})),
        DEAD_LINKS,
    ),
    case("measured-peer-copy", "all of them", ("FAIL GPU0-3",), peer_copies(pairs_of({}, usual=40.0)), FOUR_GPUS),
    case("measured-peer-copy", "both ways at once", ("SKIP GPU0-GPU1",), peer_copies({(0, 1): 40.0}, "both"), FOUR_GPUS),
    case("measured-peer-copy", "GPUs unread", ("UNKNOWN host",), peer_copies(pairs_of({})), UNREAD_GPUS),
    case("measured-sustained", "the rate holds", ("PASS GPU0-1",), sustained(0.99, 0.97)),
    case(
        "measured-sustained",
        "one is hot",
        ("FAIL GPU1", "PASS GPU0"),
        sustained(0.98, 0.7, throttle_reasons="hw_thermal_slowdown"),
    ),
    case("measured-sustained", "power", ("WARN GPU0",), sustained(0.85, throttle_reasons="sw_power_cap")),
    case("measured-sustained", "nobody knows why", ("WARN GPU0",), sustained(0.85)),
    case("measured-sustained", "timeout", ("UNKNOWN 8 ranks", "SKIP host"), failed("sustained", "timeout")),
    case("measured-results", "right", ("PASS host",), memory_errors(0, 0)),
    case("measured-results", "errors in memory", ("FAIL GPU1",), memory_errors(0, 3)),
    case("measured-results", "a wrong product", ("FAIL 8 ranks",), failed("gemm", "wrong_result", message="two values differ")),
    case("measured-results", "the memory test crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("memory-test")),
    case("measured-results", "a diverging model is no fault", ("SKIP host",), failed("noise-scale", "wrong_result")),
)

LINK_CASES = (
    case("measured-collectives", "in the switch", ("PASS 8 ranks",), collective((64, 360.0), (512, 440.0), (1024, 470.0))),
    case("measured-collectives", "around a ring", ("WARN 8 ranks",), RING),
    case("measured-collectives", "NVLS is forbidden", ("WARN 8 ranks",), RING, variable("NCCL_NVLS_ENABLE", "0")),
    case(
        "measured-collectives",
        "NCCL without NVLS",
        ("PASS 8 ranks",),
        collective((1024, 360.0), conditions={"nccl_version": "2.15.5"}),
    ),
    case("measured-collectives", "half of a ring", ("FAIL 8 ranks",), collective((1024, 180.0))),
    case("measured-collectives", "slower than a ring", ("WARN 8 ranks",), collective((1024, 290.0))),
    case("measured-collectives", "the best size counts", ("PASS 8 ranks",), collective((512, 445.0), (1024, 400.0))),
    case("measured-collectives", "small messages tell nothing", ("SKIP 8 ranks",), collective((1, 30.0))),
    case("measured-collectives", "another number of GPUs", ("SKIP 3 ranks",), collective((1024, 100.0), ranks=3)),
    case("measured-collectives", "all-gather", ("FAIL 8 ranks",), collective((1024, 150.0), name="all_gather")),
    case("measured-collectives", "unknown GPUs", ("SKIP 8 ranks",), collective((1024, 100.0)), UNKNOWN_GPUS),
    case("measured-collectives", "gloo", ("SKIP 8 ranks",), collective((64, 1.0), backend="gloo"), BOX),
    case("measured-collectives", "a collapse", ("FAIL 3 ranks", "SKIP 3 ranks"), collective((32, 29.0), (512, 5.0), ranks=3)),
    case("measured-collectives", "a dip", ("WARN 3 ranks", "SKIP 3 ranks"), collective((32, 29.0), (512, 20.0), ranks=3)),
    case("measured-collectives", "out of memory", ("UNKNOWN 8 ranks", "SKIP host"), failed("collectives", "out_of_memory")),
    case("measured-collectives", "GPUs unread", ("UNKNOWN host",), collective((1024, 470.0)), UNREAD_GPUS),
    case(
        "measured-isolation",
        "all layers are well",
        ("PASS host",),
        [*collective((1024, 470.0), bench="isolation", layers="all"), *collective((1024, 39.0), bench="isolation", layers="nic")],
    ),
    case(
        "measured-isolation",
        "the NICs",
        ("FAIL NICs",),
        [*collective((1024, 470.0), bench="isolation", layers="all"), *collective((1024, 11.0), bench="isolation", layers="nic")],
    ),
    case(
        "measured-isolation",
        "NVLink",
        ("FAIL NVLink",),
        [
            *collective((1024, 180.0), bench="isolation", layers="nvlink"),
            *collective((1024, 39.0), bench="isolation", layers="nic"),
        ],
        DEAD_LINKS,
    ),
    case("measured-isolation", "no reference", ("SKIP host",), collective((1024, 30.0), bench="isolation", layers="host-memory")),
    case("measured-isolation", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("isolation")),
    case(
        "measured-pairs",
        "alike",
        ("PASS host",),
        pairs({"GPU0-GPU1": 160.0, "GPU0-GPU2": 161.0, "GPU1-GPU2": 159.0}),
    ),
    case(
        "measured-pairs",
        "one of three ranks",
        ("FAIL rank 2",),
        pairs({"rank 0-rank 1": 10.0, "rank 0-rank 2": 4.0, "rank 1-rank 2": 4.1}),
        BOX,
    ),
    case(
        "measured-pairs",
        "one pair of six",
        ("FAIL GPU1-GPU2",),
        pairs({f"GPU{a}-GPU{b}": 80.0 if (a, b) == (1, 2) else 160.0 for a, b in itertools.combinations(range(4), 2)}),
    ),
    case(
        "measured-pairs",
        "pairs without NVLink are slower by design",
        ("PASS host",),
        pairs({f"GPU{a}-GPU{b}": 160.0 if a // 2 == b // 2 else 20.0 for a, b in itertools.combinations(range(6), 2)}),
        h100_node(
            links=tuple(
                Link(
                    a=f"GPU{a}",
                    b=f"GPU{b}",
                    kind="NVLINK" if a // 2 == b // 2 else "NODE",
                    nvlink_count=12 if a // 2 == b // 2 else None,
                )
                for a, b in itertools.combinations(range(6), 2)
            )
        ),
    ),
    case("measured-pairs", "two ranks", ("SKIP host",), pairs({"rank 0-rank 1": 10.0}), BOX),
    case("measured-pairs", "timeout", ("UNKNOWN 8 ranks", "SKIP host"), failed("pairs", "timeout")),
    case(
        "measured-network",
        "one of three hosts",
        ("FAIL node-c",),
        hosts(
            {
                "node-a -> node-b": 1.2,
                "node-b -> node-a": 1.2,
                "node-a -> node-c": 0.1,
                "node-c -> node-a": 1.2,
                "node-c -> node-b": 0.1,
                "node-b -> node-c": 0.1,
            }
        ),
    ),
    case("measured-network", "alike", ("PASS host",), hosts({"a -> b": 1.2, "a -> c": 1.19, "b -> c": 1.2})),
    case("measured-network", "two hosts", ("SKIP host",), hosts({"a -> b": 1.2})),
    case("measured-network", "unreachable", ("UNKNOWN node-b", "SKIP host"), failed("network", "timeout", "node-b")),
    case(
        "measured-across-nodes",
        "as the ports",
        ("PASS 16 ranks",),
        collective((1024, 368.0), ranks=16, bench="across-nodes", nodes=2),
    ),
    case(
        "measured-across-nodes",
        "half of the ports",
        ("FAIL 16 ranks",),
        collective((1024, 180.0), ranks=16, bench="across-nodes", nodes=2),
    ),
    case(
        "measured-across-nodes",
        "no port is known",
        ("SKIP 16 ranks",),
        collective((1024, 180.0), ranks=16, bench="across-nodes", nodes=2),
        h100_node(nics=()),
    ),
    case("measured-across-nodes", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("across-nodes")),
)

EQUAL_CASES = (
    case("equal-devices", "alike", ("PASS GPU0-7",), gemm(*EIGHT)),
    case("equal-devices", "one slow GPU of an unknown kind", ("FAIL GPU3",), gemm(*ONE_SLOW), UNKNOWN_GPUS),
    case("equal-devices", "one a tenth slower", ("WARN GPU2",), gemm(700.0, 705.0, 630.0, 702.0)),
    case("equal-devices", "two that differ", ("WARN GPU0, GPU1",), gemm(700.0, 400.0), UNKNOWN_GPUS),
    case("equal-devices", "one GPU", ("SKIP host",), gemm(700.0)),
    case("equal-devices", "two ranks on one CPU", ("PASS CPU rank 0-1",), gemm(0.1, 0.08, kind="CPU rank "), BOX),
    case("equal-devices", "one of four ranks", ("WARN CPU rank 2",), gemm(0.1, 0.1, 0.05, 0.1, kind="CPU rank "), BOX),
    case("equal-devices", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("gemm")),
    case("equal-ranks", "alike", ("PASS CPU rank 0-3",), rank_work(1e-3, 1.01e-3, 0.99e-3, 1.02e-3), BOX),
    case("equal-ranks", "one late", ("WARN CPU rank 3",), rank_work(*ONE_LATE), BOX),
    case("equal-ranks", "one late of two", ("WARN CPU rank 1",), rank_work(1e-3, 1.9e-3), BOX),
    case("equal-ranks", "a GPU that is power-capped", ("WARN GPU3",), rank_work(*ONE_LATE, kind="GPU"), CAPPED),
    case("equal-ranks", "one rank", ("SKIP host",), rank_work(1e-3), BOX),
    case("equal-ranks", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("collectives")),
)

HOST_CASES = (
    case("measured-storage", "fast enough", ("PASS /data",), [reads(20_000.0), images(8_000.0)]),
    case("measured-storage", "too slow for the step", ("WARN /data",), [reads(2_000.0), images(8_000.0)]),
    case("measured-storage", "nobody knows the need", ("SKIP /data",), [reads(2_000.0)]),
    case(
        "measured-storage", "disk full", ("UNKNOWN 1 rank", "SKIP host"), failed("storage", "crashed", "1 rank", "no space left")
    ),
    case("measured-data-loader", "fast enough", ("PASS host",), [loads(40.0), loads(10.0, 1), images(8_000.0)]),
    case("measured-data-loader", "too slow", ("WARN host",), [loads(8.0), images(8_000.0)]),
    case(
        "measured-data-loader",
        "loading in the training process does not count",
        ("WARN host",),
        [loads(90.0, 0), loads(8.0), images(8_000.0)],
    ),
    case("measured-data-loader", "nobody knows the need", ("SKIP host",), [loads(8.0)]),
    case("measured-data-loader", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("data-loader")),
    case("measured-train-step", "scales", ("PASS host",), [step(4e14, 1), step(3.8e14, 8)]),
    case("measured-train-step", "does not", ("WARN 8 ranks",), [step(4e14, 1), step(2e14, 8)], DEAD_LINKS),
    case("measured-train-step", "one rank", ("SKIP host",), [step(4e14, 1)]),
    case("measured-train-step", "out of memory", ("UNKNOWN 8 ranks", "SKIP host"), failed("train-step", "out_of_memory")),
    case("measured-baseline", "as before", ("PASS host",), gemm(720.0), baselines=earlier("previous", gemm(722.0))),
    case("measured-baseline", "a tenth slower", ("WARN GPU0",), gemm(640.0), baselines=earlier("previous", gemm(720.0))),
    case("measured-baseline", "half as fast", ("FAIL GPU0",), gemm(350.0), baselines=earlier("pinned", gemm(720.0))),
    case(
        "measured-baseline",
        "half as fast on a busy host",
        ("WARN GPU0",),
        [
            measured(
                "gemm", "gemm_flops_per_s", "GPU0", 3.5e14, conditions={"host_busy": True}, dtype="bf16", m=8192, n=8192, k=8192
            )
        ],
        baselines=earlier("pinned", gemm(720.0)),
    ),
    case("measured-baseline", "faster", ("PASS host",), gemm(800.0), baselines=earlier("previous", gemm(720.0))),
    case(
        "measured-baseline",
        "a longer step",
        ("WARN 8 ranks",),
        [measured("train-step", "step_time_s", "8 ranks", 0.115)],
        baselines=earlier("previous", [measured("train-step", "step_time_s", "8 ranks", 0.1)]),
    ),
    case(
        "measured-baseline",
        "other parameters",
        ("SKIP host",),
        gemm(300.0, size=4096),
        baselines=earlier("previous", gemm(720.0)),
    ),
    case(
        "measured-baseline",
        "of both runs",
        ("FAIL GPU0", "PASS host"),
        gemm(350.0),
        baselines=(*earlier("previous", gemm(351.0)), *earlier("pinned", gemm(720.0))),
    ),
    case(
        "measured-baseline",
        "crashed now",
        ("UNKNOWN 8 ranks", "SKIP host"),
        failed("gemm"),
        baselines=earlier("previous", gemm(720.0)),
    ),
    case("measured-conditions", "quiet", ("PASS host",), gemm(720.0)),
    case(
        "measured-conditions",
        "busy",
        ("WARN host",),
        [measured("gemm", "gemm_flops_per_s", "GPU0", 7e14, conditions={"host_busy": True, "others_cpu_share": 0.4})],
    ),
    case(
        "measured-conditions",
        "hot",
        ("WARN GPU0",),
        [
            measured(
                "gemm", "gemm_flops_per_s", "GPU0", 7e14, conditions={"throttle_reasons": "hw_thermal_slowdown, sw_power_cap"}
            )
        ],
    ),
    case(
        "measured-conditions",
        "two versions",
        ("WARN host",),
        [*gemm(720.0), measured("across-nodes", "collective_time_s", "2 hosts", 1.0, conditions={"torch_version": "2.4.0"})],
    ),
    case(
        "measured-conditions",
        "nobody looked",
        ("UNKNOWN host",),
        [Measurement(bench_id="gemm", subject="GPU0", metric="m", unit="s", samples=(1.0,))],
    ),
)

MEASURED_CASES = (*DEVICE_CASES, *LINK_CASES, *EQUAL_CASES, *HOST_CASES)
