"""Test the two snapshots of counters that monitoring keeps, and files that must not be replaced."""

from __future__ import annotations

import pytest

from assistant.usecases.bench.baseline import file_of
from assistant.usecases.last_counters import exchange
from assistant.usecases.learn import read_policy, require_free
from probes.base.errors import InputError, OutputError
from probes.judging.counters import Snapshot


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def at(taken_s: float, booted_s: float = 0.0) -> Snapshot:
    return Snapshot(taken_s=taken_s, booted_s=booted_s, counts={"a": int(taken_s)})


def test_the_older_of_two_snapshots_is_compared_for_at_least_one_window():
    assert exchange("m", at(1000), 60.0) == (None, "")
    assert exchange("m", at(1059), 60.0) == (at(1000), "")
    assert exchange("m", at(1060), 60.0) == (at(1000), "")
    assert exchange("m", at(1119), 60.0) == (at(1000), "")
    assert exchange("m", at(1120), 60.0) == (at(1000), "")
    assert exchange("m", at(1121), 60.0) == (at(1060), "")
    assert exchange("other", at(1121), 60.0) == (None, "")


@pytest.mark.parametrize(
    "later", [at(2000, booted_s=1500.0), at(900)], ids=["a boot", "the clock was set back"]
)
def test_snapshots_of_another_boot_or_time_are_forgotten(later):
    exchange("m", at(1000), 60.0)
    assert exchange("m", later, 60.0) == (None, "")
    assert exchange("m", at(later.taken_s + 1, later.booted_s), 60.0) == (later, "")


def test_a_damaged_file_is_replaced_and_a_disk_that_refuses_is_reported(tmp_path):
    exchange("m", at(1000), 60.0)
    path = file_of("m", "counters")
    path.write_text("{")
    assert exchange("m", at(1001), 60.0) == (None, "")
    assert exchange("m", at(1002), 60.0) == (at(1001), "")
    path.unlink()
    path.mkdir()
    (path / "x").write_text("")
    older, complaint = exchange("m", at(1003), 60.0)
    assert older is None
    assert complaint.startswith("counters are not kept for the next run: ")


def test_an_existing_file_is_replaced_only_by_force(tmp_path):
    path = tmp_path / "policy.toml"
    require_free(path, force=False)
    path.write_bytes(b"\xff\xfe")
    require_free(path, force=True)
    with pytest.raises(OutputError, match="exists"):
        require_free(path, force=False)
    with pytest.raises(InputError, match=r"not UTF-8 text \(byte 0\)"):
        read_policy(path)


def test_a_boot_between_the_two_snapshots_forgets_both():
    exchange("m", at(1000), 60.0)
    exchange("m", at(1100), 60.0)
    # The clock was set back behind the newer snapshot, but not behind the older one.
    assert exchange("m", at(1050), 60.0) == (None, "")
    assert exchange("m", at(1051), 60.0) == (at(1050), "")
