"""Test the comparison of dumps of several ranks."""

from __future__ import annotations

import json

from probes.logs.deducing.parted_collectives import behind, dumps_differ
from probes.logs.logged_events import LoggedEvents
from probes.logs.readers.flight_recorder_dumps import read_document


def _events(rank, ops, *, enqueued, sizes=(8,)):
    entries = [
        {
            "process_group": ["0", "default_pg"],
            "collective_seq_id": seq,
            "profiling_name": f"nccl:{op}",
            "input_sizes": [list(sizes)],
            "state": "scheduled" if seq == len(ops) else "completed",
        }
        for seq, op in enumerate(ops, 1)
    ]
    dump = {
        "version": "2.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {"0": {"last_enqueued_collective": enqueued}},
        "entries": entries,
    }
    return read_document(f"nccl_trace_rank_{rank}", json.dumps(dump).encode())


def test_ranks_that_call_different_collectives_are_named():
    events = (
        *_events(0, ["all_reduce", "all_gather"], enqueued=2),
        *_events(1, ["all_reduce", "all_reduce"], enqueued=2),
    )

    (difference,) = dumps_differ(LoggedEvents(events))

    assert difference.fields["seq"] == 2
    assert difference.fields["why"] == "at number 2 rank 0 calls all_gather, rank 1 calls all_reduce"


def test_sizes_that_differ_are_named_where_they_must_be_equal():
    same = (*_events(0, ["all_reduce"], enqueued=1), *_events(1, ["all_reduce"], enqueued=1, sizes=(9,)))
    uneven = (*_events(0, ["all_to_all"], enqueued=1), *_events(1, ["all_to_all"], enqueued=1, sizes=(9,)))

    assert len(list(dumps_differ(LoggedEvents(same)))) == 1
    assert list(dumps_differ(LoggedEvents(uneven))) == []


def test_the_rank_that_is_behind_is_the_straggler():
    events = (*_events(0, ["all_reduce"] * 5, enqueued=5), *_events(1, ["all_reduce"] * 3, enqueued=3))

    (straggler,) = behind(LoggedEvents(events))

    assert straggler.fields == {"names": "1", "op": "all_reduce", "seq": 5}
    assert straggler.rank == 0


def test_equal_dumps_report_nobody():
    events = (*_events(0, ["all_reduce"] * 5, enqueued=5), *_events(1, ["all_reduce"] * 5, enqueued=5))

    assert list(behind(LoggedEvents(events))) == list(dumps_differ(LoggedEvents(events))) == []
