"""Old and shortened outputs of nccl-tests, nvbandwidth and perftest."""

from __future__ import annotations

import pytest

from probes.base.record import known
from probes.parsers.tools import nccl_tests, nvbandwidth, perftest

DEVIATIONS = (
    " Using devices\n   Rank  0 Pid 77 on n1 device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
    "       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
    "error\n"
    "     1048576        262144   float     sum    91.00   11.52   20.16  5e-07    91.00   11.52   20.16  "
    "1e+00\n"
    " Out of bounds values : 0 OK\n Avg bus bandwidth    : 20.16\n"
)
COUNTS = (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw  "
    " busbw #wrong\n"
    "     1048576        262144     float     sum      -1    91.00   11.52   11.52      0    91.00   11.52  "
    " 11.52  2e+06\n"
)
FAILED = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#  Rank  0 Group  0 Pid 5 on n1 device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
    "n1: Test NCCL failure common.cu:95 'system error'\n"
)
MATRIX = (
    "Device 0: NVIDIA L40S\nmemcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n           0         1\n"
    " 0     25.10     25.20\n"
    "memcpy SM GPU(row) <- GPU(column) bandwidth (GB/s)\n           0         1\n 0       N/A     20.00\n"
)


def test_largest_deviations_are_not_read_as_counts_of_wrong_values() -> None:
    out, into, verdict, _ = nccl_tests.parse_results(DEVIATIONS)
    assert (out.wrong_values, into.wrong_values, verdict.wrong_values) == (None, None, 0)
    assert [(gpu.index, gpu.name) for gpu in nccl_tests.parse_gpus(DEVIATIONS)] == [
        (0, "NVIDIA A100-SXM4-40GB")
    ]


def test_a_large_count() -> None:
    out, into = nccl_tests.parse_results(COUNTS)
    assert (out.wrong_values, into.wrong_values) == (0, 2_000_000)
    assert out.test == "all_reduce or sendrecv"


def test_a_run_that_failed_before_its_table() -> None:
    assert nccl_tests.recognise(FAILED)
    (failure,) = nccl_tests.parse_results(FAILED)
    assert "system error" in failure.message


def test_matrices_without_the_name_of_their_test() -> None:
    assert nvbandwidth.recognise(MATRIX)
    results = [(result.test, result.subject, result.value) for result in nvbandwidth.parse_results(MATRIX)]
    assert results == [
        ("host_to_device_memcpy_ce", "GPU0", pytest.approx(25.1e9)),
        ("host_to_device_memcpy_ce", "GPU1", pytest.approx(25.2e9)),
        ("device_to_device_memcpy_read_sm", "GPU0-GPU1", pytest.approx(20e9)),
    ]
    (gpu,) = nvbandwidth.parse_gpus(MATRIX)
    assert gpu.name == "NVIDIA L40S"
    assert not known(gpu.pci_bus_id)


def test_the_first_form_of_nvbandwidth() -> None:
    text = (
        "Running benchmark device_to_host_memcpy_ce.\n"
        "memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)\n          0\n0     12.10\n"
    )
    assert nvbandwidth.recognise(text)
    assert [(result.test, result.subject) for result in nvbandwidth.parse_results(text)] == [
        ("device_to_host_memcpy_ce", "GPU0")
    ]


def test_a_gpu_buffer_that_could_not_be_registered() -> None:
    text = "initializing CUDA\ncuMemAlloc() of a 131072 bytes GPU buffer\nCouldn't allocate MR\n"
    assert perftest.recognise(text)
    assert [result.message for result in perftest.parse_results(text)] == ["Couldn't allocate MR"]


@pytest.mark.parametrize(
    "text",
    [
        "Completion with error at client\n  Failed status 4: wr_id 0 syndrom 0x51\nscnt=828, ccnt=700\n",
        "$ ./ib_write_lat --use_cuda=0\nPerftest supports CUDA latency tests with read/send verbs only\n",
        "CUDA DMA-BUF cannot be used without CUDA\n Parser function exited with Error\n",
    ],
)
def test_an_error_of_perftest_without_its_output(text: str) -> None:
    assert perftest.recognise(text)
    assert {result.metric for result in perftest.parse_results(text)} == {"status"}
