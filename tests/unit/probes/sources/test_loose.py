"""Test that pasted files are recognised by their content, on a corpus of real files."""

from __future__ import annotations

import contextlib
import csv
import gzip
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.errors import InputError
from probes.base.record import NOT_RECORDED
from probes.sources.base import STRANGER
from probes.sources.loose import KINDS, open_loose
from probes.sources.stored import Recording, dump_recording

SHARED = Path(os.environ.get("RIGTUNE_SHARED", "../shared")) / "machines"
XML, TOPOLOGY, NVLINK, IBSTAT = "nvidia-smi-xml", "topology", "nvlink", "ibstat"
SOME = (XML, TOPOLOGY, NVLINK, IBSTAT)

TOPOLOGY_TEXT = (
    "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\n"
    "GPU0\t X \tNV4\tPIX\t0-31\t0\n"
    "GPU1\tNV4\t X \tSYS\t32-63\t1\n"
    "NIC0\tPIX\tSYS\t X \n"
)
NVLINK_TEXT = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n"
IBSTAT_TEXT = (
    "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"
)
XML_TEXT = (
    '<?xml version="1.0" ?>\n<nvidia_smi_log>\n<driver_version>570.1</driver_version>\n</nvidia_smi_log>\n'
)


def _texts(source, kind):
    return [given.text for given in source.given(kind)]


@pytest.mark.parametrize(
    ("kind", "text"),
    [(TOPOLOGY, TOPOLOGY_TEXT), (NVLINK, NVLINK_TEXT), (XML, XML_TEXT), (IBSTAT, IBSTAT_TEXT)],
)
@pytest.mark.parametrize(
    "disguise",
    [
        str.encode,
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: text.encode("utf-16"),
        lambda text: b"\xef\xbb\xbf" + text.encode(),
        lambda text: text.replace("\t", "        ").encode(),
        lambda text: text.replace("\t", "").encode(),
        lambda text: text.replace("GPU0", "\x1b[4mGPU0\x1b[0m", 1).encode(),
        lambda text: text.replace("GPU0", "^[[4mGPU0^[[0m", 1).encode(),
        lambda text: f"$ some command\n{text}\n$ exit\n".encode(),
        lambda text: gzip.compress(text.encode()),
    ],
    ids=["plain", "crlf", "utf-16", "bom", "spaces", "no-tabs", "colours", "carets", "session", "gzip"],
)
def test_a_kind_is_recognised_in_every_disguise(kind, text, disguise):
    source = open_loose([("paste.txt", disguise(text))])
    (text_of_source,) = _texts(source, kind)
    assert "\r" not in text_of_source
    assert "\x1b" not in text_of_source
    for other in {row.id for row in KINDS} - {kind}:
        assert _texts(source, other) == []


def test_files_of_several_kinds_are_one_machine():
    tree = {"/sys/class/infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n"}
    recording = Recording(title="node17", env={"HOME": "/home/user"})
    source = open_loose(
        [
            ("/tmp/a", TOPOLOGY_TEXT.encode()),  # noqa: S108 - a name, no file
            ("b", (NVLINK_TEXT + XML_TEXT + IBSTAT_TEXT).encode()),
            ("c", json.dumps(tree).encode()),
            ("d", dump_recording(recording)),
        ]
    )
    assert source.title == "a + b + c + d"
    assert all(len(_texts(source, kind)) == 1 for kind in SOME)
    assert source.read("/sys/class/infiniband/mlx5_0/ports/1/state") == b"4: ACTIVE\n"
    assert source.env("HOME") == "/home/user"
    assert source.env("PATH") == NOT_RECORDED


def test_a_tree_answers_files_names_and_links():
    folder = "devices/pci0000:17/0000:17:01.0/0000:18:00.0/infiniband/mlx5_0"
    tree = {
        "/sys/class/infiniband/mlx5_0": f"-> ../../{folder}",
        f"/sys/{folder}/device": "-> ../../../0000:18:00.0",
        f"/sys/{folder}/fw_ver": "28.41.1000\n",
        "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0/numa_node": "1\n",
    }
    source = open_loose([("sysfs.json", json.dumps(tree).encode())])
    device = "/sys/devices/pci0000:17/0000:17:01.0/0000:18:00.0"
    assert source.names("/sys/class/infiniband") == ("mlx5_0",)
    assert source.names("/sys/class/infiniband/mlx5_0") == ("device", "fw_ver")
    assert source.read("/sys/class/infiniband/mlx5_0/fw_ver") == b"28.41.1000\n"
    assert source.link("/sys/class/infiniband/mlx5_0/device") == device
    assert source.read("/sys/class/infiniband/mlx5_0/device/numa_node") == b"1\n"
    assert source.link(device) == device
    assert source.read(device + "/vendor") == NOT_RECORDED


