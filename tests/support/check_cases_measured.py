"""Cases of the checks of rigtune's own measurements."""

from __future__ import annotations

import itertools

from probes.facts import EnvironmentVariable, Link, MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from tests.support.check_case import BOX, NODE, TIMEOUT, Case, nvlinks, pcie
from tests.support.machines import h100_node, with_gpus
from tests.support.measured import (
    collective,
    copies,
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
    return Case(
        check_id, name, facts, said, measured=run if isinstance(run, MeasurementSet) else run_of(run), **more
    )  # type: ignore[arg-type]


def pairs_of(
    slow: dict[tuple[int, int], float], count: int = 4, usual: float = 370.0
) -> dict[tuple[int, int], float]:
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
RING = collective((512, 335.0), (1024, 352.0))


def hosts(rates: dict[str, float]) -> list[Measurement]:
    return [
        measured("network", "tcp_bandwidth_bytes_per_s", subject, rate * 1e9)
        for subject, rate in rates.items()
    ]


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
    case(
        "measured-gemm", "a slice of a GPU", ("SKIP GPU0",), gemm(100.0), with_gpus(NODE, 0, mig_enabled=True)
    ),
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
    case(
        "measured-host-device",
        "as a narrow link",
        ("PASS GPU0-3", "WARN GPU3"),
        host_copies(55.0, 54.0, 55.0, 27.0),
        NARROW,
    ),
    case(
        "measured-host-device",
        "slower than a narrow link",
        ("FAIL GPU3", "PASS GPU0-2"),
        host_copies(55.0, 54.0, 55.0, 9.0),
        NARROW,
    ),
    case(
        "measured-host-device",
        "far memory is slower by nature",
        ("SKIP GPU0",),
        host_copies(20.0, near=False),
    ),
    case(
        "measured-host-device",
        "of unknown nodes the fastest is the near one",
        ("PASS GPU0",),
        [
            *copies(54.0, bench="host-device", direction="host_to_device", numa_node=0),
            *copies(12.0, bench="host-device", direction="host_to_device", numa_node=1),
        ],
    ),
    case(
        "measured-host-device",
        "no interpreter",
        ("UNKNOWN 8 ranks", "SKIP host"),
        failed("host-device", "no_interpreter"),
    ),
    case(
        "measured-peer-copy",
        "as the links",
        ("PASS GPU0-GPU1-3, GPU1-GPU2-3, GPU2-GPU3",),
        peer_copies(pairs_of({})),
        FOUR_GPUS,
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
    case(
        "measured-peer-copy",
        "all of them",
        ("FAIL GPU0-3",),
        peer_copies(pairs_of({}, usual=40.0)),
        FOUR_GPUS,
    ),
    case(
        "measured-peer-copy",
        "both ways at once",
        ("SKIP GPU0-GPU1",),
        peer_copies({(0, 1): 40.0}, "both"),
        FOUR_GPUS,
    ),
    case("measured-peer-copy", "GPUs unread", ("UNKNOWN host",), peer_copies(pairs_of({})), UNREAD_GPUS),
    case("measured-sustained", "the rate holds", ("PASS GPU0-1",), sustained(0.99, 0.97)),
    case(
        "measured-sustained",
        "one is hot",
        ("FAIL GPU1", "PASS GPU0"),
        sustained(0.98, 0.7, throttle_reasons="hw_thermal_slowdown"),
    ),
    case("measured-sustained", "power", ("WARN GPU0",), sustained(0.85, throttle_reasons="sw_power_cap")),
    case(
        "measured-sustained",
        "power brake",
        ("WARN GPU0",),
        sustained(0.85, throttle_reasons="hw_slowdown, hw_power_brake_slowdown"),
    ),
    case("measured-sustained", "hardware", ("WARN GPU0",), sustained(0.85, throttle_reasons="hw_slowdown")),
    case("measured-sustained", "reason unknown", ("WARN GPU0",), sustained(0.85)),
    case("measured-sustained", "timeout", ("UNKNOWN 8 ranks", "SKIP host"), failed("sustained", "timeout")),
    case("measured-results", "right", ("PASS host",), memory_errors(0, 0)),
    case("measured-results", "errors in memory", ("FAIL GPU1",), memory_errors(0, 3)),
    case(
        "measured-results",
        "a wrong product",
        ("FAIL 8 ranks",),
        failed("gemm", "wrong_result", message="two values differ"),
    ),
    case(
        "measured-results", "the memory test crashed", ("UNKNOWN 8 ranks", "SKIP host"), failed("memory-test")
    ),
    case(
        "measured-results",
        "a diverging model is no fault",
        ("SKIP host",),
        failed("noise-scale", "wrong_result"),
    ),
)

LINK_CASES = (
    case(
        "measured-collectives",
        "in the switch",
        ("PASS 8 ranks",),
        collective((64, 360.0), (512, 440.0), (1024, 470.0)),
    ),
    case("measured-collectives", "around a ring", ("WARN 8 ranks",), RING),
    case(
        "measured-collectives",
        "NVLS is forbidden",
        ("WARN 8 ranks",),
        RING,
        variable("NCCL_NVLS_ENABLE", "0"),
    ),
    case(
        "measured-collectives",
        "NCCL without NVLS",
        ("PASS 8 ranks",),
        collective((1024, 360.0), conditions={"nccl_version": "2.15.5"}),
    ),
    case("measured-collectives", "half of a ring", ("FAIL 8 ranks",), collective((1024, 180.0))),
    case("measured-collectives", "slower than a ring", ("WARN 8 ranks",), collective((1024, 290.0))),
    case(
        "measured-collectives",
        "the best size counts",
        ("PASS 8 ranks",),
        collective((512, 445.0), (1024, 400.0)),
    ),
    case("measured-collectives", "small messages tell nothing", ("SKIP 8 ranks",), collective((1, 30.0))),
    case(
        "measured-collectives",
        "another number of GPUs",
        ("SKIP 3 ranks",),
        collective((1024, 100.0), ranks=3),
    ),
    case(
        "measured-collectives", "all-gather", ("FAIL 8 ranks",), collective((1024, 150.0), name="all_gather")
    ),
    case("measured-collectives", "unknown GPUs", ("SKIP 8 ranks",), collective((1024, 100.0)), UNKNOWN_GPUS),
    case("measured-collectives", "gloo", ("SKIP 8 ranks",), collective((64, 1.0), backend="gloo"), BOX),
    case(
        "measured-collectives",
        "a collapse",
        ("FAIL 3 ranks", "SKIP 3 ranks"),
        collective((32, 29.0), (512, 5.0), ranks=3),
    ),
    case(
        "measured-collectives",
        "a dip",
        ("WARN 3 ranks", "SKIP 3 ranks"),
        collective((32, 29.0), (512, 20.0), ranks=3),
    ),
    case(
        "measured-collectives",
        "out of memory",
        ("UNKNOWN 8 ranks", "SKIP host"),
        failed("collectives", "out_of_memory"),
    ),
    case("measured-collectives", "GPUs unread", ("UNKNOWN host",), collective((1024, 470.0)), UNREAD_GPUS),
    case(
        "measured-isolation",
        "all layers are well",
        ("PASS host",),
        [
            *collective((1024, 470.0), bench="isolation", layers="all"),
            *collective((1024, 39.0), bench="isolation", layers="nic"),
        ],
    ),
    case(
        "measured-isolation",
        "the NICs",
        ("FAIL NICs",),
        [
            *collective((1024, 470.0), bench="isolation", layers="all"),
            *collective((1024, 11.0), bench="isolation", layers="nic"),
        ],
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
    case(
        "measured-isolation",
        "no reference",
        ("SKIP host",),
        collective((1024, 30.0), bench="isolation", layers="host-memory"),
    ),
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
        pairs(
            {
                f"GPU{a}-GPU{b}": 80.0 if (a, b) == (1, 2) else 160.0
                for a, b in itertools.combinations(range(4), 2)
            }
        ),
    ),
    case(
        "measured-pairs",
        "pairs without NVLink are slower by design",
        ("PASS host",),
        pairs(
            {
                f"GPU{a}-GPU{b}": 160.0 if a // 2 == b // 2 else 20.0
                for a, b in itertools.combinations(range(6), 2)
            }
        ),
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
    case("measured-network", "two hosts both ways", ("SKIP host",), hosts({"a -> b": 1.2, "b -> a": 0.1})),
    case(
        "measured-network",
        "unreachable",
        ("UNKNOWN node-b", "SKIP host"),
        failed("network", "timeout", "node-b"),
    ),
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

MEASURED_CASES = (*DEVICE_CASES, *LINK_CASES)
