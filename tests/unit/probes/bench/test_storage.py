"""Test the requests to storage, and the rates computed from requests per second and their bytes."""

from __future__ import annotations

import pytest

from probes.bench.bench_requests import BenchSettings, DoneLine, FailureLine, StartLine
from probes.bench.storage import interpret, requests
from probes.facts.measurements import BenchFailure
from tests.support.bench_answers import bench_context, sample, the_one

SEEN = {"file_system": "xfs", "storage_device": "/dev/nvme0n1", "mount_point": "/data", "load_average": 9.0}


def asked(suite="quick", **settings):
    (request,) = requests(bench_context(suite=suite, settings=BenchSettings(**settings)))
    return request


def answered(request, *samples, conditions=SEEN):
    return {
        0: (
            StartLine(rank=0, world_size=1, conditions={"load_average": 1.0}),
            *samples,
            DoneLine(conditions=conditions),
        )
    }


def case(request, **wanted):
    return next(
        case for case in request.cases if all(case.get(name) == value for name, value in wanted.items())
    )


@pytest.mark.parametrize(
    ("data_path", "where"), [("", "/home/me"), ("sets/a", "/home/me/sets/a"), ("/data", "/data")]
)
def test_a_relative_path_is_that_of_the_folder_that_rigtune_was_started_in(data_path, where):
    assert asked(folder="/home/me", data_path=data_path).settings["data_path"] == where


def test_storage_needs_no_torch_and_the_quick_suite_measures_reads_only():
    assert not asked().needs_torch
    assert {c["operation"] for c in asked().cases} == {"read"}
    assert {c["operation"] for c in asked("full", data_path="/data").cases} == {"read", "write", "read_files"}


def test_bandwidth_is_bytes_and_rate_is_requests():
    request = asked()
    lines = answered(
        request, sample(case(request, order="random"), (0.5, 0.25), bytes_per_call=100.0, direct=1.0)
    )
    measured = interpret(request, lines)
    assert the_one(measured, "read_bandwidth_bytes_per_s").samples == (200, 400)
    rate = the_one(measured, "read_rate_per_s")
    assert (rate.samples, rate.subject) == ((2, 4), "storage")
    assert (rate.parameters["direct"], rate.conditions["mount_point"]) == (True, "/data")
    assert rate.conditions["file_system"] == "xfs"
    assert rate.conditions["load_average"] == 1.0


def test_sequential_reading_gives_only_a_bandwidth_and_writing_has_its_own():
    request = asked("full")
    reading, writing = case(request, order="sequential", operation="read"), case(request, operation="write")
    lines = answered(request, *(sample(case_read, bytes_per_call=100.0) for case_read in (reading, writing)))
    metrics = [m.metric for m in interpret(request, lines)]
    assert metrics == ["read_bandwidth_bytes_per_s", "write_bandwidth_bytes_per_s"]


def test_reads_that_are_not_direct_are_marked():
    request = asked()
    lines = answered(request, sample(request.cases[0], bytes_per_call=100.0, direct=0.0), conditions={})
    (measured,) = interpret(request, lines)
    assert measured.parameters["direct"] is False


def test_the_workers_own_words_are_the_failure():
    request = asked()
    failure = FailureLine(kind="unsupported", message="/data has 3 MiB free")
    result = interpret(request, {0: (StartLine(rank=0, world_size=1), failure)})
    assert isinstance(result, BenchFailure)
    assert result.message == "/data has 3 MiB free"
