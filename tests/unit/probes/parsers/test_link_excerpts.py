"""NVLink, topology and Fabric Manager texts as people paste them.

They lack names, have the bars of a table, or come from the journal.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import known
from probes.facts import Gpu
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.fabric import fabric_manager_log
from probes.parsers.nvidia_smi import nvlink_error_counts as nvlink_errors
from probes.parsers.nvidia_smi import nvlink_status
from probes.parsers.topology import gpu_tables, topo_matrix

CAPABILITIES = (
    "Link 0, P2P is supported: true\nLink 0, SLI is supported: false\nLink 1, P2P is supported: true\n"
)
STATUS = "GPU 2: Tesla V100-SXM2-32GB\n\t Link 0: 25.781 GB/s\n\t Link 1: <inactive>\n"
JOURNAL = (
    "Mar 03 04:05:06 n1 nv-fabricmanager[77]: failed to initialize all the NVSwitches, it does not match "
    "the driver\n"
    "Mar 03 04:05:07 n1 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.\n"
    "Mar 03 04:05:08 n1 systemd[1]: sshd.service: Failed with result 'exit-code'.\n"
)
NODES = (
    "GPU[0]\t\t: (Topology) Numa Node: 1\nGPU[0]\t\t: (Topology) Numa Affinity: 1\n"
    "GPU[1]\t\t: (Topology) Numa Node: -1\n"
)
MARKDOWN = (
    "|      | GPU0 | GPU1 | NIC0 | CPU Affinity |\n|---|---|---|---|---|\n"
    "| GPU0 | X    | NV4  | PIX  | 0-15 |\n| GPU1 | NV4  | X    | SYS  | 16-31 |\n"
)


def ports(gpu: Gpu) -> list[tuple[int, object]]:
    assert known(gpu.nvlinks)
    return [(link.index, link.active if known(link.active) else None) for link in gpu.nvlinks]


def test_a_gpu_without_uuid() -> None:
    assert nvlink_status.recognise(STATUS)
    (gpu,) = nvlink_status.parse_gpus(STATUS)
    assert (gpu.index, gpu.name, ports(gpu)) == (2, "Tesla V100-SXM2-32GB", [(0, True), (1, False)])


def test_capabilities_say_what_ports_there_are() -> None:
    assert nvlink_status.recognise(CAPABILITIES)
    (gpu,) = nvlink_status.parse_gpus(CAPABILITIES)
    assert gpu.index == UNNUMBERED
    assert not known(gpu.name)
    assert ports(gpu) == [(0, None), (1, None)]


def test_capabilities_after_the_state_of_the_same_gpu() -> None:
    (gpu,) = nvlink_status.parse_gpus(
        STATUS + "GPU 2: Tesla V100-SXM2-32GB\n" + CAPABILITIES + "\t Link 4, P2P is supported: true\n"
    )
    assert ports(gpu) == [(0, True), (1, False), (4, None)]


def test_errors_that_were_corrected_are_no_unread_lines() -> None:
    text = "GPU 0: NVIDIA B200\n\t Link 0: Rx Errors: 0\n\t Link 0: FEC Errors - 3: 99\n"
    assert nvlink_errors.unread(text) == ()


def test_lines_of_the_journal() -> None:
    assert fabric_manager_log.recognise(JOURNAL)
    events = fabric_manager_log.parse_fabric_manager_log(JOURNAL)
    assert [(event.fatal is True, event.message[:14]) for event in events] == [
        (True, "failed to init"),
        (False, "nvidia-fabricm"),
    ]
    assert not fabric_manager_log.recognise(JOURNAL.splitlines()[2])


def test_numa_nodes_of_amd_gpus() -> None:
    assert gpu_tables.recognise_rocm(NODES)
    assert [(gpu.index, gpu.numa_node) for gpu in gpu_tables.parse_rocm_gpus(NODES)] == [(0, 1), (1, None)]


def test_a_matrix_as_a_markdown_table() -> None:
    assert topo_matrix.recognise(MARKDOWN)
    links = {(link.a, link.b): (link.kind, link.nvlink_count) for link in topo_matrix.parse_links(MARKDOWN)}
    assert links == {
        ("GPU0", "GPU1"): ("NVLINK", 4),
        ("GPU0", "NIC0"): ("PIX", None),
        ("GPU1", "NIC0"): ("SYS", None),
    }
    assert [gpu.cpu_affinity for gpu in topo_matrix.parse_gpus(MARKDOWN)] == ["0-15", "16-31"]


@pytest.mark.parametrize("text", [STATUS, CAPABILITIES, JOURNAL, NODES, MARKDOWN])
@given(data=st.data())
def test_cut_text_never_raises(text: str, data: st.DataObject) -> None:
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    part = text[start:end]
    gpus = list(gpu_tables.parse_rocm_gpus(part))
    for module in (nvlink_status, nvlink_errors, topo_matrix, fabric_manager_log):
        module.recognise(part)
        gpus += module.parse_gpus(part)
    assert all(gpu.index == UNNUMBERED or str(gpu.index) in part for gpu in gpus)
    fabric_manager_log.parse_fabric_manager_log(part)
