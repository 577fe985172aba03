"""Test the events of outputs of benchmarks and diagnostics."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.event import LogLine
from probes.logs.readers import bench_tools, gpu_diagnostics
from probes.logs.readers import fabric_manager_lines as fabric_manager
from probes.logs.readers import nccl_tests_reader as nccl_tests
from tests.support.log_cases.reading import explained
from tests.support.recordings import MACHINES, index, needs_recordings

_DOCUMENTS = (bench_tools, gpu_diagnostics)

_NCCL_TESTS = """\
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 5 iters: 20 validation: 1
#
#  Rank  0 Group  0 Pid   10 on     node-a device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   11 on     node-b device  0 [0000:1b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   20.97      0    50.00   20.97   20.97      0
node-a:10:33 [0] NCCL INFO comm 0x1 rank 0 nranks 2
     4194304       1048576     float     sum      -1    42.00   99.86   99.86      0    41.00  102.30  102.30      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 61.025
"""


def _events(reader, text):
    made = reader.Reader() if hasattr(reader, "Reader") else reader
    events = []
    for number, line in enumerate(text.split("\n"), 1):
        if any(sign in line.encode() for sign in reader.SIGNS):
            events += made.read(LogLine(source="out.txt", number=number, text=line, raw=line))
    return [*events, *(made.end() if hasattr(made, "end") else ())]


def _document(reader, text):
    data = text.encode()
    return (
        list(reader.read_document("out.txt", data))
        if any(sign in data[:65536] for sign in reader.DOCUMENT_SIGNS)
        else []
    )


def _fields(events, kind):
    return [event.fields for event in events if event.kind == kind]


def test_a_table_between_other_lines_gives_its_rows_and_a_summary():
    events = _events(nccl_tests, _NCCL_TESTS)

    (start,) = _fields(events, "nccl_tests.start")
    assert start == {"collective": "all_reduce"}
    assert [fields["host"] for fields in _fields(events, "nccl_tests.rank")] == ["node-a", "node-b"]
    rows = _fields(events, "nccl_tests.result")
    assert [(row["bytes"], row["in_place"], row["busbw_gbps"]) for row in rows] == [
        (1048576, 0, 20.97),
        (1048576, 1, 20.97),
        (4194304, 0, 99.86),
        (4194304, 1, 102.3),
    ]
    (summary,) = _fields(events, "nccl_tests.summary")
    assert (summary["ranks"], summary["nodes"], summary["collective"]) == (2, 2, "all_reduce")
    assert (summary["max_bytes"], summary["max_busbw_gbps"], summary["avg_busbw_gbps"]) == (
        4194304,
        102.3,
        61.025,
    )


def test_two_runs_in_one_text_are_two_tables():
    other = _NCCL_TESTS.replace("all_reduce_perf", "all_gather_perf")

    summaries = _fields(_events(nccl_tests, _NCCL_TESTS + other), "nccl_tests.summary")

    assert [summary["collective"] for summary in summaries] == ["all_reduce", "all_gather"]
    assert [summary["sizes"] for summary in summaries] == [2, 2]


def test_wrong_results_and_low_averages_are_reported():
    text = _NCCL_TESTS.replace(": 0 OK", ": 3 FAILED").replace("61.025", "61.025 FAILED")
    events = _events(
        nccl_tests, text + "node-a: Test NCCL failure common.cu:401 'unhandled system error / '\n"
    )

    assert _fields(events, "nccl_tests.wrong")[0]["count"] == 3
    assert _fields(events, "nccl_tests.below-minimum") == [{"average": 61.025}]
    assert "unhandled system error" in _fields(events, "nccl_tests.failure")[0]["reason"]


@needs_recordings
@pytest.mark.parametrize(
    ("path", "collective", "busbw", "average"),
    [
        ("a100-40g-8x-1node-allreduce.txt", "all_reduce", None, 68.4048),
        ("aws-p5-2node-allreduce-excerpt.txt", "all_reduce", 437.89, None),
        ("gcp-a3-mega-2node-allgather.txt", None, 188, None),
        ("h100-4x-2node-ring-after-acs-disabled.txt", "all_reduce", 95.1, None),
        ("issue-allreduce-cliff-above-32m.txt", "all_reduce", None, None),
    ],
)
def test_recorded_tables(path, collective, busbw, average):
    events = _events(
        nccl_tests, (MACHINES / "nccl_tests" / path).read_text(encoding="utf-8", errors="replace")
    )

    (summary,) = _fields(events, "nccl_tests.summary")
    assert collective is None or summary["collective"] == collective
    assert busbw is None or summary["max_busbw_gbps"] == pytest.approx(busbw, rel=0.01)
    assert average is None or summary["avg_busbw_gbps"] == pytest.approx(average)


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        (
            "[Jan 02 2026 03:04:05] [ERROR] [tid 12] detected NVSwitch fatal error 20034 on fid 0 on "
            "NVSwitch pci bus id "
            "00000000:86:00.0 "
            "physical id 3 port 33",
            "fabric_manager.switch-error",
            {"error": 20034, "fatal": 1, "bus": "0000:86:00", "port": 33},
        ),
        (
            "[Jan 02 2026 03:04:05] [ERROR] [tid 12] fabric manager NVIDIA GPU driver interface version "
            "550.1 don't match "
            "with driver "
            "version 535.1",
            "fabric_manager.mismatch",
            {},
        ),
        (
            "[Jan 02 2026 03:04:05] [ERROR] detected number of NVSwitches don't match with any supported "
            "system topology, "
            "aborting fabric "
            "manager",
            "fabric_manager.failed",
            {"aborted": 1},
        ),
        (
            "[Jan 02 2026 03:04:05] [INFO] [tid 12] Fabric Manager version 535.161.08 is running with the "
            "following "
            "configuration options",
            "fabric_manager.started",
            {"version": "535.161.08"},
        ),
    ],
)
def test_lines_of_the_fabric_manager(line, kind, fields):
    (event,) = _events(fabric_manager, line)

    assert event.kind == kind
    assert fields.items() <= event.fields.items()


def test_a_line_of_the_journal_without_its_head_reports_the_versions():
    line = (
        "nv-fabricmanager[3]: fabric manager NVIDIA GPU driver interface version 530.30 don't match with "
        "driver version 530.41"
    )

    (event,) = _events(fabric_manager, line)

    assert (event.fields["version"], event.fields["driver"]) == ("530.30", "530.41")


def test_multicast_teams_that_come_and_go_are_no_trouble():
    line = "[Jan 02 2026 03:04:05] [INFO] [tid 12] multicast team 12 setup of 8 GPUs is done"

    assert _events(fabric_manager, line) == []


_V3 = {
    "DCGM GPU Diagnostic": {
        "version": "3.3.3",
        "test_categories": [
            {
                "category": "Hardware",
                "tests": [
                    {
                        "name": "GPU Memory",
                        "results": [
                            {"gpu_ids": "0", "status": "PASS"},
                            {"gpu_ids": "1", "status": "FAIL", "warnings": "Row remap failure"},
                        ],
                    }
                ],
            }
        ],
    }
}
_V4 = {
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
                                "entity_id": 3,
                                "status": "Fail",
                                "warnings": [{"error_id": 33, "warning": "PCIe replay rate too high"}],
                            }
                        ],
                        "test_summary": {"status": "Fail"},
                    }
                ],
            }
        ]
    }
}


@pytest.mark.parametrize(
    ("report", "fields"),
    [
        (_V3, {"test": "GPU Memory", "gpu": 1, "reason": "Row remap failure"}),
        (_V4, {"test": "pcie", "gpu": 3, "error": 33, "reason": "PCIe replay rate too high"}),
    ],
)
def test_reports_of_dcgm_3_and_4(report, fields):
    events = _document(gpu_diagnostics, json.dumps(report, indent=2))

    (failure,) = _fields(events, "dcgm.failure")
    assert failure == fields


@needs_recordings
@pytest.mark.parametrize("path", [path for path, row in index().items() if row["kind"] == "dcgm"])
def test_recorded_reports_fail_where_the_index_states_it(path):
    events = _document(gpu_diagnostics, (MACHINES / path).read_text(encoding="utf-8", errors="replace"))

    assert bool(_fields(events, "dcgm.failure")) == (index()[path]["state"] == "fault")
    assert _fields(events, "dcgm.summary")


@needs_recordings
@pytest.mark.parametrize(
    ("path", "kind", "fields"),
    [
        (
            "nvlink/dcgmi-nvlink-s-a100-8x-one-down-two-disabled.txt",
            "nvlink.link-down",
            {"gpu": 5, "link": 6},
        ),
        (
            "nvlink/errors-v100-2gpu-crc-saturated.txt",
            "nvlink.errors",
            {"gpu": 2, "counter": "crc", "count": 65535},
        ),
        ("nvlink/status-a100-gpu6-all-links-inactive.txt", "nvlink.all-down", {"gpu": 6}),
        ("nvlink/status-h100-sxm-vm-590.48.01.txt", "nvlink.gpu", {"up": 18, "down": 0}),
    ],
)
def test_recorded_links(path, kind, fields):
    events = _document(gpu_diagnostics, (MACHINES / path).read_text(encoding="utf-8", errors="replace"))

    assert any(fields.items() <= values.items() for values in _fields(events, kind))


@needs_recordings
def test_healthy_links_have_no_errors_and_none_down_beside_others():
    for path, row in index().items():
        if row["kind"] == "nvlink" and row["state"] == "healthy":
            events = _document(
                gpu_diagnostics, (MACHINES / path).read_text(encoding="utf-8", errors="replace")
            )
            assert _fields(events, "nvlink.errors") == _fields(events, "nvlink.link-down") == []


_MATRIX = """\
nvbandwidth Version: v0.8
Running device_to_device_memcpy_write_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2
 0       N/A    390.10    391.20
 1    389.90       N/A    120.30
 2    390.00    390.50       N/A