def test_two_trees_are_joined():
    trees = [{"/sys/class/net/eth0/mtu": "1500"}, {"/sys/class/net/eth1/mtu": "9000"}]
    source = open_loose([(str(index), json.dumps(tree).encode()) for index, tree in enumerate(trees)])
    assert source.names("/sys/class/net") == ("eth0", "eth1")
    assert source.read("/sys/class/net/eth1/mtu") == b"9000"


def test_a_recording_keeps_content_that_looks_like_colours():
    recording = Recording(title="x", files={"/etc/motd": "^[[1mhello^[[0m \x1b[0m\r\n"})
    assert (
        open_loose([("x", dump_recording(recording))]).read("/etc/motd")
        == recording.files["/etc/motd"].encode()
    )


def test_contradicting_texts_stand_side_by_side():
    other = NVLINK_TEXT.replace("25", "50")
    source = open_loose([("first", NVLINK_TEXT.encode()), ("second", other.encode())])
    assert _texts(source, NVLINK) == [NVLINK_TEXT, other]


def test_trees_that_contradict_each_other_are_refused():
    first, second = (json.dumps({"/sys/class/net/eth0/mtu": mtu}).encode() for mtu in ("1500", "9000"))
    with pytest.raises(InputError, match=r"second.*differently") as caught:
        open_loose([("first", first), ("second", second)])
    assert caught.value.hint
    assert open_loose([("first", first), ("copy", first)])


@pytest.mark.parametrize(
    "data",
    [
        b"\x00" * 1000,
        b"hello\n",
        b"{}",
        b'{"a": 1}',
        b'{"/sys/a": 1}',
        b'{"relative": "x"}',
        b"\xff\xfe\x00",
        b"{" * 100_000,
    ],
)
def test_an_unknown_text_is_refused_with_the_known_kinds(data):
    with pytest.raises(InputError, match=r"paste\.txt") as caught:
        open_loose([("paste.txt", data)])
    assert "rigtune list kinds" in caught.value.hint
    beside = open_loose([("good", XML_TEXT.encode()), ("paste.txt", data)])
    assert [given.name for given in beside.given(STRANGER)] == ["paste.txt"]


@pytest.mark.parametrize(
    "text",
    [
        "GPU0 " * 200_000,
        "GPU0 X " * 100_000,
        "GPU0 X" + " a" * 500_000,
        "GPU 0: " + " (UUID: " * 100_000,
        "GPU 0: " + "\n" * 500_000,
        "CA 'a'" + " " * 500_000,
        json.dumps({"/sys/" + "a/" * 200_000: "1"}),
        '{"/sys/a":' + "[" * 1_000_000,
        '{"format": "rigtune-recording", "title": ' + "[" * 1_000_000,
    ],
    ids=[
        "one line",
        "cells",
        "blanks",
        "names",
        "empty lines",
        "a name",
        "a deep path",
        "JSON bomb",
        "recording bomb",
    ],
)
def test_a_hostile_paste_is_refused(text):
    with pytest.raises(InputError):
        open_loose([("paste", text.encode())])


def test_a_damaged_recording_is_reported_as_damaged():
    with pytest.raises(InputError, match="readable recording"):
        open_loose([("node17.json", dump_recording(Recording(title="node17"))[:-30])])


@given(
    st.binary(max_size=300)
    | st.text(alphabet='GPU0123 X\t\nNVSYPIC:()LinkUD{}"/', max_size=200).map(str.encode)
)
def test_any_paste_is_a_source_or_an_input_error(data):
    with contextlib.suppress(InputError):
        assert open_loose([("paste", data)]).title == "paste"


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the recorded outputs of RIGTUNE_SHARED")
def test_every_real_file_is_recognised_as_its_kind():
    """Collectors would read nonsense from a file that is recognised as a wrong kind."""
    wrong = []
    with (SHARED / "INDEX.csv").open(newline="") as index:
        rows = list(csv.DictReader(index))
    for row in rows:
        path, name = SHARED / row["path"], Path(row["path"]).name
        if not path.is_file():
            continue
        expected = None
        if row["kind"] == "nvsmi_xml":
            expected = XML
        elif row["kind"] == "topo_m" and not name.startswith(("p2p-", "amd-")):
            expected = TOPOLOGY
        elif row["kind"] == "nvlink" and name.startswith("status-"):
            expected = NVLINK
        elif row["kind"] == "ib" and name.startswith("ibstat-"):
            expected = IBSTAT
        try:
            source = open_loose([(name, path.read_bytes())])
        except InputError:
            recognised = set()
        else:
            recognised = {kind for kind in SOME if _texts(source, kind)}
        if recognised != ({expected} if expected else set()):
            wrong.append((row["path"], expected, recognised))
    assert rows
    assert wrong == []
