"""Cases of the checks of rigtune's own measurements: equal devices, the host, and earlier runs."""

from __future__ import annotations

from probes.facts.measurements import Measurement
from tests.support.check_case import BOX
from tests.support.check_cases_measured import CAPPED, DEAD_LINKS, EIGHT, ONE_SLOW, UNKNOWN_GPUS, case
from tests.support.measured import earlier, failed, gemm, measured, scattered

ONE_LATE = (1.0e-3, 1.01e-3, 0.99e-3, 1.9e-3)


def rank_work(*times_s: float, kind: str = "CPU rank ") -> list[Measurement]:
    return [
        measured("collectives", "rank_compute_s", f"{kind}{rank}", time_s, work="gemm")
        for rank, time_s in enumerate(times_s)
    ]


def images(rate: float, ranks: int = 8) -> Measurement:
    return measured(
        "train-cnn",
        "images_per_s",
        f"{ranks} ranks",
        rate,
        model="resnet-50",
        micro_batch=64,
        world_size=ranks,
    )


def reads(rate: float) -> Measurement:
    return measured(
        "storage", "read_rate_per_s", "storage", rate, order="random", block_bytes=131072, data_path="/data"
    )


def loads(rate: float, workers: int = 8) -> Measurement:
    return measured(
        "data-loader", "batch_rate_per_s", "8 ranks", rate, num_workers=workers, batch_size=32, world_size=8
    )


def step(flops: float, ranks: int, bench: str = "train-step") -> Measurement:
    return measured(bench, "model_flops_per_s", f"{ranks} ranks", flops, micro_batch=4, world_size=ranks)


EQUAL_CASES = (
    case("equal-devices", "alike", ("PASS GPU0-7",), gemm(*EIGHT)),
    case("equal-devices", "one slow GPU of an unknown kind", ("FAIL GPU3",), gemm(*ONE_SLOW), UNKNOWN_GPUS),
    case("equal-devices", "one a tenth slower", ("WARN GPU2",), gemm(700.0, 705.0, 630.0, 702.0)),
    case("equal-devices", "two that differ", ("WARN GPU0, GPU1",), gemm(700.0, 400.0), UNKNOWN_GPUS),
    case("equal-devices", "one GPU", ("SKIP host",), gemm(700.0)),
    case(
        "equal-devices",
        "two ranks on one CPU",
        ("PASS CPU rank 0-1",),
        gemm(0.1, 0.08, kind="CPU rank "),
        BOX,
    ),
    case(
        "equal-devices",
        "one of four ranks",
        ("WARN CPU rank 2",),
        gemm(0.1, 0.1, 0.05, 0.1, kind="CPU rank "),
        BOX,
    ),
    case("equal-devices", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("gemm")),
    case("equal-ranks", "alike", ("PASS CPU rank 0-3",), rank_work(1e-3, 1.01e-3, 0.99e-3, 1.02e-3), BOX),
    case("equal-ranks", "one late", ("WARN CPU rank 3",), rank_work(*ONE_LATE), BOX),
    case("equal-ranks", "one late of two", ("WARN CPU rank 1",), rank_work(1e-3, 1.9e-3), BOX),
    case(
        "equal-ranks", "a GPU that is power-capped", ("WARN GPU3",), rank_work(*ONE_LATE, kind="GPU"), CAPPED
    ),
    case("equal-ranks", "one rank", ("SKIP host",), rank_work(1e-3), BOX),
    case("equal-ranks", "crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("collectives")),
)

HOST_CASES = (
    case("measured-storage", "fast enough", ("PASS /data",), [reads(20_000.0), images(8_000.0)]),
    case("measured-storage", "too slow for the step", ("WARN /data",), [reads(2_000.0), images(8_000.0)]),
    case("measured-storage", "nobody knows the need", ("SKIP /data",), [reads(2_000.0)]),
    case(
        "measured-storage",
        "disk full",
        ("UNKNOWN 1 rank", "SKIP host"),
        failed("storage", "crashed", "1 rank", "no space left"),
    ),
    case(
        "measured-data-loader", "fast enough", ("PASS host",), [loads(40.0), loads(10.0, 1), images(8_000.0)]
    ),
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
    case(
        "measured-train-step",
        "out of memory",
        ("UNKNOWN 8 ranks", "SKIP host"),
        failed("train-step", "out_of_memory"),
    ),
    case(
        "measured-baseline",
        "as before",
        ("PASS host",),
        gemm(720.0),
        baselines=earlier("previous", gemm(722.0)),
    ),
    case(
        "measured-baseline",
        "a tenth slower",
        ("WARN GPU0",),
        gemm(640.0),
        baselines=earlier("previous", gemm(720.0)),
    ),
    case(
        "measured-baseline",
        "two GPUs a tenth slower",
        ("WARN GPU0-1",),
        gemm(640.0, 650.0),
        baselines=earlier("previous", gemm(720.0, 720.0)),
    ),
    case(
        "measured-baseline",
        "half as fast, and scatters too much to judge",
        ("UNKNOWN GPU0",),
        [scattered(entry) for entry in gemm(350.0)],
        baselines=earlier("previous", gemm(720.0)),
    ),
    case(
        "measured-baseline",
        "half as fast",
        ("FAIL GPU0",),
        gemm(350.0),
        baselines=earlier("pinned", gemm(720.0)),
    ),
    case(
        "measured-baseline",
        "half as fast on a busy host",
        ("WARN GPU0",),
        [
            measured(
                "gemm",
                "gemm_flops_per_s",
                "GPU0",
                3.5e14,
                conditions={"host_busy": True},
                dtype="bf16",
                m=8192,
                n=8192,
                k=8192,
            )
        ],
        baselines=earlier("pinned", gemm(720.0)),
    ),
    case(
        "measured-baseline", "faster", ("PASS host",), gemm(800.0), baselines=earlier("previous", gemm(720.0))
    ),
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
        baselines=(
            *earlier("previous", gemm(351.0)),
            *earlier("pinned", gemm(720.0), started="2026-11-01T08:00:00Z"),
        ),
    ),
    case(
        "measured-baseline",
        "the last run is the pinned one",
        ("FAIL GPU0",),
        gemm(350.0),
        baselines=(*earlier("previous", gemm(720.0)), *earlier("pinned", gemm(720.0))),
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
        [
            measured(
                "gemm",
                "gemm_flops_per_s",
                "GPU0",
                7e14,
                conditions={"host_busy": True, "others_cpu_share": 0.4},
            )
        ],
    ),
    case(
        "measured-conditions",
        "hot",
        ("WARN GPU0",),
        [
            measured(
                "gemm",
                "gemm_flops_per_s",
                "GPU0",
                7e14,
                conditions={"throttle_reasons": "hw_thermal_slowdown, sw_power_cap"},
            )
        ],
    ),
    case(
        "measured-conditions",
        "two versions",
        ("WARN host",),
        [
            *gemm(720.0),
            measured(
                "across-nodes", "collective_time_s", "2 hosts", 1.0, conditions={"torch_version": "2.4.0"}
            ),
        ],
    ),
    case(
        "measured-conditions",
        "nobody looked",
        ("UNKNOWN host",),
        [Measurement(bench_id="gemm", subject="GPU0", metric="m", unit="s", samples=(1.0,))],
    ),
)

MEASURED_HOST_CASES = (*EQUAL_CASES, *HOST_CASES)
