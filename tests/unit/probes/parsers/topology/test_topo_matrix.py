"""`nvidia-smi topo -m` in the shapes that people paste."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Reason, Unknown
from probes.facts import Link
from probes.parsers.topology.topo_matrix import TopoMatrix, parse_topo_matrix

LEGEND = (
    "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n"
)
FULL = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\tSYS\t0-51,104-155\t0\t\tN/A\n"
    "GPU1\tNV18\t X \tSYS\tPXB\t52-103\t1\t\tN/A\n"
    "NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n"
    "NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t\n" + LEGEND + "\nNIC Legend:\n\n  NIC0: mlx5_1\n  NIC1: mlx5_12\n\n"
)


def parsed(text: str) -> TopoMatrix:
    matrix = parse_topo_matrix(text)
    assert isinstance(matrix, TopoMatrix), matrix
    return matrix


def kinds(matrix: TopoMatrix) -> dict[tuple[str, str], str]:
    return {(link.a, link.b): f"{link.kind}{link.nvlink_count or ''}" for link in matrix.named_links()}


WANTED = {
    ("GPU0", "GPU1"): "NVLINK18",
    ("GPU0", "mlx5_1"): "PIX",
    ("GPU0", "mlx5_12"): "SYS",
    ("GPU1", "mlx5_1"): "SYS",
    ("GPU1", "mlx5_12"): "PXB",
    ("mlx5_1", "mlx5_12"): "SYS",
}


@pytest.mark.parametrize(
    "text",
    [
        FULL,
        FULL.replace("\n", "\r\n"),
        FULL.replace("\x1b", "^["),
        FULL.replace("\x1b", ""),
        FULL.replace("\t", "    "),
        FULL.replace("NIC1\tCPU Affinity", "NIC1CPU Affinity"),
        FULL.replace("GPU0\tGPU1\tNIC0", "GPU0GPU1NIC0"),
        f"root@node:~# nvidia-smi topo -m\n{FULL}root@node:~# ",
        FULL.replace("NIC0\tPIX\tSYS\t X \tSYS\t\t\t\t\n", ""),
    ],
    ids=[
        "whole",
        "crlf",
        "caret",
        "escape lost",
        "tabs lost",
        "glued column",
        "glued devices",
        "prompt",
        "a row lost",
    ],
)
def test_links_survive_how_the_matrix_was_pasted(text: str) -> None:
    assert kinds(parsed(text)) == WANTED


def test_affinity_columns() -> None:
    first, second = parsed(FULL).gpus
    assert (first.cpu_affinity, first.numa_node) == ("0-51,104-155", 0)
    assert (second.cpu_affinity, second.numa_node) == ("52-103", 1)


@pytest.mark.parametrize(
    ("cell", "reason"), [("", Reason.NOT_SUPPORTED), ("0-1", Reason.NOT_SUPPORTED), ("?", Reason.UNPARSABLE)]
)
def test_no_single_numa_node_is_unknown(cell: str, reason: Reason) -> None:
    node = parsed(FULL.replace("0-51,104-155\t0\t", f"0-51,104-155\t{cell}\t")).gpus[0].numa_node
    assert isinstance(node, Unknown)
    assert node.reason is reason


def test_a_gpu_with_numa_node_na_has_none() -> None:
    assert parsed(FULL.replace("0-51,104-155\t0\t", "0-51,104-155\tN/A\t")).gpus[0].numa_node is None


def test_old_drivers_say_soc() -> None:
    assert kinds(parsed(FULL.replace("SYS", "SOC"))) == WANTED


def test_old_drivers_name_nics_in_the_header() -> None:
    text = FULL.replace("NIC0", "mlx5_1").replace("NIC1", "mlx5_12").replace("\tGPU NUMA ID", "")
    assert kinds(parsed(text)) == WANTED


def test_a_cut_cell_is_taken_from_the_other_row() -> None:
    text = FULL.replace("GPU0\t X \tNV18\tPIX\tSYS\t0-51", "GPU0\t X \tNV18\tPIX\tSY0-51")
    assert kinds(parsed(text)) == WANTED
    assert isinstance(parsed(text).gpus[0].cpu_affinity, Unknown)


def test_contradiction_between_rows_is_unknown() -> None:
    text = FULL.replace("NIC0\tPIX", "NIC0\tSYS")
    kind = next(link.kind for link in parsed(text).links if (link.a, link.b) == ("GPU0", "NIC0"))
    assert isinstance(kind, Unknown)
    assert "PIX" in kind.detail
    assert "SYS" in kind.detail


def test_a_shifted_row_is_ignored() -> None:
    text = "\tGPU0\tGPU1\tGPU2\nGPU0\tX\tPIX\tSYS\nGPU1\tX\tSYS\nGPU2\tSYS\tSYS\tX\n"
    assert kinds(parsed(text)) == {("GPU0", "GPU1"): "PIX", ("GPU0", "GPU2"): "SYS", ("GPU1", "GPU2"): "SYS"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.\n",
        " \tGPU0\tGPU1\t\n GPU0\tX\tGNS\t\n GPU1\tGNS\tX\t\n",
        "       GPU0         GPU1\nGPU0   0            XGMI\nGPU1   XGMI         0\n",
        "\tGPU0\tGPU1\tCPU Affinity\n",
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
    ],
    ids=["empty", "windows", "p2p", "rocm", "header only", "no driver"],
)
def test_text_without_a_matrix_is_unknown(text: str) -> None:
    assert isinstance(parse_topo_matrix(text), Unknown)


def test_one_gpu_has_no_links() -> None:
    matrix = parsed("\t^[[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID^[[0m\nGPU0\t X \t0-19\t0\t\tN/A\n")
    assert matrix.links == ()
    assert matrix.gpus[0].cpu_affinity == "0-19"


@pytest.mark.parametrize(
    ("last", "name"),
    [("NIC1: mlx5_2", "mlx5_2"), ("NIC1: mlx5_1", None), ("NIC1: mlx5_", None), ("NIC1: m", None)],
)
def test_the_last_name_of_a_text_without_end_counts_only_where_it_cannot_be_cut(
    last: str, name: str | None
) -> None:
    assert parsed(FULL[: FULL.index("  NIC1:")] + last).nic_names.get("NIC1") == name


CELLS = st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "NV1", "NV2", "NV12", "NV18"])


@st.composite
def matrices(draw: st.DrawFn) -> str:
    gpus, nics = draw(st.integers(1, 12)), draw(st.integers(0, 12))
    names = [*(f"GPU{i}" for i in range(gpus)), *(f"NIC{i}" for i in range(nics))]
    cells = {pair: draw(CELLS) for pair in itertools.combinations(names, 2)}
    gap = draw(st.sampled_from(["\t", "   "]))
    affinity = draw(st.booleans())
    columns = ["CPU Affinity", "NUMA Affinity"] if affinity or len(names) == 1 else []
    lines = [gap + gap.join([*names, *columns])]
    for name in names:
        row = [" X " if other == name else cells.get((name, other)) or cells[other, name] for other in names]
        tail = ["0-15", "1"] if name.startswith("GPU") and columns else []
        lines.append(gap.join([name, *row, *tail]))
    offset = draw(st.integers(0, 3))
    legend = [f"  NIC{i}: mlx5_{i + offset}" for i in range(nics)]
    return draw(st.sampled_from(["\n", "\r\n"])).join(
        [*lines, *LEGEND.split("\n"), "NIC Legend:", "", *legend, ""]
    )


@given(matrices(), st.data())
def test_a_cut_text_never_shows_a_link_that_the_whole_does_not_have(text: str, data: st.DataObject) -> None:
    whole = parsed(text)
    part = parse_topo_matrix(text[: data.draw(st.integers(0, len(text)))])
    if isinstance(part, TopoMatrix):
        assert set(part.links) <= set(whole.links)
        assert part.nic_names.items() <= whole.nic_names.items()
        assert {gpu.index for gpu in part.gpus} <= {gpu.index for gpu in whole.gpus}


@given(matrices())
def test_every_pair_of_a_whole_matrix_has_a_link(text: str) -> None:
    matrix = parsed(text)
    assert len(matrix.links) == len(matrix.devices) * (len(matrix.devices) - 1) // 2
    assert all(isinstance(link, Link) and isinstance(link.kind, str) for link in matrix.links)


@given(st.text(alphabet="GPUNIC0123456789 \t\n\rXSYNVPHBmlx5_CPU Affinity^[[4m-,", max_size=400))
def test_random_text_never_raises(text: str) -> None:
    parse_topo_matrix(text)


@given(st.binary(max_size=600))
def test_bytes_never_raise(data: bytes) -> None:
    parse_topo_matrix(FULL[:80] + data.decode("utf-8", "replace"))


def test_a_matrix_of_thousands_of_devices_is_refused() -> None:
    names = [f"GPU{n}" for n in range(1000)]
    rows = "".join(
        f"{a}\t" + "\t".join("X" if a == b else "SYS" for b in names) + "\t0-3\t0\n" for a in names
    )
    assert isinstance(
        parse_topo_matrix("\t" + "\t".join(names) + "\tCPU Affinity\tNUMA Affinity\n" + rows), Unknown
    )
