"""Test the order of causes: the first cause, and its effects."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import probes
from assistant.usecases import explain_compared
from probes.base.rows import read_rows
from probes.logs import frames
from probes.logs.cause_rows import Cause, EventPattern, load_causes, sound_rows
from probes.logs.causes.conditions import CONDITIONS
from probes.logs.causes.explaining import explain
from probes.logs.event import Event
from tests.support.log_cases.reading import cases, explained, ids
from tests.support.log_events import RECORDS, event, unknown_names

CASES = cases()
LOGS = Path(probes.__file__).parent / "logs"


def all_patterns() -> list[EventPattern]:
    """Return every pattern of events in the table."""
    return [pattern for row in load_causes().cause for pattern in row.pattern]


@pytest.mark.parametrize(("cause", "log"), CASES, ids=[cause for cause, _ in CASES])
def test_the_cause_of_a_log_comes_first(cause: str, log: str) -> None:
    explanation = explained(log)
    assert ids(explanation)[0] == cause
    first = explanation.diagnoses[0]
    assert "{" not in first.summary + first.remedy
    assert all(line.text.rstrip() in log.replace("\r", "") for line in first.evidence)


def test_every_cause_has_a_log_of_its_own() -> None:
    assert {row.id for row in load_causes().cause} <= {cause for cause, _ in CASES}


@pytest.mark.parametrize("row", load_causes().cause, ids=lambda row: row.id)
def test_a_row_names_kinds_and_fields_that_exist(row: Cause) -> None:
    assert [name for each in row.pattern for name in unknown_names(each.event, each.where)] == []
    assert {each.when for each in row.pattern} - {""} <= set(CONDITIONS)
    assert row.id not in sound_rows(read_rows("causes"))[1]


def test_a_condition_is_of_use() -> None:
    assert set(CONDITIONS) == {pattern.when for row in load_causes().cause for pattern in row.pattern} - {""}


def test_a_broken_row_spoils_no_other() -> None:
    sound = {"event": "torch.oom", "confidence": 0.9}
    table = {
        **{name: [] for name in ("failures", "complaints", "of_peers", "collect")},
        "date": "2026-11",
        "cause": [
            {**dict.fromkeys(("id", "title", "summary", "remedy", "source"), name), "pattern": patterns}
            for name, patterns in (("broken", [sound, {"event": "a", "sure": 1}]), ("sound", [sound]))
        ],
    }
    rows, broken = sound_rows(table)
    assert [(row.id, len(row.pattern)) for row in rows.cause] == [("broken", 1), ("sound", 1)]
    assert list(broken) == ["broken"]


def test_no_line_of_the_table_is_long() -> None:
    lines = (Path(probes.__file__).parent / "data" / "causes.toml").read_text("utf-8").splitlines()
    assert max(map(len, lines)) <= 160


def test_every_record_is_made_somewhere() -> None:
    folders = (LOGS / "readers", LOGS / "deducing")
    code = "".join(path.read_text("utf-8") for folder in folders for path in folder.glob("*.py"))
    code += Path(frames.__file__).read_text("utf-8") + Path(explain_compared.__file__).read_text("utf-8")
    names = {kind.removeprefix("deduced."): record.__name__ for kind, record in RECORDS.items()}
    assert [record for name, record in names.items() if name not in code and record not in code] == []


def test_the_table_names_only_causes_of_its_own() -> None:
    rows = load_causes().cause
    known = {row.id for row in rows}
    assert len(known) == len(rows)
    for row in rows:
        assert set(row.effects) <= known, row.id
        assert row.source, row.id
        assert row.summary, row.id
        assert row.remedy, row.id
        for pattern in row.pattern:
            assert 0 < pattern.confidence <= 1, row.id
    for pattern in all_patterns():
        for condition in pattern.where.values():
            if isinstance(condition, str) and condition.startswith(("~", "!~")):
                re.compile(condition.lstrip("!~"))


def watchdog(rank: int, seq: int) -> str:
    """Return the lines of a rank that waited without success."""
    return (
        f"[rank{rank}]:[E ProcessGroupNCCL.cpp:629] [Rank {rank}] Watchdog caught collective operation "
        f"timeout: "
        f"WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=100, NumelOut=100, Timeout"
        f"(ms)=600000) ran for 600044 milliseconds "
        "before timing out.\n"
    )


def test_a_flush_is_the_effect_of_a_retry() -> None:
    words = "transport/net_ib.cc:1950 NCCL WARN NET/IB: Got completion from peer 10.0.0.3<4> with"
    flush = f"n1:8:60 [1] {words} status=5 opcode=0 len=0 vendor err 249 (Send)\n"
    retry = f"n2:9:60 [5] {words} status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
    explanation = explained(flush * 3 + retry)
    assert ids(explanation)[0] == "ib-retry-exceeded"
    assert any("another rank failed first" in effect for effect in explanation.diagnoses[0].secondary)


def test_watchdogs_and_closed_connections_are_effects_of_the_rank_that_ran_out_of_memory() -> None:
    victims = "".join(watchdog(rank, 33) for rank in (0, 1, 2))
    closed = (
        "n1:9:60 [0] misc/socket.cc:58 NCCL WARN socketProgress: Connection closed by remote peer n2<41235>\n"
    )
    root = (
        "[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. "
        "GPU 5 has a total capacity of 79.10 GiB of which 1.02 GiB is free.\n"
    )
    explanation = explained(victims + closed + root)
    first = explanation.diagnoses[0]
    assert first.cause_id == "gpu-oom"
    assert "rank 5" in first.summary
    assert len(first.secondary) == 2


def test_the_first_failure_is_the_first_in_time_whatever_the_order_of_the_files() -> None:
    def xid(host: str, time: str, bus: str) -> str:
        return (
            f"{time} {host} kernel: NVRM: Xid (PCI:0000:{bus}:00): 79, pid=1, name=python, GPU has fallen "
            f"off the bus.\n"
        )

    explanation = explained(
        xid("late", "2025-11-03T10:05:00+00:00", "3b"), xid("early", "2025-11-03T10:00:00+00:00", "18")
    )
    first = explanation.diagnoses[0]
    assert first.cause_id == "gpu-lost"
    assert "0000:18:00" in first.summary
    assert first.evidence[0].host == "early"


def test_a_gpu_that_fails_long_after_the_watchdog_is_not_its_reason() -> None:
    timeout = {"op": "ALLREDUCE", "seq": 4}
    watchdog = event("torch.watchdog-timeout", timeout, source="a", text="w", time_s=1000.0, rank=0)
    xid = event("kernel.xid", {"xid": 79, "bus": "0000:18:00"}, source="b", number=1, text="x", time_s=9000.0)
    timed = {diagnosis.cause_id: diagnosis for diagnosis in explain([watchdog, xid]).diagnoses}
    assert timed["straggler-timeout"].confidence == pytest.approx(0.7)
    assert not any("in time" in effect for effect in timed["gpu-lost"].secondary)


def test_ranks_that_stay_behind_are_named() -> None:
    log = "".join(
        watchdog(rank, 41)
        + f"[rank{rank}]:[E ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] "
        "Exception (either an "
        f"error or timeout) detected by watchdog at work: 41, last enqueued NCCL work: {last}, last "
        f"completed NCCL work: 40.\n"
        for rank, last in ((0, 41), (1, 41), (2, 40))
    )
    explanation = explained(log)
    assert ids(explanation)[0] == "straggler-timeout"


def test_an_exception_of_the_program_comes_before_what_its_peers_report() -> None:
    traceback = (
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File 'train.py', line 3\n[rank3]: "
        "ValueError: bad batch\n"
    )
    explanation = explained(traceback + watchdog(0, 33) + watchdog(1, 33))
    first = explanation.diagnoses[0]
    assert explanation.state == "fault"
    assert first.cause_id == "unknown"
    assert "ValueError: bad batch (on rank 3)" in first.summary
    assert any("in time" in effect for effect in first.secondary)


def test_an_unknown_failure_names_what_to_collect() -> None:
    explanation = explained(
        "n1:9:60 [0] proxy.cc:900 NCCL WARN something that no table knows\nn1:9:60 [0] NCCL INFO "
        "proxy.cc:910 -> 3\n"
    )
    assert explanation.state == "unknown"
    assert ids(explanation) == ["unknown"]
    assert any("NCCL_DEBUG=INFO" in piece for piece in explanation.collect_next)


def healthy_run(*, nvls: bool = True, gdr: str = "/GDRDMA", speed: int = 400_000) -> str:
    """Return lines of rank 0 of a run on two hosts with eight HCAs each."""
    hcas = range(8)
    lines = [
        "NCCL version 2.27.7+cuda12.9",
        "Bootstrap: Using eth0:10.0.0.4<0>",
        *(
            f"NET/IB: [{i}] mlx5_{i}:uverbs{i}:1/IB provider=Mlx5 speed={speed} context=0x5 "
            f"pciPath=/sys/1{i}:00.0 ar=1"
            for i in hcas
        ),
        "NET/IB : Using " + " ".join(f"[{i}]mlx5_{i}:1/IB" for i in hcas) + " [RO]; OOB eth0:10.0.0.4<0>",
        "Using network IB",
        "ncclCommInitRankConfig comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9e - "
        "Init START",
        f"NVLS multicast support is {'available' if nvls else 'not available'} on dev 0 (NVLS_NCHANNELS 16)",
        "comm 0x55 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0",
        "16 coll channels, 16 collnet channels, 16 nvls channels, 16 p2p channels, 2 p2p channels per peer",
        "ncclCommInitRankConfig comm 0x55 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x9e - "
        "Init COMPLETE",
        "Channel 00/0 : 0[0] -> 7[7] via P2P/CUMEM",
        f"Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0{gdr}",
        f"Connected all rings, use ring PXN 0 GDR {int(bool(gdr))}",
        "comm 0x55 rank 0 nranks 16 cudaDev 0 busId 1b000 - Destroy COMPLETE",
    ]
    return "".join(f"n1:9:60 [0] NCCL INFO {line}\n" for line in lines)


def test_a_healthy_run_is_summed_up_with_what_its_shape_promises() -> None:
    explanation = explained(healthy_run())
    assert explanation.state == "healthy"
    assert explanation.diagnoses[0].cause_id == "healthy"
    summary = explanation.diagnoses[0].summary
    for words in ("IB with GPUDirect on 8 rails", "NVLS on", "16 channels", "expect 370 GB/s"):
        assert words in summary
    assert "line rate" in explanation.expected[0]


def test_no_bandwidth_is_expected_where_the_log_lacks_the_facts() -> None:
    assert explained(healthy_run(gdr="")).expected == ()
    assert "expect" not in explained("n1:9:60 [0] NCCL INFO Using network IB\n").diagnoses[0].summary


def test_a_log_that_goes_on_does_not_hang() -> None:
    end = (
        "n1:9:60 [0] NCCL INFO comm 0x55 rank 0 nranks 1 cudaDev 0 busId 1b000 commId 0x9e - Init COMPLETE\n"
    )
    assert ids(explained(end))[0] == "hang-after-init"
    assert explained(end).state == "unknown"
    assert ids(explained(end + "step\n" * 20)) == ["healthy"]


named_kinds = {kind.replace("*", "result") for pattern in all_patterns() for kind in pattern.event.split("|")}
kinds = sorted(kind for kind in named_kinds if not kind.startswith("deduced."))
more_kinds = [
    "nccl.init-start",
    "nccl.bootstrap",
    "nccl.hcas",
    "nccl.hca",
    "nccl.comm-shape",
    "nccl.version",
    "nccl_tests.rank",
]
fields = {name for pattern in all_patterns() for name in pattern.where}
more_fields = {"rank", "ranks", "bus", "seq", "op", "enqueued", "address", "names", "links"}
words = ["IB", "Socket", "mlx5_0:1,mlx5_bond_0:1", "127.0.0.1", "down"]
values = st.integers(-3, 1 << 40) | st.floats() | st.text(max_size=12) | st.sampled_from(words)
events = st.builds(
    event,
    st.sampled_from(kinds + more_kinds),
    st.dictionaries(st.sampled_from(sorted(fields | more_fields)), values, max_size=6),
    source=st.sampled_from(["a", "b"]),
    number=st.integers(1, 1 << 30),
    text=st.text(max_size=30),
    host=st.none() | st.sampled_from(["h1", "h2"]),
    rank=st.none() | st.integers(0, 20),
    time_s=st.none() | st.floats(0, 1e10),
    count=st.integers(1, 100),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(events, max_size=12))
def test_any_events_give_an_explanation_with_only_their_lines(seen: list[Event]) -> None:
    explanation = explain(seen)
    lines = {(event.source, event.number, event.text) for event in seen}
    assert explanation.diagnoses
    for diagnosis in explanation.diagnoses:
        assert all((line.source, line.line, line.text) in lines for line in diagnosis.evidence)
        assert diagnosis.evidence or diagnosis.cause_id == "healthy"
    assert (explanation.state == "fault") <= any(diagnosis.is_fault for diagnosis in explanation.diagnoses)


def test_nothing_seen_is_nothing_wrong() -> None:
    assert ids(explain([])) == ["healthy"]


def test_a_cause_that_depends_on_versions_names_them() -> None:
    log = next(text for cause, text in CASES if cause == "ib-retry-exceeded")
    assert "2.23" in explained(log).diagnoses[0].versions


def test_a_command_names_the_port_that_the_log_names() -> None:
    bind = (
        "[E socket.cpp:957] [c10d] The server socket has failed to bind to [::]:29541 "
        "(errno: 98 - Address already in use).\n"
    )
    assert explained(bind).diagnoses[0].command == "ss -ltnp 'sport = :29541'"
    assert (
        explained("OSError: [Errno 98] Address already in use\n").diagnoses[0].command
        == "ss -ltnp 'sport = :<port>'"
    )
