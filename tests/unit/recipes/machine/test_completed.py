"""Nodes that options describe: a GPU in any spelling, and pastes that do not name their GPUs."""

from __future__ import annotations

import json

import pytest

from assistant.cli import command_line
from tests.support.recordings import MACHINES, needs_recordings

TOPOLOGY = MACHINES / "topo_m" / "a100-8x-nv12-10nic-2numa.txt"


def _plan(capsys, *words):
    code = command_line(["plan", "llama-3-8b", *words, "--format", "json"])
    out, err = capsys.readouterr()
    return code, json.loads(out)["cluster"] if code == 0 else err


@pytest.mark.parametrize(
    "spelling", ["H100", "h100-sxm", "NVIDIA H100 80GB HBM3", "H100-SXM-80GB", "H100 SXM5"]
)
def test_any_spelling_of_a_gpu_that_predict_understands(capsys, spelling):
    code, cluster = _plan(capsys, "--gpu", spelling, "--nodes", "2", "--network", "8x400G IB")
    assert code == 0
    assert (cluster["gpu"], cluster["ranks_per_node"], cluster["nodes"]) == ("h100-sxm", 8, 2)
    assert cluster["transport"] == "infiniband"
    assert cluster["inter_bus_bandwidth_bytes_per_s"]["value"] == pytest.approx(0.9 * 8 * 50e9)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--gpu", "H1000"), "did you mean h100-sxm"),
        (("--gpu", ""), "is not in the catalogue"),
        (("--gpu", "H100\x1b[31m"), "is not in the catalogue"),
        (("--gpu", "H100", "--machine", "dgx-h100"), "both describe the nodes"),
        (("--gpu", "H100", "--gpus", "100000"), "is per node"),
        (("--gpu", "H100", "--gpus", "0"), "--gpus is 0"),
        (("--gpu", "H100", "--nodes", "2", "--network", "fast"), "neither a rate nor a transport"),
        (("--gpu", "H100", "--gpus", "4", "--ranks-per-node", "8"), "4 usable GPUs"),
        (("--gpus", "8"), "give --gpu NAME too"),
        (("--network", "400G"), "give --gpu NAME too"),
    ],
)
def test_wrong_parts_are_named(capsys, words, problem):
    code, err = _plan(capsys, *words)
    assert code == 2
    assert problem in err
    assert "\x1b" not in err


@needs_recordings
def test_a_pasted_topology_is_completed_by_the_gpu(capsys):
    if not TOPOLOGY.exists():
        pytest.skip("the recording is absent")
    code, cluster = _plan(capsys, "--from", str(TOPOLOGY), "--gpu", "A100", "--nodes", "2")
    assert code == 0
    assert (cluster["gpu"], cluster["ranks_per_node"]) == ("a100-sxm4-80gb", 8)
    assert cluster["fabric"] == "nvswitch"
    code, err = _plan(capsys, "--from", str(TOPOLOGY), "--gpu", "A100", "--gpus", "4")
    assert code == 2
    assert "--gpus 4, but" in err
    assert "shows 8 GPUs" in err


@needs_recordings
def test_a_gpu_that_contradicts_the_recording_is_refused(capsys):
    path = MACHINES / "nvsmi_xml" / "hw-t4.xml"
    code, err = _plan(capsys, "--from", str(path), "--gpu", "H100")
    assert code == 2
    assert "shows 'Tesla T4'" in err


def test_the_ports_of_a_paste_are_kept_and_must_not_be_contradicted(capsys, tmp_path):
    text = "".join(
        f"CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n"
        "\t\tPhysical state: LinkUp\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
        for n in range(4)
    )
    (tmp_path / "ibstat.txt").write_text(text)
    paste = ("--from", str(tmp_path / "ibstat.txt"), "--gpu", "H100", "--nodes", "2")
    code, cluster = _plan(capsys, *paste)
    assert code == 0
    assert cluster["ranks_per_node"] == 8
    assert cluster["inter_bus_bandwidth_bytes_per_s"]["value"] == pytest.approx(0.9 * 4 * 50e9)
    code, err = _plan(capsys, *paste, "--network", "8x400G IB")
    assert code == 2
    assert "4 x 400 Gb/s RDMA" in err


def test_auto_measures_no_other_nodes(capsys, tmp_path):
    words = ["auto", "llama-3-8b", "--gpu", "H100", "--out", str(tmp_path / "x")]
    assert command_line(words) == 2
    assert "rigtune plan MODEL --gpu NAME" in capsys.readouterr().err
