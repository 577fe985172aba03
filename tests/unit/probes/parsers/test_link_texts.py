"""Reports of tools and logs about the links between GPUs and about NVSwitches."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import Unknown
from probes.facts import Gpu, Link
from probes.facts.gpu_facts import UNNUMBERED
from probes.parsers.fabric import fabric_manager_log
from probes.parsers.nvidia_smi import nvlink_error_counts as nvlink_errors
from probes.parsers.nvidia_smi import nvlink_status
from probes.parsers.tools import dcgm_nvlink
from probes.parsers.topology import gpu_tables, topo_matrix
from tests.support.mutations import mutated

P2P = (
    "$ nvidia-smi topo -p2p w\n \tGPU0\tGPU1\tGPU2\t\n GPU0\tX\tOK\tCNS\t\n GPU1\tOK\tX\tCNS\t\n "
    "GPU2\tCNS\tCNS\tX\t\n\nLegend:\n\n"
    "  X    = Self\n  OK   = Status Ok\n  CNS  = Chipset not supported\n"
)
ROCM = (
    "========== Link Type between two GPUs ==========\n       GPU0         GPU1         GPU2\n"
    "GPU0   0            XGMI         PCIE\nGPU1   XGMI         0            XGMI\n"
    "GPU2   PCIE         XGMI         0\n"
)
ERRORS = (
    "=== GPU 1 ===\nGPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\n\t Link 0: Replay Errors: 3\n"
    "\t Link 0: Recovery Errors: 1\n"
    "\t Link 0: CRC Errors: 65535\n\n\t Links 1-2, 4: Replay/Recovery/CRC Errors: 0\n"
)
NEW_ERRORS = (
    "GPU 0: NVIDIA B200 (UUID: GPU-bb)\n\t Link 0: Malformed packet Errors: 0\n"
    "\t Link 0: Local link integrity Errors: 7\n"
    "\t Link 0: Link recovery successful events: 9\n\t Link 0: Total link recovery events: 2\n"
    "\t Link 0: Symbol Errors: 1000\n"
)
DCGM_STATES = (
    "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n    gpuId 0:\n"
    "        U U D X _ _\n"
    "    gpuId 3:\n        U U U U _ _\nNvSwitches:\n    physicalId 8:\n        U U U U U U\n\n"
    "Key: Up=U, Down=D, Disabled=X, Not Supported=_\n"
)
DCGM_ERRORS = (
    "| NVLINK Error Counts                                     |\n"
    "| GPU 2                                                   |\n"
    "| Link 0                      |                           |\n"
    "| -> CRC FLIT Error           | 1                         |\n"
    "| -> CRC Data Error           | 5                         |\n"
    "| -> Replay Error             | 0                         |\n"
    "| -> Recovery Error           | Not Supported             |\n"
)
MANAGER = (
    "Fabric Manager Log initializing at: 1/2/2026 00:00:00.000\n"
    "[Jan 02 2026 00:00:01] [ERROR] [tid 7] failed to find the GPU handle 10187860174420860981 in the "
    "multicast team request setup 1.\n"
    "[Jan 02 2026 00:00:02] [ERROR] [tid 7] failed to find the GPU handle 20187860174420860981 in the "
    "multicast team request setup 1.\n"
    "Fabric Manager Log initializing at: 1/3/2026 00:00:00.000\n"
    "[Jan 03 2026 00:00:00] [INFO] [tid 9] Fabric Manager version 550.54.15 is running with the following "
    "configuration options\n"
    "  Index: 00  Physical Id: 0  PCI Bus ID: 00000000:83:00.0  Enabled Link Mask: ffff  Arch Type: 3  UUID "
    ": SWX-1\n"
    "[Jan 03 2026 00:00:01] [INFO] [tid 9] fid: 0  Physical ID: 7  Index: 56064  Handle: 9026da78  PCI Bus "
    "ID: 00000000:DB:00.0  "
    "Discovered Link Mask: 3ffff\n"
    "[Jan 03 2026 00:00:02] [ERROR] [tid 9] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci "
    "bus id 00000000:83:00.0 "
    "physical id 0 port 34\n"
    "[Jan 03 2026 00:00:03] [ERROR] [tid 9] detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci "
    "bus id 00000000:83:00.0 "
    "physical id 0 port 35\n"
    "[Jan 03 2026 00:00:04] [ERROR] [tid 9] detected number of NVSwitches don't match with any supported "
    "system topology, aborting "
    "fabric manager\n"
    "[Jan 03 2026 00:00:05] [ERROR] [tid 9] request failed with error:WARNING Nothing to do "
    "[NV_WARN_NOTHING_TO_DO]\n"
)


def test_each_direction_of_peer_access_with_what_was_asked() -> None:
    access = {(pair.a, pair.b): (pair.capability, pair.status) for pair in gpu_tables.parse_peer_access(P2P)}
    assert len(access) == 6
    assert access["GPU0", "GPU2"] == ("write", "CNS")
    assert access["GPU1", "GPU0"] == ("write", "OK")
    assert [gpu.index for gpu in gpu_tables.parse_p2p_gpus(P2P)] == [0, 1, 2]


def test_a_table_without_its_command_has_the_capability_access() -> None:
    (pair, *_) = gpu_tables.parse_peer_access(P2P.partition("\n")[2])
    assert pair.capability == "access"


def test_a_cut_row_of_peer_access_is_named() -> None:
    text = P2P[: P2P.index("CNS\tCNS") + 1]
    (line,) = gpu_tables.unread_p2p(text + "\tzz") or gpu_tables.unread_p2p(
        P2P.replace("GPU1\tOK\tX\tCNS", "GPU1\tOK\tX")
    )
    assert line.why == "2 of 3 cells"


def test_links_of_amd_gpus() -> None:
    links = {(link.a, link.b): link for link in gpu_tables.parse_rocm_links(ROCM)}
    assert set(links) == {("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU1", "GPU2")}
    assert links["GPU0", "GPU1"].kind == "NVLINK"
    assert links["GPU0", "GPU1"].nvlink_count is None
    assert isinstance(links["GPU0", "GPU2"].kind, Unknown)


def counts(gpu: Gpu) -> dict[int, tuple[object, object, object]]:
    assert isinstance(gpu.nvlinks, tuple)
    return {link.index: (link.replay_errors, link.recovery_errors, link.crc_errors) for link in gpu.nvlinks}


def test_error_counters_of_links_also_where_zeros_were_folded() -> None:
    (gpu,) = nvlink_errors.parse_gpus(ERRORS)
    assert (gpu.index, gpu.name, gpu.uuid) == (1, "NVIDIA A100-SXM4-40GB", "GPU-aa")
    assert counts(gpu) == {0: (3, 1, 65535), 1: (0, 0, 0), 2: (0, 0, 0), 4: (0, 0, 0)}
    assert isinstance(gpu.nvlinks, tuple)
    assert all(isinstance(link.active, Unknown) for link in gpu.nvlinks)


def test_error_counters_of_nvlink_5() -> None:
    (gpu,) = nvlink_errors.parse_gpus(NEW_ERRORS)
    assert counts(gpu) == {0: (Gpu(index=0).name, 2, 7)}


def test_an_error_line_without_a_number_is_named() -> None:
    (line,) = nvlink_errors.unread(ERRORS.replace("Replay Errors: 3", "Replay Errors: N/A"))
    assert line.line == 3


def test_states_of_dcgm() -> None:
    first, second = dcgm_nvlink.parse_gpus(DCGM_STATES)
    assert isinstance(first.nvlinks, tuple)
    assert [(link.index, link.active, link.disabled) for link in first.nvlinks] == [
        (0, True, False),
        (1, True, False),
        (2, False, False),
        (3, False, True),
    ]
    assert (first.index, second.index) == (0, 3)
    assert isinstance(second.nvlinks, tuple)
    assert len(second.nvlinks) == 4


def test_counters_of_dcgm() -> None:
    (gpu,) = dcgm_nvlink.parse_gpus(DCGM_ERRORS)
    assert gpu.index == 2
    assert counts(gpu) == {0: (0, Gpu(index=0).name, 5)}
    assert dcgm_nvlink.unread(DCGM_ERRORS.replace("| 5 ", "| abc ")) != ()


def test_the_fabric_managers_log() -> None:
    events = fabric_manager_log.parse_fabric_manager_log(MANAGER)
    assert [
        (event.kind, event.code, event.device, event.fatal, event.count, event.settled) for event in events
    ] == [
        ("fabric-manager", None, None, Gpu(index=0).name, 2, True),
        ("sxid", 12028, "0000:83:00", False, 2, False),
        ("fabric-manager", None, None, True, 1, False),
    ]
    assert events[1].line == 8
    assert events[1].last_time == "Jan 03 2026 00:00:03"


def test_the_inventory_of_the_fabric_manager() -> None:
    assert [(device.bus_id, device.kind) for device in fabric_manager_log.parse_devices(MANAGER)] == [
        ("0000:83:00.0", "nvswitch")
    ]
    assert [(gpu.index, gpu.pci_bus_id) for gpu in fabric_manager_log.parse_gpus(MANAGER)] == [
        (UNNUMBERED, "0000:db:00.0")
    ]
    assert fabric_manager_log.parse_version(MANAGER) == "550.54.15"


def test_all_links_inactive_and_a_list_that_was_cut() -> None:
    text = (
        "GPU 6: NVIDIA A100-SXM4-80GB (UUID: GPU-1)\n"
        "NVML: Unable to retrieve NVLink information as all links are inactive\n"
        "GPU 7: NVIDIA A100-SXM4-80GB (UUID: GPU-2)\n\t Link 0: 25 GB/s\n\t [...]\n"
    )
    inactive, cut = nvlink_status.parse_gpus(text)
    assert isinstance(inactive.nvlinks, tuple)
    assert [(link.index, link.active) for link in inactive.nvlinks] == [(UNNUMBERED, False)]
    assert isinstance(cut.nvlinks, tuple)
    assert cut.nvlinks[0].active is True
    assert isinstance(cut.nvlinks[1].active, Unknown)
    assert cut.evidence[0].detail == "line 3"


def test_missing_cells_and_rows_of_a_matrix_are_named() -> None:
    text = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\nGPU0\tX\tNV4\n"
    short, missing = topo_matrix.unread(text)
    assert (short.line, short.why) == (2, "1 of 3 cells of its row")
    assert missing.text == "GPU1"
    whole = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV4\t0-3\nGPU1\tNV4\tX\t0-3\n"
    assert topo_matrix.unread(whole) == ()


def test_where_nvidia_smi_refuses_the_matrix() -> None:
    text = "\nERROR: Option -m is missing its value. Please run 'nvidia-smi -h' for help.\n"
    assert topo_matrix.recognise(text)
    assert topo_matrix.parse_links(text) == ()
    (line,) = topo_matrix.unread(text)
    assert line.line == 2


def test_every_matrix_of_a_text_is_read() -> None:
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tNV4\t0-3\nGPU1\tNV4\tX\t0-3\n"
    assert len(topo_matrix.parse_links(matrix + "\nanother node\n" + matrix)) == 2
    assert [gpu.index for gpu in topo_matrix.parse_gpus(matrix)] == [0, 1]


RECOGNISERS = (
    gpu_tables.recognise_p2p,
    gpu_tables.recognise_rocm,
    nvlink_errors.recognise,
    dcgm_nvlink.recognise,
    fabric_manager_log.recognise,
    nvlink_status.recognise,
    topo_matrix.recognise,
)


@pytest.mark.parametrize(
    ("recognise", "text"),
    [
        (gpu_tables.recognise_p2p, P2P),
        (gpu_tables.recognise_rocm, ROCM),
        (nvlink_errors.recognise, ERRORS),
        (nvlink_errors.recognise, NEW_ERRORS),
        (dcgm_nvlink.recognise, DCGM_STATES),
        (dcgm_nvlink.recognise, DCGM_ERRORS),
        (fabric_manager_log.recognise, MANAGER),
    ],
)
def test_each_text_is_of_one_kind(recognise: Callable[[str], bool], text: str) -> None:
    assert [other for other in RECOGNISERS if other(text)] == [recognise]


def everything(text: str) -> list[object]:
    """Return all records that the parsers read from `text`."""
    for recognise in RECOGNISERS:
        recognise(text)
    nvlink_errors.unread(text)
    dcgm_nvlink.unread(text)
    gpu_tables.unread_rocm(text)
    topo_matrix.unread(text)
    gpu_tables.unread_p2p(text)
    fabric_manager_log.parse_version(text)
    return [
        *gpu_tables.parse_peer_access(text),
        *gpu_tables.parse_rocm_links(text),
        *topo_matrix.parse_links(text),
        *topo_matrix.parse_gpus(text),
        *nvlink_errors.parse_gpus(text),
        *dcgm_nvlink.parse_gpus(text),
        *nvlink_status.parse_gpus(text),
        *fabric_manager_log.parse_gpus(text),
        *fabric_manager_log.parse_fabric_manager_log(text),
    ]


@given(
    st.sampled_from((P2P, ROCM, ERRORS, NEW_ERRORS, DCGM_STATES, DCGM_ERRORS, MANAGER)), st.integers(0, 2**32)
)
def test_damaged_texts_raise_nothing_and_name_no_new_gpu(text: str, seed: int) -> None:
    generator = random.Random(seed)  # noqa: S311 - it only has to repeat
    damaged = mutated(generator, text.encode()).decode("utf-8", "replace")
    for record in everything(damaged):
        if isinstance(record, Link):
            assert record.a in damaged
            assert record.b in damaged
        if isinstance(record, Gpu) and record.index != UNNUMBERED:
            assert str(record.index) in damaged


@given(st.text())
def test_any_text_raises_nothing(text: str) -> None:
    everything(text)
