"""Outputs of tools that measure and diagnose."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.facts import ToolResult
from probes.parsers.tools import (
    cuda_bandwidth,
    dcgm_diagnostic,
    fabtests,
    gpcnet,
    nccl_tests,
    nvbandwidth,
    perftest,
)
from tests.support.mutations import mutated

NVBANDWIDTH = (
    "nvbandwidth Version: v0.7\nBuilt from Git version: v0.7\n\n"
    "Device 0: NVIDIA H100 80GB HBM3 (00000000:19:00)\n"
    "Device 1: NVIDIA H100 80GB HBM3 (00000000:3b:00)\n\nRunning host_to_device_memcpy_ce.\n"
    "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0     55.23     54.91\n\n"
    "SUM host_to_device_memcpy_ce 110.14\n\nRunning device_to_device_memcpy_read_ce.\n"
    "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n 0       N/A    392.10\n"
    " 1   "
    " 391.50       N/A\n\n"
    "Waived:\nRunning host_device_latency_sm.\nmemory latency SM CPU(row) <-> GPU(column) (ns)\n"
    "           0         1\n"
    " 0    772.58    801.00\n"
)
NVBANDWIDTH_JSON = "WARNING: log file { is locked\n" + json.dumps(
    {
        "nvbandwidth": {
            "GPU Device list": ["0: NVIDIA L40S (00000000:01:00)"],
            "testcases": [
                {
                    "name": "host_to_device_memcpy_ce",
                    "status": "Passed",
                    "bandwidth_description": "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s) ",
                    "bandwidth_matrix": [["25.5"]],
                },
                {"name": "device_to_device_memcpy_read_ce", "status": "Waived"},
                {"name": "device_to_host_memcpy_ce", "status": "Error", "reason": "CUDA_ERROR_OUT_OF_MEMORY"},
            ],
        }
    },
    indent=1,
)
BANDWIDTH_TEST = (
    "[CUDA Bandwidth Test] - Starting...\nRunning on...\n\n Device 0: Tesla T4\n Quick Mode\n\n"
    " Host to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
    "   Transfer Size (Bytes)\tBandwidth(GB/s)\n"
    "   32000000\t\t\t6.2\n\n Device to Device Bandwidth, 1 Device(s)\n PINNED Memory Transfers\n"
    "   Transfer Size (Bytes)\tBandwidth(GB/s)\n   32000000\t\t\t239.4\n\nResult = PASS\n"
)
SHMOO = (
    "bandwidthTest-H2D-Pinned, Bandwidth = 8.6 GB/s, Time = 0.00001 s, Size = 80000 bytes, NumDevsUsed = 1\n"
    "bandwidthTest-H2D-Pinned, Bandwidth = 12.4 GB/s, Time = 0.00100 s, Size = 10000000 bytes, NumDevsUsed "
    "= 1\n"
)
GPU_COPY = "cpu_to_gpu0_by_dma_under_numa0 26.1\ngpu0_to_gpu1_read_by_dma 275.8\ngpu1_to_gpu1_by_sm 682.3\n"
NCCL = (
    "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 8\n#\n"
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid 7 on node-a device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid 8 on node-b device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n#\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw "
    "  "
    "busbw  #wrong  #iters\n"
    "     8388608       2097152     float     sum      -1   363.90   23.05   23.05       0   370.90   22.62 "
    "  "
    "22.62       2      20\n"
    "# Out of bounds values : 2 FAILED\n# Avg bus bandwidth    : 22.8 FAILED\n"
    " .. node-a pid 7: Test failure common.cu:1127\n"
)
OLD_ROW = (
    "  8589934592    2147483648   float     sum    63896  134.44  235.26    N/A    63959  134.30  235.03   "
    " N/A\n"
)
PERFTEST = (
    "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx5_3\n"
    " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
    "Conflicting CPU frequency values detected: 3393.693000 != 1500.000000. CPU Frequency is not max.\n"
    " 65536      5000             391.90             390.00             0.7438\n"
)
PERFTEST_LATENCY = (
    "                    RDMA_Write Latency Test\n Dual-port       : OFF\t\tDevice         : mlx5_3\n"
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   "
    "99% percentile[usec]\n"
    " 2       1000          1.79           5.41         1.87     \t       1.88        \t0.18   \t\t2.03\n"
)
FABTESTS = (
    "$ fi_rma_bw -p efa -o write\nbytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n"
    "64k     2k      125m        0.01s  10465.67       6.26       0.16\n"
)
GPCNET = (
    "Network Tests v1.3\n  Test with 64 MPI ranks (8 nodes)\n"
    "|                            Isolated Network Tests                            |\n"
    "|                            Name |          Avg |          99% |        Units |\n"
    "|          RR Two-sided Lat (8 B) |          1.9 |          4.4 |         usec |\n"
    "|      RR Two-sided BW (131072 B) |       2048.0 |       1024.0 |   MiB/s/rank |\n"
)
DCGM = (
    "Successfully ran diagnostic for group.\n"
    "| Diagnostic                | Result                                         |\n"
    "|-----  Metadata  ----------+------------------------------------------------|\n"
    "| Driver Version Detected   | 535.104.12                                     |\n"
    "| GPU Device IDs Detected   | 20b2,20b2                                      |\n"
    "|-----  Deployment  --------+------------------------------------------------|\n"
    "| Denylist                  | Pass                                           |\n"
    "| GPU Memory                | Pass - GPUs: 1                                 |\n"
    "|                           | Fail - GPU: 0                                  |\n"
    "| Warning                   | GPU 0 Thermal violations totaling 13.3 second  |\n"
    "|                           | s started at 9.7 seconds into the test         |\n"
    "| Pulse Test                | Skip - All                                     |\n"
)
DCGM_3 = json.dumps(
    {
        "DCGM GPU Diagnostic": {
            "Driver Version Detected": "535.104.12",
            "test_categories": [
                {
                    "category": "Hardware",
                    "tests": [
                        {
                            "name": "GPU Memory",
                            "results": [
                                {"gpu_ids": "0,1", "status": "PASS"},
                                {"gpu_ids": "2", "status": "Fail", "warnings": "bad"},
                            ],
                        }
                    ],
                }
            ],
        }
    }
)
DCGM_4 = json.dumps(
    {
        "DCGM Diagnostic": {
            "test_categories": [
                {
                    "category": "Integration",
                    "tests": [
                        {
                            "name": "pcie",
                            "results": [
                                {
                                    "entity_group": "GPU",
                                    "entity_id": 4,
                                    "status": "Fail",
                                    "warnings": [{"error_id": 21, "warning": "slow"}],
                                }
                            ],
                        },
                        {"name": "software", "test_summary": {"status": "Weird"}},
                    ],
                }
            ]
        }
    }
)
RETYPED = (
    "memory              Fail    cuMemGetInfo failed\n"
    "pcie                Fail    All CUDA calls fail\n                            Xid 79\n"
)

TEXTS = (
    NVBANDWIDTH,
    NVBANDWIDTH_JSON,
    BANDWIDTH_TEST,
    SHMOO,
    GPU_COPY,
    NCCL,
    OLD_ROW,
    PERFTEST,
    PERFTEST_LATENCY,
    FABTESTS,
    GPCNET,
)
DIAGNOSES = (DCGM, DCGM_3, DCGM_4, RETYPED)


def rates(results: tuple[ToolResult, ...]) -> list[tuple[str, str, float]]:
    return [(r.test, r.subject, r.value) for r in results if isinstance(r.value, float)]


def test_matrices_of_nvbandwidth() -> None:
    results = nvbandwidth.parse_results(NVBANDWIDTH)
    assert rates(results) == [
        ("host_to_device_memcpy_ce", "GPU0", pytest.approx(55.23e9)),
        ("host_to_device_memcpy_ce", "GPU1", pytest.approx(54.91e9)),
        ("device_to_device_memcpy_read_ce", "GPU0-GPU1", pytest.approx(392.1e9)),
        ("device_to_device_memcpy_read_ce", "GPU1-GPU0", pytest.approx(391.5e9)),
        ("host_device_latency_sm", "GPU0", pytest.approx(772.58e-9)),
        ("host_device_latency_sm", "GPU1", pytest.approx(801e-9)),
    ]
    assert results[-1].metric == "latency"
    assert [(gpu.index, gpu.pci_bus_id) for gpu in nvbandwidth.parse_gpus(NVBANDWIDTH)] == [
        (0, "0000:19:00.0"),
        (1, "0000:3b:00.0"),
    ]


def test_json_of_nvbandwidth_among_warnings_with_braces() -> None:
    results = nvbandwidth.parse_results(NVBANDWIDTH_JSON)
    assert rates(results) == [("host_to_device_memcpy_ce", "GPU0", pytest.approx(25.5e9))]
    assert [result.message for result in results if result.message] == [
        "CUDA_ERROR_OUT_OF_MEMORY",
        "WARNING: log file { is locked",
    ]
    assert [gpu.name for gpu in nvbandwidth.parse_gpus(NVBANDWIDTH_JSON)] == ["NVIDIA L40S"]
    assert nvbandwidth.parse_unread(NVBANDWIDTH_JSON[:-3]) != ()


def test_tables_and_lines_of_bandwidth_test() -> None:
    results = cuda_bandwidth.parse_results(BANDWIDTH_TEST)
    assert rates(results) == [
        ("H2D-Pinned", "GPU0", pytest.approx(6.2e9)),
        ("D2D", "GPU0", pytest.approx(239.4e9)),
    ]
    (best,) = cuda_bandwidth.parse_results(SHMOO)
    assert (best.value, best.size_bytes) == (pytest.approx(12.4e9), 10_000_000)
    assert cuda_bandwidth.parse_results(BANDWIDTH_TEST.replace("PASS", "FAIL"))[-1].message == "Result = FAIL"
    assert [gpu.name for gpu in cuda_bandwidth.parse_gpus(BANDWIDTH_TEST)] == ["Tesla T4"]


def test_copies_of_superbench() -> None:
    assert rates(cuda_bandwidth.parse_results(GPU_COPY)) == [
        ("cpu_to_gpu_by_dma", "GPU0", pytest.approx(26.1e9)),
        ("gpu_to_gpu_read_by_dma", "GPU0-GPU1", pytest.approx(275.8e9)),
        ("gpu_to_itself_by_sm", "GPU1", pytest.approx(682.3e9)),
    ]


def test_a_table_of_nccl_tests_and_its_verdicts() -> None:
    results = nccl_tests.parse_results(NCCL)
    out, into, bounds, average, failure = results
    assert (out.test, out.value, out.size_bytes, out.wrong_values) == (
        "all_reduce",
        pytest.approx(23.05e9),
        8388608,
        0,
    )
    assert (out.ranks, out.nodes) == (2, 2)
    assert (into.test, into.wrong_values) == ("all_reduce in place", 2)
    assert (bounds.wrong_values, bounds.message) == (2, "Out of bounds values: 2 FAILED")
    assert average.value == pytest.approx(22.8e9)
    assert "minimum" in average.message
    assert "Test failure" in failure.message
    assert [(gpu.index, gpu.name) for gpu in nccl_tests.parse_gpus(NCCL)] == [(0, "NVIDIA H100 80GB HBM3")]


def test_the_rates_of_a_row_imply_collective_and_ranks() -> None:
    out, _ = nccl_tests.parse_results("[1,0]<stdout>:" + OLD_ROW)
    assert (out.test, out.ranks, out.wrong_values) == ("all_reduce", 8, None)


@pytest.mark.parametrize(
    ("columns", "algorithm", "bus", "test"),
    [
        ("none      -1", "200.00", "187.50", "all_gather or alltoall"),
        (" sum      -1", "200.00", "187.50", "reduce_scatter"),
        (" sum       0", "200.00", "200.00", "reduce"),
        ("none       0", "200.00", "200.00", "broadcast"),
        ("none      -1", "200.00", "200.00", "sendrecv"),
        (" sum      -1", "  0.20", "  0.37", "collective"),
        # The rates may deviate by 0.4 % because they are rounded, so this factor may be 1.
        (" sum      -1", "250.00", "251.00", "all_reduce or sendrecv"),
        (" sum      -1", "250.00", "251.05", "all_reduce"),
    ],
)
def test_names_by_columns(columns: str, algorithm: str, bus: str, test: str) -> None:
    row = (
        f"  1048576   16384     float    {columns}    996.7 {algorithm} {bus}      0   1007.1    1.04    "
        f"0.98      0\n"
    )
    assert nccl_tests.parse_results(row)[0].test == test


HEADER = (
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw  "
    " busbw  #wrong\n"
)
RANK = "#  Rank  0 Group  0 Pid 7 on node-a device  0 [0000:19:00] NVIDIA H100 80GB HBM3\n"


def row_of(size: int, columns: str, bus: str) -> str:
    rates = f"996.7 200.00 {bus}      0   1007.1    1.04    0.98      0"
    return f"  {size}   16384     float    {columns}    {rates}\n"


@pytest.mark.parametrize(
    ("between", "names"),
    [
        ("", ["broadcast", "broadcast"]),
        ("# Ranks of both runs wait for each other\n", ["broadcast", "broadcast"]),
        (HEADER, ["reduce_scatter", "broadcast"]),
        (RANK, ["reduce_scatter", "broadcast"]),
        ("# Collective test starting: all_gather_perf\n", ["reduce_scatter", "all_gather"]),
        ("# Collective test concluded: all_gather_perf\n", ["broadcast", "broadcast"]),
    ],
    ids=["nothing", "a comment", "a head", "a rank", "a start", "an end"],
)
def test_the_rows_of_two_runs_name_their_own_collective(between: str, names: list[str]) -> None:
    """The row of the largest size names the collective of its whole run."""
    text = row_of(1048576, " sum      -1", "175.00") + between + row_of(2097152, "none       0", "200.00")
    assert [result.test for result in nccl_tests.parse_results(text)][::2] == names


def test_bandwidth_and_latency_of_perftest() -> None:
    (bandwidth,) = perftest.parse_results(PERFTEST)
    assert (bandwidth.test, bandwidth.subject, bandwidth.value) == (
        "ib_write_bw",
        "mlx5_3",
        pytest.approx(48.75e9),
    )
    (latency,) = perftest.parse_results(PERFTEST_LATENCY)
    assert (latency.test, latency.value, latency.unit) == ("ib_write_lat", pytest.approx(1.87e-6), "s")
    assert perftest.parse_results(PERFTEST + "Couldn't allocate MR\n")[-1].message == "Couldn't allocate MR"


def test_messages_are_cut_after_300_characters() -> None:
    error = f"{'x' * 110} Couldn't connect {'y' * 190}"
    (result,) = perftest.parse_results(PERFTEST + error)[-1:]
    assert len(error) > 300
    assert result.message == error[:300]


def test_mebibytes_of_perftest() -> None:
    (result,) = perftest.parse_results(PERFTEST.replace("Gb/sec", "MB/sec"))
    assert result.value == pytest.approx(390 * 2**20)


def test_rows_of_fabtests() -> None:
    first = fabtests.parse_results(FABTESTS)[0]
    assert (first.test, first.size_bytes, first.value) == ("fi_rma_bw", 65536, pytest.approx(10465.67e6))


def test_tables_and_refusal_of_gpcnet() -> None:
    latency, bandwidth = gpcnet.parse_results(GPCNET)
    assert (latency.test, latency.value) == (
        "Isolated Network Tests: RR Two-sided Lat (8 B)",
        pytest.approx(1.9e-6),
    )
    assert (bandwidth.value, bandwidth.ranks, bandwidth.nodes) == (pytest.approx(2**31), 64, 8)
    refusal = "ERROR: this application must be run on at least 2 nodes\n"
    assert gpcnet.recognise(refusal)
    assert gpcnet.parse_results(refusal)[0].message == refusal.strip()


def test_the_table_of_dcgm() -> None:
    diagnoses = [(d.test, d.subject, d.result, d.message) for d in dcgm_diagnostic.parse_diagnoses(DCGM)]
    message = "GPU 0 Thermal violations totaling 13.3 seconds started at 9.7 seconds into the test"
    assert diagnoses == [
        ("Denylist", "host", "PASS", ""),
        ("GPU Memory", "GPU1", "PASS", ""),
        ("GPU Memory", "GPU0", "FAIL", message),
        ("Pulse Test", "host", "SKIP", ""),
    ]
    gpus = dcgm_diagnostic.parse_gpus(DCGM)
    assert [(gpu.index, gpu.pci_device_id, gpu.driver_version) for gpu in gpus] == [
        (0, "10de:20b2", "535.104.12"),
        (1, "10de:20b2", "535.104.12"),
    ]
    (line,) = dcgm_diagnostic.parse_unread(DCGM.replace("Skip - All", "Hm"))
    assert line.line == 12


def test_json_of_both_versions_of_dcgm() -> None:
    assert [(d.subject, d.result) for d in dcgm_diagnostic.parse_diagnoses(DCGM_3)] == [
        ("GPU0", "PASS"),
        ("GPU1", "PASS"),
        ("GPU2", "FAIL"),
    ]
    first, second = dcgm_diagnostic.parse_diagnoses(DCGM_4)
    assert (first.subject, first.result, first.message, first.error_code) == ("GPU4", "FAIL", "slow", 21)
    assert (second.test, second.result) == ("software", "UNKNOWN")


def test_a_list_of_failed_tests() -> None:
    diagnoses = [(d.test, d.result, d.message) for d in dcgm_diagnostic.parse_diagnoses(RETYPED)]
    assert diagnoses == [
        ("memory", "FAIL", "cuMemGetInfo failed"),
        ("pcie", "FAIL", "All CUDA calls fail; Xid 79"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Successfully ran diagnostic for group.\n",
        '{"DCGM Diagnostic": {"test_categories": []}}',
        '{"DCGM Diagnostic": 5}',
    ],
)
def test_a_report_without_tests_is_unknown(text: str) -> None:
    assert dcgm_diagnostic.recognise(text)
    assert [d.result for d in dcgm_diagnostic.parse_diagnoses(text)] == ["UNKNOWN"]


MODULES = (nvbandwidth, cuda_bandwidth, nccl_tests, perftest, fabtests, gpcnet, dcgm_diagnostic)


@pytest.mark.parametrize("text", [*TEXTS, *DIAGNOSES])
def test_each_text_is_of_one_kind(text: str) -> None:
    assert len([module for module in MODULES if module.recognise(text)]) == 1


def read(text: str) -> None:
    """Apply every parser to a text; check that numbers are finite, and that PASS needs "pass" in the text."""
    for module in MODULES:
        module.recognise(text)
    for module in (nvbandwidth, cuda_bandwidth, nccl_tests, perftest, fabtests, gpcnet):
        for result in module.parse_results(text):  # type: ignore[attr-defined]
            assert isinstance(result.value, Unknown) or abs(result.value) < float("inf")
    for parse in (
        nvbandwidth.parse_gpus,
        cuda_bandwidth.parse_gpus,
        nccl_tests.parse_gpus,
        dcgm_diagnostic.parse_gpus,
    ):
        for gpu in parse(text):
            assert isinstance(gpu.name, Unknown) or gpu.name in text
    nvbandwidth.parse_unread(text)
    dcgm_diagnostic.parse_unread(text)
    for diagnosis in dcgm_diagnostic.parse_diagnoses(text):
        assert diagnosis.result != "PASS" or "pass" in text.lower()


@given(st.sampled_from((*TEXTS, *DIAGNOSES)), st.integers(0, 2**32))
def test_damaged_texts_raise_nothing_and_pass_nothing(text: str, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - it only has to repeat
    read(mutated(generator, text.encode()).decode("utf-8", "replace"))


@given(st.text())
def test_any_text_raises_nothing(text: str) -> None:
    read(text)
