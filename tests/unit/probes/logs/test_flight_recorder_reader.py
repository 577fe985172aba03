"""Test dumps of the flight recorder, and pickles that would run something."""

from __future__ import annotations

import collections
import json
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.readers.flight_recorder_dumps import DOCUMENT_SIGNS, read_document
from probes.logs.readers.safe_pickle import NotPlainError, loads


def _dump(state="started", op="nccl:all_reduce"):
    frames = [
        {"name": "all_reduce", "filename": "/venv/torch/distributed/distributed_c10d.py", "line": 1},
        {"name": "step", "filename": "/job/train.py", "line": 42},
    ]
    entry = {
        "frames": frames,
        "record_id": 1,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": 7,
        "p2p_seq_id": 0,
        "op_id": 7,
        "profiling_name": op,
        "time_created_ns": 1712345678901234567,
        "duration_ms": 1.5,
        "input_sizes": [[4, 8]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4, 8]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "retired": False,
        "timeout_ms": 600000,
        "is_p2p": False,
    }
    done = {**entry, "collective_seq_id": 6, "state": "completed", "retired": True}
    return {
        "version": "2.9",
        "nccl_version": "2.27.5",
        "entries": [done, entry],
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": 7,
                "last_started_collective": 7,
                "last_completed_collective": 6,
            },
        },
    }


def _check(events, rank):
    kinds = {event.kind: event for event in events}
    assert {event.rank for event in events} == {rank}
    stuck = kinds["torch.flight-recorder-stuck"].fields
    assert (stuck["seq"], stuck["op"], stuck["state"], stuck["group"]) == (7, "all_reduce", "started", "0")
    assert (stuck["sizes"], stuck["timeout_ms"], stuck["place"]) == (
        "[[4, 8]]",
        600000,
        "/job/train.py:42 step",
    )
    group = kinds["torch.flight-recorder-group"].fields
    assert (group["enqueued"], group["started"], group["completed"], group["members"]) == (7, 7, 6, "[0, 1]")
    assert kinds["torch.flight-recorder"].fields == {"entries": 2, "groups": 1, "version": "2.9"}


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_a_pickled_dump_reports_what_hangs_and_where(protocol):
    data = pickle.dumps(_dump(), protocol=protocol)

    assert any(sign in data[:65536] for sign in DOCUMENT_SIGNS)
    _check(read_document("/tmp/nccl_trace_rank_3", data), rank=3)  # noqa: S108 - a name, no file


def test_a_dump_as_json_states_the_same():
    _check(read_document("dump_12.json", json.dumps(_dump()).encode()), rank=12)


def test_a_rank_that_is_done_hangs_nowhere():
    events = read_document("rank_0", pickle.dumps(_dump(state="completed")))

    assert "torch.flight-recorder-stuck" not in {event.kind for event in events}


class _Runs:
    def __reduce__(self):
        return (os.system, ("touch /tmp/flight-recorder-ran",))


_HOSTILE = [
    pickle.dumps({"entries": [_Runs()], "pg_config": {}}, protocol=2),
    pickle.dumps({"entries": [_Runs()], "pg_config": {}}, protocol=4),
    pickle.dumps({"entries": [collections.OrderedDict(a=1)], "pg_config": {}}),
    pickle.dumps({"entries": [b"bytes", {1, 2}], "pg_config": {}}),
    b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00trueq\x00\x85R.profiling_name",
    b"\x80\x02(ios\nsystem\n.profiling_name",
    b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.profiling_name",
    b"\x80\x02Pprofiling_name\n.",
    b"\x80\x02X\x0e\x00\x00\x00profiling_nameQ.",
    b"\x80\x02\x82\x01.profiling_name",
]


@pytest.mark.parametrize("data", _HOSTILE)
def test_a_pickle_that_would_run_code_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    events = read_document("nccl_trace_rank_0", data)

    assert [event.kind for event in events] == ["torch.flight-recorder-refused"]
    with pytest.raises(NotPlainError):
        loads(data)


def test_a_pickle_that_holds_itself_is_read_in_bounded_work():
    loop: list[object] = []
    loop.append(loop)
    wide: list[object] = []
    for _ in range(60):
        wide = [wide] * 8  # eight times the inner list, 8**60 in all
    dump = _dump()
    dump["entries"][1]["input_sizes"] = wide
    dump["entries"][0]["input_sizes"] = loop

    events = read_document("rank_0", pickle.dumps(dump))

    assert all(len(str(value)) <= 400 for event in events for value in event.fields.values())


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02\x8b\xff\xff\xff\x7f.profiling_name",
        b"\x80\x02X\xff\xff\xff\x7fprofiling_name",
        b"\x80\x02I" + b"9" * 100 + b"\n.profiling_name",
        b"\x80\x02" + b"(" * 10_000 + b"profiling_name",
        b"\x80\x02]" + b"e" + b"profiling_name",
        b"\x80\x02h\x07.profiling_name",
        b"\x80\x02}(K\x01u.profiling_name",
        b"\x80\x02})K\x01s.profiling_name",
        b"\x80\x09.profiling_name",
    ],
)
def test_damaged_pickles_are_no_crash(data):
    for event in read_document("rank_0", data):
        assert event.kind in {"torch.flight-recorder-unread", "torch.flight-recorder-refused"}


def test_a_text_that_mentions_dumps_is_not_read_as_one():
    assert read_document("notes.txt", b"the profiling_name and pg_config of entries") == ()
    assert read_document("other.json", b'{"profiling_name": 1}') == ()


_DATA = pickle.dumps(_dump(), protocol=2)


@given(st.integers(0, len(_DATA)), st.binary(max_size=8), st.integers(0, len(_DATA)))
def test_cut_and_changed_dumps_never_raise(start, garbage, end):
    for event in read_document("rank_1", _DATA[:start] + garbage + _DATA[end:]):
        assert event.kind.startswith("torch.flight-recorder")


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**62), 2**62)
        | st.floats(allow_nan=False)
        | st.text(max_size=20),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.tuples(inner, inner)
            | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=4)
        ),
        max_leaves=20,
    ),
    st.integers(0, 5),
)
def test_plain_data_is_read_as_python_reads_it(value, protocol):
    if protocol == 0:
        value = json.loads(json.dumps(value, skipkeys=True, default=str).encode("ascii"))
        if not json.dumps(value, ensure_ascii=False).isascii() or "\\" in json.dumps(value):
            return  # text protocols escape such characters in ways that no dump of torch needs
    assert loads(pickle.dumps(value, protocol=protocol)) == value
