"""Test that a full disk gives one clear line, and that files from before stay."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from assistant.storage import write_bytes
from probes.base.errors import OutputError


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], check=False, capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip("cannot mount a tmpfs here")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


@pytest.mark.root
def test_a_full_disk(small_disk: Path) -> None:
    target = small_disk / "facts.json"
    write_bytes(target, b"before")
    with pytest.raises(OutputError, match=r"facts\.json: no space left on device") as caught:
        write_bytes(target, b"x" * 200_000)
    assert "free some space" in caught.value.hint
    assert target.read_bytes() == b"before"
    assert [path.name for path in small_disk.iterdir()] == ["facts.json"]
