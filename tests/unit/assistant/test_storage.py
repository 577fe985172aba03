"""Test that files are written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from assistant import storage
from probes.base.errors import InputError, OutputError
from probes.facts import MachineFacts
from recipes.launch.recipe import Artifact


def test_a_file_replaces_the_former_one_with_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "launch.sh"
    storage.write_bytes(target, b"old")
    storage.write_bytes(target, b"new", mode=0o755)
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in target.parent.iterdir()] == ["launch.sh"]


def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    link, fifo = tmp_path / "out", tmp_path / "fifo"
    link.symlink_to("/dev/null")
    storage.write_bytes(link, b"data")
    assert link.is_char_device()
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    storage.write_bytes(fifo, b"data")
    assert os.read(reader, 10) == b"data"
    os.close(reader)
    assert fifo.is_fifo()


def test_files_are_written_where_unnamed_files_are_unsupported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = os.open

    def without_tmpfile(path: str | Path, flags: int, *rest: int) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return real_open(path, flags, *rest)

    monkeypatch.setattr(os, "open", without_tmpfile)
    storage.write_bytes(tmp_path / "a", b"1")
    storage.write_bytes(tmp_path / "a", b"2")
    assert (tmp_path / "a").read_bytes() == b"2"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_failed_write_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "plan.json"
    storage.write_bytes(target, b"before")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"plan\.json"):
        storage.write_bytes(target, b"after")
    monkeypatch.undo()
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]


def test_an_interrupted_write_keeps_the_former_file(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    storage.write_bytes(target, b"before")

    def break_off() -> None:
        with storage.writing(target) as file:
            file.write(b"half of it")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        break_off()
    assert target.read_bytes() == b"before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


@pytest.mark.parametrize("path", ["../outside", "/etc/rigtune-test", "a/../../outside"])
def test_artifacts_stay_in_their_folder(path: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="leads out"):
        storage.write_files(tmp_path / "out", (Artifact(path=path, text="x"),))
    assert not (tmp_path / "outside").exists()


def test_leftovers_of_a_killed_run_are_cleared(tmp_path: Path) -> None:
    (tmp_path / ".facts.json.123.tmp").write_text("{}")
    (tmp_path / ".gitignore").write_text("*")
    storage.clear_partial_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".gitignore"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"schema_version": 1, "measurements": 3}', r"\$\.measurements"),
        ('{"schema_version": 1, "measurements": [{"bench_id": 3}]}', "bench_id"),
        ('{"schema_version": 99, "measurements": []}', "another version.*99"),
        ('{"schema_version": 1, "findings": []}', "measurements"),
        ("bench_id,subject\n", "not a JSON report"),
        ("[" * 100_000, "not a JSON report"),
        ('{"schema_version": 1, "measurements": [], "started": "\ud800"}', "not a JSON report"),
    ],
)
def test_a_file_that_is_no_report_of_measurements_is_refused(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError, match=f"m\\.json.*{words}"):
        storage.read_measurements(path)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        storage.read_bytes(tmp_path)


@pytest.mark.parametrize(("umask", "script", "record"), [(0o077, 0o700, 0o600), (0o022, 0o755, 0o600)])
def test_the_umask_takes_rights_away(tmp_path: Path, umask: int, script: int, record: int) -> None:
    before = os.umask(umask)
    try:
        storage.write_bytes(tmp_path / "a.sh", b"", mode=0o755)
        storage.write_record(tmp_path / "facts.json", MachineFacts())
    finally:
        os.umask(before)
    assert (tmp_path / "a.sh").stat().st_mode & 0o777 == script
    assert (tmp_path / "facts.json").stat().st_mode & 0o777 == record


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_files_are_written_together_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    """The disk is full at one of three files; the earlier files of that folder survive."""
    (tmp_path / "b").write_text("earlier")
    artifacts = [Artifact(path=name, text=f"new {name}") for name in ("a", "b", "sub/c")]
    opened = iter(range(3))
    real = storage._complete

    @contextlib.contextmanager
    def complete(path: Path, mode: int) -> Iterator[BinaryIO]:
        number = next(opened)
        with real(path, mode) as file:
            if number == failing:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            yield file

    monkeypatch.setattr(storage, "_complete", complete)
    with pytest.raises(OutputError, match="no space left"):
        storage.write_files(tmp_path, artifacts)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b"]
    assert (tmp_path / "b").read_text() == "earlier"
