"""Test that the complete, correct lines of an answer file are read, whatever else a killed worker left."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from probes.bench.bench_requests import DoneLine, FailureLine, SampleLine, StartLine, parse_worker_lines

START = {
    "event": "start",
    "rank": 0,
    "world_size": 2,
    "uuid": "",
    "conditions": {"threads": 4, "device_name": "x"},
}
SAMPLE = {
    "event": "sample",
    "case": {"dtype": "bf16", "m": 8, "n": 8, "k": 8},
    "durations_s": [0.5, 0.25],
    "figures": {},
}
DONE = {"event": "done"}


def file_of(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_a_complete_answer_comes_out_typed_and_in_order():
    lines = parse_worker_lines(file_of(START, SAMPLE, DONE))
    assert lines == (
        StartLine(rank=0, world_size=2, conditions={"threads": 4, "device_name": "x"}),
        SampleLine(case={"dtype": "bf16", "m": 8, "n": 8, "k": 8}, durations_s=(0.5, 0.25)),
        DoneLine(),
    )


def test_a_line_that_is_still_being_written_does_not_count():
    data = file_of(START, SAMPLE, DONE)
    assert parse_worker_lines(data[:-1]) == parse_worker_lines(file_of(START, SAMPLE))


def test_lines_that_are_no_answer_are_left_out():
    data = (
        b"NCCL INFO hello\n"
        + file_of(START)
        + b'{"event": "sample"}\n{"event": "party"}\n[1]\n\xff\xfe\n'
        + b"[" * 100_000
        + b"\n"
        + file_of(DONE)
    )
    assert [type(line) for line in parse_worker_lines(data)] == [StartLine, DoneLine]


def test_a_failure_names_its_case():
    line = {"event": "failure", "kind": "out_of_memory", "message": "no room", "case": {"bytes": 4}}
    assert parse_worker_lines(file_of(line)) == (
        FailureLine(kind="out_of_memory", message="no room", case={"bytes": 4}),
    )


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(data):
    assert isinstance(parse_worker_lines(data), tuple)


@given(cut=st.integers(min_value=0, max_value=400))
def test_a_truncated_file_is_a_prefix_of_the_whole(cut):
    data = file_of(START, SAMPLE, SAMPLE, DONE)
    whole, part = parse_worker_lines(data), parse_worker_lines(data[:cut])
    assert part == whole[: len(part)]
