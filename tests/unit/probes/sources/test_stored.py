"""Test that recordings return identical answers, and that damage is detected."""

from __future__ import annotations

import gzip
import json
import string
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import InputError
from probes.base.record import NOT_RECORDED, Reason, Unknown
from probes.sources.base import CommandResult
from probes.sources.recording import RecordingSource
from probes.sources.stored import Recording, StoredSource, dump_recording, load_recording

_words = st.text(max_size=12)
_unknowns = st.builds(Unknown, st.sampled_from(Reason), _words)
_bytes = st.binary(max_size=40) | _words.map(str.encode)
_segments = st.text(string.ascii_lowercase, min_size=1, max_size=2)
_paths = st.lists(_segments, min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
_plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | _words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_words, inner, max_size=3),
    max_leaves=6,
)
_results = st.builds(
    CommandResult,
    exit_code=st.integers(-64, 255),
    stdout=_bytes,
    stderr=_bytes,
    failure=st.none() | _unknowns,
)


class FixedSource:
    """A source that answers from tables; any other question fails the test."""

    title = "fixed"

    def __init__(self, *, commands=(), files=(), directories=(), links=(), calls=(), env=()):
        self.commands, self.files, self.directories = dict(commands), dict(files), dict(directories)
        self.links, self.calls, self.environment = dict(links), dict(calls), dict(env)

    def run(self, argv, *, timeout_s=10.0):
        return self.commands[argv]

    def read(self, path):
        return self.files[path]

    def names(self, directory):
        return self.directories[directory]

    def link(self, path):
        return self.links[path]

    def nvml(self, call, *args):
        return self.calls[call, args]

    def env(self, name):
        return self.environment[name]


def _ask(source, inner):
    return (
        {argv: source.run(argv) for argv in inner.commands},
        {path: source.read(path) for path in inner.files},
        {path: source.names(path) for path in inner.directories},
        {path: source.link(path) for path in inner.links},
        {(call, args): source.nvml(call, *args) for call, args in inner.calls},
        {name: source.env(name) for name in inner.environment},
    )


_sources = st.builds(
    FixedSource,
    commands=st.dictionaries(st.lists(_words, min_size=1, max_size=3).map(tuple), _results, max_size=3),
    files=st.dictionaries(_paths, _bytes | _unknowns, max_size=4),
    directories=st.dictionaries(_paths, st.lists(_words, max_size=3).map(tuple) | _unknowns, max_size=4),
    links=st.dictionaries(_paths, _paths | _unknowns, max_size=4),
    calls=st.dictionaries(
        st.tuples(_words, st.lists(st.integers(0, 20), max_size=2).map(tuple)), _plain | _unknowns, max_size=4
    ),
    env=st.dictionaries(_words, st.none() | _words | _unknowns, max_size=3),
)


@given(_sources, st.booleans())
def test_a_replayed_recording_gives_identical_answers(inner, compressed):
    recorder = RecordingSource(inner)
    live_answers = _ask(recorder, inner)
    data = dump_recording(recorder.recording("machine"))
    recording = load_recording(gzip.compress(data, 1) if compressed else data, "machine.json")
    assert _ask(StoredSource(recording), inner) == live_answers == _ask(inner, inner)


@given(_sources, _paths)
def test_questions_that_were_never_asked_are_not_recorded(inner, path):
    inner.links.clear()
    recorder = RecordingSource(inner)
    _ask(recorder, inner)
    source = StoredSource(recorder.recording("machine"))
    for table, question in ((inner.files, source.read), (inner.directories, source.names)):
        if path not in table:
            assert question(path) == NOT_RECORDED
    assert source.run(("never", "asked", "in", "here")).failure == NOT_RECORDED
    assert source.nvml("nvmlDeviceGetNothing", 99) == NOT_RECORDED
    assert source.env("never asked in here") == NOT_RECORDED


def test_a_path_is_found_through_recorded_links():
    source = StoredSource(
        Recording(
            title="x",
            files={"/sys/devices/pci0000:00/0000:01:00.0/vendor": "0x10de\n"},
            directories={"/sys/devices/pci0000:00/0000:01:00.0": ("vendor",)},
            links={
                "/sys/class/net/eth0/device": "/sys/bus/pci/devices/0000:01:00.0",
                "/sys/bus/pci/devices/0000:01:00.0": "/sys/devices/pci0000:00/0000:01:00.0",
                "/sys/round/a": "/sys/round/b",
                "/sys/round/b": "/sys/round/a",
            },
        )
    )
    assert source.read("/sys/class/net/eth0/device/vendor") == b"0x10de\n"
    assert source.names("/sys/class/net/eth0/device") == ("vendor",)
    assert source.link("/sys/class/net/eth0/device/vendor") == "/sys/devices/pci0000:00/0000:01:00.0/vendor"
    assert source.read("/sys/round/a/vendor") == NOT_RECORDED
    assert source.link("/sys/elsewhere") == NOT_RECORDED


