"""Test lines of NCCL, RCCL and their plugins, by version of the message."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.logs.event import LogLine
from probes.logs.readers import nccl, nccl_errors, nccl_prefix, network_libraries, plugins, rccl
from probes.logs.readers import nccl_transport_lines as nccl_transports
from tests.support.nccl_messages import MESSAGES

_ALL = (nccl, nccl_errors, nccl_transports, plugins, network_libraries, rccl)
_INFO = "gpu-7:4001:4008 [3] NCCL INFO "
_WARN = "gpu-7:4001:4008 [3] file.cc:12 NCCL WARN "
_WARN_226 = "[2026-03-13 22:26:02] gpu-7:4001:4008 [3] transport/net_ib/p2p.cc:648 (ncclIbTest) NCCL WARN "

_HEALTHY = [
    f"{_INFO}NET/Plugin: Failed to find ncclCollNetPlugin_v5 symbol.",
    f"{_INFO}Call to mlx5dv_get_data_direct_sysfs_path failed with error No such device errno 19",
    f"{_INFO}Call to ibv_modify_qp failed with 110 Connection timed out, dev mlx5_0:1, retrying 1/3 after "
    f"100 msec of sleep",
    f"{_INFO}Setting affinity for GPU 0 to ff,00000000",
    f"{_INFO}threadThresholds 8/8/64 | 128/8/64 | 512 | 512",
    f"{_INFO}NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'",
    f"{_WARN}Call to ibv_query_port_speed failed with error Protocol not supported errno 93",
    f"{_INFO}NET/IB : Using [RO]; OOB eth0:192.0.2.3<0>",
    f"{_INFO}CC Off, workFifoBytes 1048576",
    "[gpu-7:1234] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
    "epoch 3 -> 4, loss 2.1 via NET/work",
    "The NCCL version must be at least 2.10 for this",
    "Setting the seed to 3",
]


def _read(module, text):
    reader = module.Reader() if hasattr(module, "Reader") else module
    return reader.read(LogLine(source="log", number=7, text=text, raw=text))


@pytest.mark.parametrize(("module", "text", "kind", "fields"), MESSAGES)
def test_a_message_gives_its_event(module, text, kind, fields):
    event = next(event for event in _read(module, text) if event.kind == kind)
    assert {name: event.fields.get(name) for name in fields} == fields
    assert (event.source, event.number, event.text) == ("log", 7, text)


@pytest.mark.parametrize(("module", "text", "kind", "fields"), MESSAGES)
def test_the_line_bears_a_sign_of_its_reader(module, text, kind, fields):
    assert any(sign in text.encode() for sign in module.SIGNS)


@pytest.mark.parametrize("text", _HEALTHY)
def test_lines_that_healthy_runs_print_are_no_failure(text):
    assert [event for module in _ALL for event in _read(module, text)] == []


def test_warnings_of_the_plugins_are_reported_by_their_readers_alone():
    text = f"{_WARN}NET/OFI Couldn't find any optimal provider"
    assert _read(nccl_errors, text) == ()


def test_the_host_is_that_of_the_line():
    (event,) = _read(nccl, f"{_INFO}Using network IB")
    assert (event.host, event.pid) == ("gpu-7", 4001)


def test_the_host_in_a_line_of_nccl_takes_precedence_over_that_of_the_envelope():
    line = LogLine(source="log", number=1, text=f"{_INFO}Using network IB", host="node-3", pid=9)
    (event,) = nccl.Reader().read(line)
    assert (event.host, event.pid) == ("gpu-7", 4001)


def test_the_same_line_of_all_ranks_of_a_host_gives_one_event():
    reader = nccl.Reader()
    lines = [
        LogLine(source="log", number=rank, text=f"gpu-7:40{rank}:1 [{rank}] NCCL INFO Using network IB")
        for rank in range(8)
    ]
    assert sum(len(reader.read(line)) for line in lines) == 1
    assert (
        len(reader.read(LogLine(source="log", number=9, text="gpu-8:1:1 [0] NCCL INFO Using network IB")))
        == 1
    )


def test_a_variable_that_a_plugin_sets_is_the_plugins():
    reader = nccl.Reader()
    reader.read(LogLine(source="log", number=1, text=f'{_INFO}NET/OFI Setting NCCL_PROTO to "simple"'))
    assert (
        reader.read(LogLine(source="log", number=2, text=f"{_INFO}NCCL_PROTO set by environment to simple"))
        == ()
    )


def test_channels_are_counted_by_way_and_host():
    reader = nccl_transports.Reader()
    events = []
    for number in range(100):
        way = f"[receive] via NET/IB/{number % 8}/GDRDMA"
        text = f"gpu-7:1:1 [0] NCCL INFO Channel {number:02d}/0 : {number}[0] -> 0[0] {way}"
        events += reader.read(LogLine(source="log", number=number, text=text))
    assert [event.number for event in events] == [0]
    (rest,) = reader.end()
    assert (rest.count, rest.number, rest.fields["from_rank"]) == (99, 99, 99)


def test_a_result_that_is_returned_through_many_calls_gives_one_event():
    reader = nccl_errors.Reader()
    lines = [
        LogLine(source="log", number=number, text=f"{_INFO}init.cc:{number} -> 2") for number in range(10, 20)
    ]
    assert [event.number for line in lines for event in reader.read(line)] == [10]


@pytest.mark.parametrize("text", [text for _, text, _, _ in MESSAGES])
def test_cut_anywhere_nothing_is_raised(text):
    for module in _ALL:
        for place in range(0, len(text), 3):
            _read(module, text[:place])
            _read(module, text[place:])


@given(st.text(max_size=60), st.sampled_from([text for _, text, _, _ in MESSAGES]), st.integers(0, 200))
def test_garbage_in_between_is_read_or_not_but_never_raises(garbage, text, place):
    for module in _ALL:
        for event in _read(module, text[:place] + garbage + text[place:]):
            assert all(isinstance(value, str | int | float) for value in event.fields.values())
            assert all(len(str(value)) <= 8192 for value in event.fields.values())


@pytest.mark.parametrize("word", [sign.decode() for module in _ALL for sign in module.SIGNS])
def test_long_lines_cost_little(word):
    text = (f"{_WARN}{word} " * 400)[:8192]
    begun = time.perf_counter()
    for module in _ALL:
        _read(module, text)
    assert time.perf_counter() - begun < 1.0


def test_a_full_set_of_reported_items_begins_anew(monkeypatch):
    monkeypatch.setattr(nccl_prefix, "_MOST_KNOWN", 2)
    once = nccl_prefix.Once()

    assert [once.is_new(item) for item in "aabbca"] == [True, False, True, False, True, True]
