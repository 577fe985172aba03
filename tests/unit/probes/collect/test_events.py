"""Test that events from several logs are collected and joined."""

from __future__ import annotations

from probes.base.record import EvidenceRef, Reason, Unknown
from probes.collect.collecting import CollectOptions
from probes.collect.events import collect
from probes.facts import LogEvent
from probes.sources.base import CommandResult, Given
from tests.support.fake_source import Answer, FakeSource

XID = "[ 4428.423595] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus."
REFUSED = CommandResult(exit_code=1, stderr=b"dmesg: read kernel buffer failed: Operation not permitted\n")
DMESG = "dmesg"
JOURNAL = "journalctl -k -b -o short-iso --no-pager -q"


class Live(FakeSource):
    is_live = True


def events(facts: dict[str, object]) -> tuple[LogEvent, ...]:
    value = facts["events"]
    assert isinstance(value, tuple)
    return value


def ask(source: FakeSource, *, deep: bool = False) -> dict[str, object]:
    return collect(source, CollectOptions(deep=deep))


def live(**commands: Answer) -> Live:
    return Live(commands=commands)


def test_a_live_machine_is_asked_for_its_ring_buffer_alone() -> None:
    source = Live(commands={DMESG: f"{XID}\n"})
    facts = ask(source, deep=True)
    assert source.asked == [DMESG]
    assert facts["logs"] == ("kernel-log",)
    assert events(facts)[0].evidence == (EvidenceRef(source="command", key="dmesg", detail="line 1"),)


def test_a_closed_ring_buffer_is_a_matter_of_permission() -> None:
    source = Live(commands={DMESG: REFUSED})
    facts = ask(source)
    assert source.asked == [DMESG]
    assert isinstance(facts["events"], Unknown)
    assert facts["events"].reason is Reason.PERMISSION
    assert facts["logs"] == facts["events"]


def test_the_journal_replaces_a_refused_dmesg_in_the_deep_tier() -> None:
    line = "2025-01-21T04:41:44+0000 gpu-7 kernel: NVRM: Xid (PCI:0000:17:00): 48, x\n"
    source = Live(commands={DMESG: REFUSED, JOURNAL: line})
    assert [event.code for event in events(ask(source, deep=True))] == [48]
    silent = Live(commands={DMESG: REFUSED, JOURNAL: ""})
    assert isinstance(ask(silent, deep=True)["events"], Unknown)


def test_events_are_unknown_without_a_log() -> None:
    facts = ask(FakeSource(missing=Reason.NOT_RECORDED), deep=True)
    assert isinstance(facts["events"], Unknown)
    assert facts["events"].reason is Reason.NOT_RECORDED


def test_pasted_logs_of_several_kinds_and_files_are_one_list() -> None:
    source = FakeSource(
        given={
            "kernel-log": (
                Given(name="a.log", text=f"{XID}\n{XID}\n"),
                Given(name="b.log", text=f"\n{XID}\n"),
            ),
            "nccl-log": "gpu-7:41:48 [2] a.cc:254 NCCL WARN Cuda failure 1 'invalid argument'\n",
        },
        missing=Reason.NOT_RECORDED,
    )
    facts = ask(source, deep=True)
    assert facts["logs"] == ("kernel-log", "nccl-log")
    assert [(event.kind, event.count, event.evidence[0].key) for event in events(facts)] == [
        ("xid", 2, "a.log"),
        ("nccl-warning", 1, "nccl-log.txt"),
    ]


def test_a_broken_line_is_named() -> None:
    source = FakeSource(
        given={"kernel-log": "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): x, Fatal\n"},
        missing=Reason.NOT_RECORDED,
    )
    unread = ask(source, deep=True)["unread"]
    assert isinstance(unread, tuple)
    assert [(item.source, item.line) for item in unread] == [("kernel-log.txt", 1)]


def test_of_equal_events_the_first_log_is_cited_unless_another_counts_more() -> None:
    logs = {"a.log": f"{XID}\n", "b.log": f"\n{XID}\n", "c.log": f"{XID}\n{XID}\n"}
    for names, expected in ((("a.log", "b.log"), "a.log"), (("a.log", "c.log"), "c.log")):
        given = tuple(Given(name=name, text=logs[name]) for name in names)
        (event,) = events(ask(FakeSource(given={"kernel-log": given}, missing=Reason.NOT_RECORDED)))
        assert event.evidence[0].key == expected