def test_text_stays_readable_and_bytes_survive():
    inner = FixedSource(
        commands={("a",): CommandResult(stdout=b"\xff\xfe")},
        files={"/t": "Größe\n".encode(), "/b": b"\x00\xff"},
    )
    recorder = RecordingSource(inner)
    _ask(recorder, inner)
    document = json.loads(dump_recording(recorder.recording("x")))
    assert document["format"] == "rigtune-recording"
    assert document["schema_version"] == 1
    assert document["files"]["/t"] == "Größe\n"
    assert document["files"]["/b"] == {"base64": "AP8="}


def test_threads_share_one_recorder():
    inner = FixedSource(files={f"/{number}": str(number).encode() for number in range(200)})
    recorder = RecordingSource(inner)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(recorder.read, inner.files))
    assert set(recorder.recording("x").files) == set(inner.files)


RECORDING = dump_recording(
    Recording(title="node17", created="2026-01-01T00:00:00+00:00", files={"/proc/version": "Linux 6.8\n"})
)


def _error(data: bytes) -> InputError:
    with pytest.raises(InputError) as caught:
        load_recording(data, "node17.json")
    assert "node17.json" in caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize("cut", range(0, len(RECORDING) - 2, 7))
def test_a_truncated_recording_is_noticed(cut):
    _error(RECORDING[:cut])


@pytest.mark.parametrize("cut", range(3, len(gzip.compress(RECORDING)) - 1, 9))
def test_a_truncated_gzip_is_noticed(cut):
    assert "gzip" in _error(gzip.compress(RECORDING)[:cut]).message


def test_an_edited_recording_is_noticed_and_can_be_accepted():
    edited = RECORDING.replace(b"Linux 6.8", b"Linux 6.9")
    error = _error(edited)
    assert "changed" in error.message
    assert "checksum" in error.hint
    document = json.loads(edited)
    document["checksum"] = ""
    accepted = load_recording(json.dumps(document).encode(), "node17.json")
    assert StoredSource(accepted).read("/proc/version") == b"Linux 6.9\n"
    assert load_recording(json.dumps(json.loads(RECORDING)).encode(), "reformatted.json").title == "node17"


def test_a_newer_recording_names_both_versions():
    document = json.loads(RECORDING) | {"schema_version": 2, "news": True}
    error = _error(json.dumps(document).encode())
    assert "version 2" in error.message
    assert "Update" in error.hint


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"format": "another"}',
        b'{"format": 5}',
        b"\x1f\x8b",
        b"\xff\xff\xff",
        b"[" * 100_000,
        b'{"format": "rigtune-recording"}',
        b'{"format": "rigtune-recording", "schema_version": "one", "title": ""}',
        b'{"format": "rigtune-recording", "schema_version": 1, "title": "", '
        b'"files": {"/a": {"base64": "%%%"}}}',
        b'{"format": "rigtune-recording", "schema_version": 1, "title": "", "nvml": [{"call": "a", "value": '
        + b"[" * 100_000,
        b'{"format": "rigtune-recording", "schema_version": 1, "title": "", "surprise": 1}',
    ],
)
def test_foreign_and_damaged_files_are_refused(data):
    _error(data)


def test_a_gzip_bomb_is_refused(monkeypatch):
    monkeypatch.setattr("probes.sources.stored.MAX_GIVEN_BYTES", 1 << 20)
    assert "MiB" in _error(gzip.compress(bytes(1 << 22))).message


@given(st.binary(max_size=200))
def test_any_bytes_are_a_recording_or_an_input_error(data):
    for file in (data, gzip.compress(data, 1), RECORDING[:100] + data, data + RECORDING):
        try:
            load_recording(file, "x")
        except InputError:
            continue


def test_an_empty_recording_answers_nothing():
    source = StoredSource(load_recording(dump_recording(Recording(title="empty")), "x"))
    assert source.read("/") == NOT_RECORDED
    assert source.names("") == NOT_RECORDED
