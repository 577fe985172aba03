"""Test the reference rates: a healthy machine does not fail, and a machine at half the speed does not pass.

The healthy figures are published measurements.
"""

from __future__ import annotations

import csv
import os
from collections import defaultdict
from pathlib import Path

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.thresholds import Cited
from probes.compare.comparing import beside_references
from probes.compare.reference_rows import BenchReferences, load_bench_references
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from probes.judging.findings import Evidence, Status
from tests.support.machines import h100_node
from tests.support.measured import collective, copies, gemm, host_copies

CATALOGUE = load_catalogue()
ROWS = load_bench_references()
SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "data" / "collectives_open.csv"
GIB = 1024
IDS = {
    "A100-SXM-80GB": "a100-sxm4-80gb",
    "H100-SXM-80GB": "h100-sxm",
    "H200-SXM-141GB": "h200-sxm",
    "B200-SXM": "b200",
    "B300-SXM": "b300",
    "GB200": "gb200",
    "L40S": "l40s",
    "RTX-PRO-6000-Blackwell": "rtx-pro-6000-server",
}
"""Catalogue ids by the names of the published measurements."""


def node_of(gpu_id: str, count: int) -> MachineFacts:
    model = CATALOGUE.gpu(gpu_id)
    assert model is not None
    node = h100_node()
    assert isinstance(node.gpus, tuple)
    name = model.driver_name or model.id
    gpus = tuple(
        msgspec.structs.replace(gpu, name=name, pci_device_id=NOT_RECORDED) for gpu in node.gpus[:count]
    )
    return msgspec.structs.replace(node, gpus=gpus)


def verdict(gpu_id: str, measurements: list[Measurement], count: int = 8) -> Status:
    evidence = Evidence(facts=node_of(gpu_id, count), catalogue=CATALOGUE, measurements=tuple(measurements))
    statuses = [row.status for row in beside_references(evidence)]
    assert len(statuses) == 1, "this measurement has no reference"
    return statuses[0]


def test_rows_name_gpus_of_the_catalogue_and_their_source() -> None:
    ids = {gpu.id for gpu in CATALOGUE.gpus}
    for field in BenchReferences.__struct_fields__:
        value = getattr(ROWS, field)
        for row in value if isinstance(value, tuple) else (value,):
            assert isinstance(row, Cited)
            assert row.source
            assert row.date[:2] == "20"
            assert set(getattr(row, "gpus", ())) <= ids


def test_no_reference_exceeds_the_datasheet() -> None:
    for row in ROWS.gemm:
        for gpu_id in row.gpus:
            model = CATALOGUE.gpu(gpu_id)
            assert model is not None
            for dtype in row.dtypes:
                peak, best = model.peak_flops_per_s[dtype], model.achievable_flops_per_s.get(dtype)
                assert 0.4 * peak < row.value < peak
                assert best is None or row.value <= best
    for memory in ROWS.memory:
        for gpu_id in memory.gpus:
            model = CATALOGUE.gpu(gpu_id)
            assert model is not None
            assert (
                0.5 * model.memory_bandwidth_bytes_per_s < memory.value < model.memory_bandwidth_bytes_per_s
            )


def test_larger_messages_are_never_expected_to_be_slower() -> None:
    curves: dict[tuple[str, int, str, str], list[tuple[int, float]]] = defaultdict(list)
    for row in ROWS.collective:
        for gpu_id in row.gpus:
            for name, rate in row.rates.items():
                curves[gpu_id, row.ranks, name, row.algorithm].append((row.bytes, rate))
    for key, points in curves.items():
        rates = [rate for _, rate in sorted(points)]
        assert rates == sorted(rates), key
        assert len({size for size, _ in points}) == len(points), key