SUM device_to_device_memcpy_write_ce 2072.00
"""


def test_the_slowest_pair_of_a_matrix_is_named():
    (result,) = _fields(_document(bench_tools, _MATRIX), "nvbandwidth.result")

    assert (result["slowest"], result["slowest_gbps"], result["median_gbps"]) == ("GPU1-GPU2", 120.3, 390.05)


def test_bandwidths_of_a_matrix_have_three_decimal_places():
    matrix = (
        _MATRIX.replace("390.10", "390.12345").replace("391.20", "391.23456").replace("120.30", "120.34567")
    )
    (result,) = _fields(_document(bench_tools, matrix), "nvbandwidth.result")

    names = ("slowest_gbps", "median_gbps", "fastest_gbps")
    assert [result[name] for name in names] == [120.346, 390.062, 391.235]


def test_a_line_with_the_sum_is_read_alone():
    (version, total) = _events(bench_tools, _MATRIX)

    assert version.fields == {"version": "0.8"}
    assert total.fields["test"] == "device_to_device_memcpy_write_ce"


@pytest.mark.parametrize(
    ("line", "kind", "fields"),
    [
        (" Failed status 12: wr_id 0 syndrom 0x81", "perftest.completion-error", {"status": 12}),
        (" Completion with error at client", "perftest.completion-error", {}),
        ("Failed to modify QP 5 to RTR", "perftest.qp-failed", {}),
        ("Couldn't allocate MR", "perftest.registration", {}),
        ("Couldn't connect to node-b:18515", "perftest.connect-failed", {"host": "node-b", "port": 18515}),
        (" No IB devices found", "perftest.no-device", {}),
    ],
)
def test_errors_of_perftest(line, kind, fields):
    (event,) = _events(bench_tools, line)

    assert event.kind == kind
    assert fields.items() <= event.fields.items()


@needs_recordings
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("ib_write_bw-loopback-8M.txt", {"test": "ib_write_bw", "gbit_per_s": 201.802}),
        ("ib_write_lat-hdr200-2node-all-sizes.txt", {"test": "ib_write_lat", "usec": 1.87, "bytes": 2}),
    ],
)
def test_recorded_perftest(path, fields):
    (result,) = _fields(
        _document(bench_tools, (MACHINES / "perftest" / path).read_text(encoding="utf-8")), "perftest.result"
    )

    assert fields.items() <= result.items()


@needs_recordings
@pytest.mark.parametrize(
    ("path", "tool", "kind"),
    [
        ("nvbandwidth/cuda-memory-d2d-bw.txt", "cuda-bandwidth", "bench.result"),
        ("nvbandwidth/superbench-gpu-copy-a100.txt", "cuda-bandwidth", "bench.result"),
        ("perftest/fi_rma_bw-aws-p5-efa-cuda-write.txt", "fabtests", "bench.result"),
        ("perftest/gpcnet-network-test.txt", "gpcnet", "bench.latency"),
        ("perftest/gpcnet-network-test-one-node-error.txt", "gpcnet", "bench.failure"),
    ],
)
def test_recorded_outputs_of_other_benchmarks(path, tool, kind):
    events = _document(bench_tools, (MACHINES / path).read_text(encoding="utf-8", errors="replace"))

    assert tool in {fields["tool"] for fields in _fields(events, kind)}


def test_links_without_errors_and_cards_without_links_are_reported():
    heading = "GPU 0: NVIDIA L40S (UUID: GPU-00000000-0000-0000-0000-000000000000)\n"
    counters = "\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 0\n"

    assert _fields(
        _document(gpu_diagnostics, heading + "Device does not have or support Nvlink\n"), "nvlink.none"
    )
    assert _fields(_document(gpu_diagnostics, heading + counters), "nvlink.no-errors")
    assert _fields(
        _document(gpu_diagnostics, heading + counters.replace("CRC Errors: 0", "CRC Errors: 2")),
        "nvlink.errors",
    )


_TEXTS = (_NCCL_TESTS, _MATRIX, json.dumps(_V3), json.dumps(_V4))


@given(st.sampled_from(_TEXTS), st.integers(0, 2000), st.text(max_size=50), st.integers(0, 2000))
def test_cut_and_mixed_files_never_raise(text, start, garbage, end):
    mixed = text[:start] + garbage + text[end:]
    for reader in _DOCUMENTS:
        reader.read_document("out.txt", mixed.encode("utf-8", errors="replace"))
    for reader in (nccl_tests, fabric_manager, bench_tools):
        _events(reader, mixed)


@given(st.binary(max_size=300))
def test_bytes_of_any_kind_never_raise(data):
    for reader in _DOCUMENTS:
        reader.read_document("out.bin", data)


HEADER = "".join(
    f"#  Rank  {rank} Group  0 Pid  4{rank + 1} on trn-a device  {rank} [0x1b] NVIDIA H100\n"
    for rank in range(2)
)
COLUMNS = "{time:.1f}  300.00  300.00  0"
ROWS = "".join(
    f"  {size}  {size // 4}  float  sum  -1  {columns}  {columns}\n"
    for size in (1 << power for power in range(20, 34))
    for columns in [COLUMNS.format(time=size / 3e5)]
)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("300.00  300.00  0  3.5", "300.00  30000.00  0  3.5"),
        (
            "  1048576  262144  float  sum  -1  3.5  300.00",
            "  1048576  262144  float  sum  -1  3.5  30000.00",
        ),
        ("Pid  42 on trn-a", "Pid  42 on trn-a\n#  Rank  1 Group  0 Pid  4 on trn-ab"),
    ],
)
def test_broken_rows_and_ranks_are_ignored(old: str, new: str) -> None:
    text = HEADER + ROWS + "# Avg bus bandwidth    : 300\n"
    assert old in text
    assert explained(text.replace(old, new, 1)).state == "healthy"
