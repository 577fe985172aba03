"""Test counters against an earlier run: only an increase warns, and a total that needs repair still fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from assistant.usecases.bench.baseline import file_of
from assistant.usecases.check import verdict_on
from assistant.usecases.last_counters import exchange
from probes.facts import MachineFacts
from probes.facts.named import Count
from probes.judging.counters import Snapshot, is_before, since, snapshot
from probes.judging.findings import Status
from tests.support.machines import evidence_of, h100_node, with_gpus, with_nics, with_part

DAY_S = 86400.0
NOW_S = 1.8e9


def node(*, downed: int = 0, crc: int = 0, rows: int = 0, uptime_s: Any = 7 * DAY_S) -> MachineFacts:
    facts = with_part(h100_node(), "kernel", uptime_s=uptime_s)
    facts = with_nics(facts, "mlx5_0", counters=(Count(name="link_downed", value=downed),))
    (gpu, *_) = facts.gpus  # type: ignore[misc]
    links = tuple(msgspec.structs.replace(link, crc_errors=crc, replay_errors=0) for link in gpu.nvlinks)
    health = msgspec.structs.replace(gpu.memory_health, remapped_rows_uncorrected=rows)
    return with_gpus(facts, 0, nvlinks=links, memory_health=health)


def taken(facts: MachineFacts, *, ago_s: float = DAY_S) -> Snapshot:
    uptime_s = facts.kernel.uptime_s
    assert isinstance(uptime_s, float)
    now = snapshot(facts, NOW_S)
    assert now is not None
    return Snapshot(taken_s=NOW_S - ago_s, booted_s=now.booted_s, counts=now.counts)


def problems(facts: MachineFacts, earlier: Snapshot | None, mode: str = "monitor") -> set[str]:
    evidence = msgspec.structs.replace(evidence_of(facts), mode=mode, earlier=earlier)
    findings = verdict_on(evidence).findings
    made = {
        f"{each.check_id} {each.status.value}"
        for each in findings
        if each.status not in (Status.PASS, Status.SKIP)
    }
    return {
        each for each in made if each.startswith(("nic-link-downed", "nvlink-errors", "row-remap-reserve"))
    }


def test_only_what_was_added_warns() -> None:
    for counts, said in (({"downed": 40}, "nic-link-downed WARN"), ({"crc": 5}, "nvlink-errors WARN")):
        facts = node(**counts)  # type: ignore[arg-type]
        assert problems(facts, None) == {said}
        assert problems(facts, taken(facts)) == set()
        assert problems(facts, taken(node())) == {said}
        assert problems(facts, taken(facts), mode="accept") == {said}
        # A total below the earlier one means that the counter was reset, so all of it is new.
        assert problems(facts, taken(node(**dict.fromkeys(counts, 10**6)))) == {said}  # type: ignore[arg-type]


def test_a_total_that_fails_still_fails() -> None:
    facts = node(rows=10**4)
    assert problems(facts, taken(facts)) == problems(facts, None) != set()


def test_counts_are_those_since_the_earlier_run() -> None:
    later = since(node(downed=7, crc=9, rows=2), taken(node(downed=4, crc=9)))
    assert snapshot(later, NOW_S) == snapshot(node(downed=3, rows=2), NOW_S)


def test_a_counter_that_an_earlier_run_did_not_read_counts_from_zero() -> None:
    empty = Snapshot(taken_s=NOW_S - DAY_S, booted_s=NOW_S - 7 * DAY_S, counts={})
    assert snapshot(since(node(downed=1), empty), NOW_S) == snapshot(node(downed=1), NOW_S)
    # A counter that is lower than before was reset, and counts with its whole value.
    assert snapshot(since(node(downed=2), taken(node(downed=5))), NOW_S) == snapshot(node(downed=2), NOW_S)


def test_a_snapshot_tells_when_its_counters_started():
    now = snapshot(node(uptime_s=7 * DAY_S), NOW_S)
    assert now is not None
    assert (now.booted_s, now.taken_s) == (NOW_S - 604800, NOW_S)


@pytest.mark.parametrize(
    ("booted_s", "taken_s", "is_earlier"),
    [
        (0, -1, True),
        (0, 0, True),
        (300, -1, True),
        (-300, -1, True),
        (301, -1, False),
        (-301, -1, False),
        (0, 1, False),
    ],
)
def test_a_run_of_another_boot_or_of_the_future_is_not_compared(
    booted_s: float, taken_s: float, is_earlier: bool
) -> None:
    now = Snapshot(taken_s=NOW_S, booted_s=NOW_S - DAY_S, counts={})
    other = Snapshot(taken_s=NOW_S + taken_s, booted_s=now.booted_s + booted_s, counts={})
    assert is_before(other, now) is is_earlier


def test_the_older_of_two_snapshots_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def at(hours: float) -> Snapshot:
        return Snapshot(taken_s=NOW_S + hours * 3600, booted_s=NOW_S - DAY_S, counts={"hours": int(hours)})

    compared = [exchange("node/17", at(hours), DAY_S)[0] for hours in (0, 1, 23, 25, 26, 48, 50, 51)]
    assert [each and each.counts["hours"] for each in compared] == [None, 0, 0, 0, 0, 0, 0, 25]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"older": 1}', "\x00" * 99, "[" * 10**5])
def test_a_damaged_file_is_replaced(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    now = taken(node())
    file_of("n", "counters").parent.mkdir(parents=True)
    file_of("n", "counters").write_text(text)
    assert exchange("n", now, DAY_S) == (None, "")
    assert exchange("n", now, DAY_S) == (now, "")


def test_a_state_folder_that_cannot_be_written_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    earlier, complaint = exchange("n", taken(node()), DAY_S)
    assert earlier is None
    assert "not kept" in complaint
