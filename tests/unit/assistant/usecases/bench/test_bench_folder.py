"""Test the private folder of a run: folders of dead runs are removed, living and kept ones stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from assistant.usecases.bench.bench_folder import remove_leftovers, work_folder
from probes.base.errors import WorkerError

KILLED = """
import os, signal, tempfile
tempfile.tempdir = {tmp!r}
from assistant.usecases.bench.bench_folder import work_folder
with work_folder(None) as folder:
    (folder.path / "log.txt").write_text("half a line")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_unless_it_is_to_stay(temporary):
    with work_folder(None) as folder:
        assert list(temporary.iterdir()) == [folder.path]
    assert list(temporary.iterdir()) == []
    with work_folder(None) as folder:
        folder.keep = True
    remove_leftovers()
    assert list(temporary.iterdir()) == [folder.path]
    assert list(folder.path.iterdir()) == []


def test_the_folder_of_a_killed_run_is_removed_and_that_of_a_running_one_stays(temporary):
    killed = subprocess.run(
        (sys.executable, "-c", KILLED.format(tmp=str(temporary))), check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    (dead,) = temporary.iterdir()
    (temporary / "rigtune-bench-other").mkdir()
    with work_folder(None) as living:
        assert not dead.exists()
        with work_folder(None) as second:
            assert living.path.exists()
            assert second.path != living.path
    assert [path.name for path in temporary.iterdir()] == ["rigtune-bench-other"]


def test_a_link_to_somewhere_else_is_left_alone(temporary):
    with work_folder(None) as folder:
        folder.keep = True
    (folder.path / "lock").touch()
    away = temporary / "elsewhere"
    folder.path.rename(away)
    (temporary / "rigtune-bench-link").symlink_to(away)
    remove_leftovers()
    assert away.exists()


def test_a_folder_that_the_user_chose_is_kept(temporary):
    with work_folder(str(temporary / "a" / "b")) as folder:
        assert folder.path == temporary / "a" / "b"
    assert list(folder.path.iterdir()) == []


def test_folders_that_cannot_be_written_are_the_users_error(temporary, monkeypatch):
    (temporary / "file").touch()
    with pytest.raises(WorkerError, match="cannot write to"), work_folder(str(temporary / "file")):
        pass
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(WorkerError, match="cannot make a temporary folder") as caught, work_folder(None):
        pass
    assert "TMPDIR" in caught.value.hint


@pytest.mark.root
def test_a_full_disk_is_reported_before_anything_starts(temporary):
    disk = temporary / "disk"
    disk.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=4k", "none", str(disk)), check=True)
    try:
        (disk / "filler").write_bytes(b"x" * 4096)
        with pytest.raises(WorkerError, match=os.strerror(28)), work_folder(str(disk)):
            pass
    finally:
        subprocess.run(("umount", str(disk)), check=True)
