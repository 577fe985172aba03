"""Test that files and streams of a user are read up to a limit."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from assistant.storage import read_bytes
from probes.base.errors import InputError
from probes.sources.base import MAX_GIVEN_BYTES, read_at_most, read_bounded
from probes.sources.choose import open_source
from probes.sources.stored import unpack


class Endless(io.RawIOBase):
    """A device without an end, which counts the bytes that are read."""

    taken = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "one read of all would take all memory"
        self.taken += size
        return b"x" * size


def test_an_endless_device_is_left_soon() -> None:
    device = Endless()
    with pytest.raises(InputError, match="standard input is larger than 1 MiB"):
        read_bounded(device, "standard input", 1 << 20, advice="give a launch file")
    assert device.taken < 2 << 20


@pytest.mark.parametrize(("size", "is_read"), [(0, True), (9, True), (10, True), (11, False)])
def test_the_limit_itself_may_be_read(size: int, is_read: bool) -> None:
    assert (read_at_most(io.BytesIO(b"x" * size), 10) == b"x" * size) is is_read


def test_files_that_are_too_large_are_refused(tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(MAX_GIVEN_BYTES + 1)
    with pytest.raises(InputError, match="larger than 64 MiB"):
        open_source((large,))
    with pytest.raises(InputError, match="unpacks to more than 64 MiB"):
        unpack(gzip.compress(bytes(MAX_GIVEN_BYTES + 1), 1), "small.gz")
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read_bytes(large, limit_bytes=1 << 20)