HEALTHY = {
    "ring of A100": ("a100-sxm4-80gb", 8, collective((8 * GIB, 232.5))),
    "ring of H100": ("h100-sxm", 8, collective((16 * GIB, 367.6))),
    "H100 in the switch": ("h100-sxm", 8, collective((16 * GIB, 480.0))),
    "H200 in the switch, 1 GiB": ("h200-sxm", 8, collective((GIB, 463.6))),
    "H200, 4 GPUs": ("h200-sxm", 4, collective((8 * GIB, 363.0), ranks=4)),
    "H200, 5 GPUs": ("h200-sxm", 5, collective((8 * GIB, 414.0), ranks=5)),
    "H200, 6 GPUs, NVLS off": ("h200-sxm", 6, collective((8 * GIB, 365.0), ranks=6)),
    "all-gather of H100": ("h100-sxm", 8, collective((16 * GIB, 361.4), name="all_gather")),
    "reduce-scatter of H100": ("h100-sxm", 8, collective((16 * GIB, 362.9), name="reduce_scatter")),
    "B200 in the switch": ("b200", 8, collective((8 * GIB, 838.0))),
    "ring of B200": ("b200", 8, collective((8 * GIB, 682.2))),
    "B200, 5 GPUs": ("b200", 5, collective((8 * GIB, 677.8), ranks=5)),
    "B300 in the switch": ("b300", 8, collective((8 * GIB, 845.0))),
    "H800 in the switch": ("h800-sxm", 8, collective((8 * GIB, 215.0))),
    "H100 NVL with a bridge": ("h100-nvl", 2, collective((8 * GIB, 208.0), ranks=2)),
    "H100 PCIe with a bridge": ("h100-pcie", 2, collective((8 * GIB, 116.0), ranks=2)),
    "memory of H200": ("h200-sxm", 8, copies(3900.0)),
    "memory of A100": ("a100-sxm4-80gb", 8, copies(1581.0)),
    "memory of B200": ("b200", 8, copies(5500.0)),
    "products of H100 at 8192": ("h100-sxm", 8, gemm(650.0)),
    "products of A100": ("a100-sxm4-80gb", 8, gemm(271.2)),
    "products of B200": ("b200", 8, gemm(1510.0)),
    "host copies of H200": ("h200-sxm", 8, host_copies(55.4)),
    "host copies of H200 back": ("h200-sxm", 8, host_copies(55.1, direction="device_to_host")),
}
"""Published measurements by name: the GPU, the number of GPUs, and the measurements."""


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_machines_do_not_fail_and_half_the_speed_does_not_pass(name: str) -> None:
    gpu_id, count, measurements = HEALTHY[name]
    assert verdict(gpu_id, measurements, count) in (Status.PASS, Status.WARN)
    half = [
        msgspec.structs.replace(row, samples=tuple(value / 2 for value in row.samples))
        for row in measurements
    ]
    depends_on_host = gpu_id in ("h100-nvl", "h100-pcie")
    assert verdict(gpu_id, half, count) is (Status.WARN if depends_on_host else Status.FAIL)


WRONG_ELSEWHERE = {
    "H200 memory at 2333 MB/s, a limit that never fails": ("h200-sxm", 8, copies(2.333)),
    "B200 at 440, a limit that passes half of the speed": ("b200", 8, collective((8 * GIB, 440.0))),
    "A100-40 memory at 137500 MB/s": ("a100-sxm4-80gb", 8, copies(137.5)),
}
"""Limits of other tools that are too low: a machine that just reaches one must fail here."""


@pytest.mark.parametrize("name", WRONG_ELSEWHERE)
def test_limits_that_others_set_too_low_fail_here(name: str) -> None:
    gpu_id, count, measurements = WRONG_ELSEWHERE[name]
    assert verdict(gpu_id, measurements, count) is Status.FAIL


@pytest.mark.skipif(not SHARED.is_file(), reason="needs the published measurements of RIGTUNE_SHARED")
def test_no_published_collective_within_a_node_fails() -> None:
    judged = 0
    with SHARED.open(encoding="utf-8") as file:
        for line in csv.DictReader(file):
            if line["n_nodes"] != "1" or line["gpu"] not in IDS or not line["busbw_gbps"]:
                continue
            size, ranks = int(float(line["bytes"])), int(line["n_gpus"])
            version = {"nccl_version": line["nccl_version"]} if line["nccl_version"] else {}
            point = collective(
                (1, float(line["busbw_gbps"])), name=line["collective"], ranks=ranks, conditions={**version}
            )
            exact = [
                msgspec.structs.replace(row, parameters={**row.parameters, "bytes": size}) for row in point
            ]
            evidence = Evidence(
                facts=node_of(IDS[line["gpu"]], ranks), catalogue=CATALOGUE, measurements=tuple(exact)
            )
            for beside in beside_references(evidence):
                judged += 1
                assert beside.status is not Status.FAIL, line
    assert judged > 50
