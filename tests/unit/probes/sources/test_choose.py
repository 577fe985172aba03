"""Test the source that the user's options select, and the errors when that is impossible."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path

import pytest

from probes.base.errors import ExitCode, InputError, UsageError
from probes.sources.choose import open_source
from probes.sources.live import LiveSource
from probes.sources.stored import Recording, dump_recording


def test_without_options_it_is_the_live_machine():
    source = open_source()
    assert isinstance(source, LiveSource)
    assert source.title == "live"
    source.close()


def test_a_recording_is_opened_plain_and_gzipped(tmp_path):
    data = dump_recording(Recording(title="live", files={"/proc/version": "Linux 6.8\n"}))
    for name, content in (("node17.json", data), ("node17.json.gz", gzip.compress(data))):
        path = tmp_path / name
        path.write_bytes(content)
        source = open_source((path,))
        assert source.title == name
        assert source.read("/proc/version") == b"Linux 6.8\n"


def test_a_catalogue_machine_is_opened_by_name():
    assert open_source(machine="DGX-H100").title == "catalogue machine dgx-h100"


@pytest.mark.parametrize(
    ("name", "guess"), [("dgx-h10", "dgx-h100"), ("DGXH100", "dgx-h100"), ("rtx4090", "rtx4090-2")]
)
def test_an_unknown_machine_gets_the_list_and_a_guess(name, guess):
    with pytest.raises(UsageError, match=name) as caught:
        open_source(machine=name)
    assert f"Did you mean {guess}?" in caught.value.hint
    assert "l40s-pcie-8" in caught.value.hint
    assert caught.value.exit_code is ExitCode.USAGE


def test_a_name_like_nothing_gets_no_guess():
    with pytest.raises(UsageError) as caught:
        open_source(machine="")
    assert "Did you mean" not in caught.value.hint


def test_files_and_a_machine_exclude_each_other(tmp_path):
    with pytest.raises(UsageError, match="--machine"):
        open_source((tmp_path,), "dgx-h100")


def test_paths_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="No such file") as caught:
        open_source((tmp_path / "absent.json",))
    assert caught.value.hint
    with pytest.raises(InputError, match="is a folder"):
        open_source((tmp_path,))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(InputError, match="is a named pipe"):
        open_source((fifo,))
    monkeypatch.setattr("probes.sources.choose.MAX_GIVEN_BYTES", 10)
    big = tmp_path / "big"
    big.write_bytes(b"x" * 11)
    with pytest.raises(InputError, match="larger"):
        open_source((big,))


def test_standard_input_and_pipes_are_read(monkeypatch):
    text = b"GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-11111111-2222-3333-4444-555555555555)\n"
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    (given,) = open_source((Path("-"),)).given("nvidia-smi-list")
    assert (given.name, given.text) == ("standard input", text.decode())
    receive, send = os.pipe()
    os.write(send, text)
    os.close(send)
    assert open_source((Path(f"/dev/fd/{receive}"),)).given("nvidia-smi-list")
    os.close(receive)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="standard input"):
        open_source((Path("-"),))


def test_a_file_of_no_known_kind_is_named(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("buy milk")
    with pytest.raises(InputError, match=r"notes\.txt") as caught:
        open_source((path,))
    assert "rigtune list kinds" in caught.value.hint
