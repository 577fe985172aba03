"""Test `rigtune check` on a matrix of `nvidia-smi topo -m` without any other text."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from assistant.cli import command_line
from tests.support.recordings import MACHINES

Kind = Callable[[str, str], str]
NODES = {f"GPU{n}": n // 4 for n in range(8)} | {f"NIC{n}": n // 4 for n in range(8)}


def matrix(kind: Kind, *, nics: int = 8, nodes: dict[str, int] | None = None, gpus: int = 8) -> str:
    """Return the matrix as the driver prints it."""
    nodes = NODES if nodes is None else nodes
    devices = [f"GPU{n}" for n in range(gpus)] + [f"NIC{n}" for n in range(nics)]
    lines = ["\t" + "\t".join(devices) + "\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n"]
    for row in devices:
        cells = [" X " if row == column else kind(row, column) for column in devices]
        affinity = f"\t{nodes[row] * 56}-{nodes[row] * 56 + 55}\t{nodes[row]}\t\tN/A" if row[0] == "G" else ""
        lines.append(f"{row}\t" + "\t".join(cells) + affinity + "\n")
    return "".join(lines)


def board(near: Kind, nodes: dict[str, int] | None = None) -> Kind:
    """Return the kinds of an NVSwitch board; if `near` returns no kind, the NUMA nodes decide."""
    places = NODES if nodes is None else nodes

    def kind(a: str, b: str) -> str:
        if a[0] == b[0] == "G":
            return "NV18"
        gpu, nic = (a, b) if a[0] == "G" else (b, a)
        fallback = "NODE" if places.get(a, 0) == places.get(b, 0) else "SYS"
        return (near(gpu, nic) if gpu[0] == "G" else "") or fallback

    return kind


def own_rail(gpu: str, nic: str) -> str:
    return "PIX" if gpu[3:] == nic[3:] else ""


def first_seven(gpu: str, nic: str) -> str:
    return "" if gpu == "GPU7" else own_rail(gpu, nic)


SIX_AND_TWO = NODES | {"GPU4": 0, "GPU5": 0}
ONE_SIDE = NODES | {f"NIC{n}": 0 for n in range(8)}
ACROSS = {"GPU0": 0, "GPU1": 1, "GPU2": 0, "GPU3": 1}


def bridged(a: str, b: str) -> str:
    return "NV4" if {a, b} in ({"GPU0", "GPU1"}, {"GPU2", "GPU3"}) else "SYS"


@pytest.mark.parametrize(
    ("text", "check_id", "verdict"),
    [
        (matrix(board(own_rail)), "gpu-nic-affinity", "PASS GPU0-7"),
        (matrix(board(first_seven)), "gpu-nic-affinity", "WARN GPU7"),
        (
            matrix(board(lambda gpu, nic: "", ONE_SIDE)),
            "gpu-nic-affinity",
            "WARN host",
        ),
        (matrix(board(lambda gpu, nic: "SYS")), "gpu-nic-affinity", "WARN host"),
        (
            matrix(board(own_rail), nodes={**NODES, **SIX_AND_TWO}),
            "gpu-sockets",
            "WARN host",
        ),
        (matrix(board(own_rail)), "gpu-sockets", "PASS host"),
        (matrix(bridged, gpus=4, nics=0, nodes=ACROSS), "nvlink-mesh", "WARN GPU0-3"),
        (
            matrix(bridged, gpus=4, nics=0, nodes={"GPU0": 0, "GPU1": 0, "GPU2": 1, "GPU3": 1}),
            "nvlink-mesh",
            "PASS GPU0-3",
        ),
        (matrix(board(lambda gpu, nic: "PHB"), nics=4), "topology-visible", "PASS host"),
        (
            matrix(lambda a, b: "NV12" if a[0] == b[0] == "G" else "PHB"),
            "topology-visible",
            "WARN host",
        ),
        (matrix(lambda a, b: "PHB", nics=0), "topology-visible", "WARN host"),
    ],
)
def test_a_matrix_alone_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, check_id: str, verdict: str
) -> None:
    findings = check(tmp_path, capsys, text)
    assert verdict in {
        f"{finding['status']} {finding['subject']}" for finding in findings if finding["check_id"] == check_id
    }


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> list[dict[str, str]]:
    path = tmp_path / "input.txt"
    path.write_text(text)
    command_line(["check", "--from", str(path), "--format", "json"])
    findings: list[dict[str, str]] = json.loads(capsys.readouterr().out)["findings"]
    return findings


@pytest.mark.parametrize(
    ("name", "check_id", "status"),
    [
        ("gb200-4x-8nic-gpu-numa-id", "gpu-nic-affinity", "UNKNOWN"),
        ("gb200-4x-8nic-gpu-numa-id", "topology-visible", "UNKNOWN"),
        ("h20-8x-8nic-rail-optimized", "gpu-nic-affinity", "PASS"),
        ("h100-8x-6nic-cgroup-affinity", "gpu-nic-affinity", "PASS"),
        ("v100-sxm2-32gb-8x-1nic", "gpu-nic-affinity", "PASS"),
        ("a100-8x-10nic-nps4", "gpu-sockets", "PASS"),
        ("pcie-6x-pix-node-sys", "gpu-sockets", "WARN"),
        ("azure-ndv2-v100-8x", "topology-visible", "WARN"),
    ],
)
def test_recorded_matrices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, check_id: str, status: str
) -> None:
    path = MACHINES / "topo_m" / f"{name}.txt"
    if not path.exists():
        pytest.skip("the recorded machines are not here")
    findings = check(tmp_path, capsys, path.read_text())
    assert {finding["status"] for finding in findings if finding["check_id"] == check_id} == {status}


HEADER = "\tGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\n"
SECOND = "GPU1\tNV4\t X \tSYS\tPIX\t16-31\t1\n"


@pytest.mark.parametrize(
    ("row", "words", "kinds"),
    [
        ("GPU0\t X \tNV4PIX\tSYS\t0-15\t0\n", "realigned", {"GPU0 NIC0": "PIX", "GPU0 NIC1": "SYS"}),
        ("GPU0\t X \t\tPIX\tSYS\t0-15\t0\n", "is empty", {"GPU0 NIC0": "PIX", "GPU0 NIC1": "SYS"}),
        ("GPU0\t X \tNV4\tC2C\tSYS\t0-15\t0\n", "C2C", {"GPU0 NIC0": None, "GPU0 NIC1": "SYS"}),
    ],
)
def test_a_doubtful_row_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], row: str, words: str, kinds: dict[str, str | None]
) -> None:
    path = tmp_path / "input.txt"
    path.write_text(HEADER + row + SECOND)
    assert command_line(["probe", "--from", str(path), "--format", "json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    links = {f"{link['a']} {link['b']}": link["kind"] for link in facts["links"]}
    assert {pair: kind if isinstance(kind, str) else None for pair, kind in links.items()}.items() >= (
        kinds | {"GPU0 GPU1": "NVLINK", "GPU1 NIC1": "PIX"}
    ).items()
    [unread] = facts["unread"]
    assert words in unread["why"]
    assert unread["line"] == 2
