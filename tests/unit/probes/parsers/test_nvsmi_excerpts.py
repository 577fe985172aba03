"""Parts of nvidia-smi's output as people paste them: without head, rows alone, columns without names."""

from __future__ import annotations

import pytest

from probes.base.record import known
from probes.parsers.nvidia_smi import (
    nvsmi_csv,
    nvsmi_short,
    nvsmi_table,
    nvsmi_text,
    nvsmi_xml,
)

ROW = (
    "|   3  Tesla V100-PCIE...  On   | 0000AB12:00:00.0 Off |                    2 |\n"
    "| N/A   31C    P0    26W / 250W |     12MiB / 16160MiB |      0%      Default |\n"
)
MIG = (
    "| MIG devices:                                                                |\n"
    "+------------------+----------------------+-----------+-----------------------+\n"
    "|  1    4   0   0  |      9MiB / 20096MiB | 42      0 |  3   0    2    0    0 |\n"
)
ECC = (
    "        Volatile\n            SRAM Correctable              : 0\n"
    "            DRAM Correctable              : 1\n"
    "            DRAM Uncorrectable            : 4\n        Aggregate\n"
    "            DRAM Uncorrectable            : 5\n"
)
DATED = (
    "#Date       Time        gpu    pwr  gtemp     sm   mclk   pclk  dbecc\n"
    "#YYYYMMDD   HH:MM:SS    Idx      W      C      %    MHz    MHz   errs\n"
    " 20250102   03:04:05      1    301     66     97   2619   1755      6\n"
)
REMAPPED = (
    "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n00000000:1A:00.0, 1, 0\n"
    "00000000:1B:00.0, 0, 1\n"
    "00000000:1C:00.0, No, 7\n"
)


def test_rows_of_a_table_without_its_head() -> None:
    assert nvsmi_table.recognise(ROW)
    (gpu,) = nvsmi_table.parse_gpus(ROW)
    assert (gpu.index, gpu.name, gpu.pci_bus_id, gpu.ecc_uncorrected_volatile) == (
        3,
        "Tesla V100-PCIE...",
        "ab12:00:00.0",
        2,
    )
    assert known(gpu.memory_bytes)


def test_mig_devices_without_their_gpu() -> None:
    assert nvsmi_table.recognise(MIG)
    (gpu,) = nvsmi_table.parse_gpus(MIG)
    assert (gpu.index, gpu.mig_enabled) == (1, True)
    assert known(gpu.mig_devices)
    assert len(gpu.mig_devices) == 1


def test_error_counts_without_their_heading() -> None:
    assert nvsmi_text.recognise(ECC)
    (gpu,) = nvsmi_text.parse_gpus(ECC)
    assert (gpu.ecc_uncorrected_volatile, gpu.memory_health.uncorrected_aggregate) == (4, 5)


def test_samples_with_date_and_time() -> None:
    assert nvsmi_short.recognise_monitor(DATED)
    (gpu,) = nvsmi_short.parse_monitor(DATED)
    assert (gpu.index, gpu.power_w, gpu.temperature_c, gpu.ecc_uncorrected_volatile) == (1, 301.0, 66, 6)


@pytest.mark.parametrize("first", ["99", "-"])
def test_the_load_of_a_process_is_unknown_if_one_of_its_samples_is(first: str) -> None:
    head = "# gpu pid type sm mem enc dec command\n# Idx # C/G % % % % name\n"
    other = "-" if first == "99" else "99"
    rows = "".join(
        f"    0       4711     C    {load}    10     -     -   python\n" for load in (first, other)
    )
    (gpu,) = nvsmi_short.parse_monitor(head + rows)
    assert known(gpu.processes)
    assert not known(gpu.processes[0].sm_percent)
    assert gpu.processes[0].memory_percent == 10


def test_flags_as_numbers() -> None:
    pending, failed, odd = nvsmi_csv.parse_gpus(REMAPPED)
    assert (pending.row_remap_pending, pending.row_remap_failed) == (True, False)
    assert (failed.row_remap_pending, failed.row_remap_failed) == (False, True)
    assert odd.row_remap_pending is False
    assert not known(odd.row_remap_failed)


def test_values_after_a_name_without_columns() -> None:
    text = "NVIDIA A40, 3 %, 41 C, 71.20 W, [N/A]\nNVIDIA A40, 0 %, 39 C, 70.00 W, [N/A]\n"
    assert nvsmi_csv.recognise(text)
    assert [gpu.name for gpu in nvsmi_csv.parse_gpus(text)] == ["NVIDIA A40", "NVIDIA A40"]


@pytest.mark.parametrize(
    "text", ["NVIDIA A40, the GPU, is fine, 3 %", "NVIDIA A40, 48 GB", "1, 2, 3", "Tesla, Edison, 1884"]
)
def test_prose_is_not_recognised_as_a_row_of_csv(text: str) -> None:
    assert not nvsmi_csv.recognise(text)


@pytest.mark.parametrize(
    "text",
    [
        "bash: nvidia-smi: command not found",
        "sh: 1: nvidia-smi: not found",
        "zsh: command not found: nvidia-smi",
        "'nvidia-smi' is not recognized as an internal or external command,\noperable program or batch file.",
    ],
)
def test_a_tool_that_is_not_there(text: str) -> None:
    assert nvsmi_short.recognise_error(text)
    assert nvsmi_short.failure(text) is not None


def test_one_gpu_of_an_xml_log() -> None:
    text = (
        'see: <gpu id="00000000:2A:00.0">\n<product_name>NVIDIA A30</product_name>\n'
        "<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>\n</gpu>\nand so on"
    )
    assert nvsmi_xml.recognise(text)
    (gpu,) = nvsmi_xml.parse_gpus(text)
    assert (gpu.pci_bus_id, gpu.name, gpu.row_remap_pending) == ("0000:2a:00.0", "NVIDIA A30", True)
    assert nvsmi_xml.parse_gpus(text[:60]) == ()


def test_a_mistyped_address_of_a_lost_gpu() -> None:
    (gpu,) = nvsmi_short.parse_error(
        "Unable to determine the device handle for GPU 000:BA:80.0: Unknown Error"
    )
    assert not known(gpu.name)


def test_reasons_below_a_heading_of_their_own() -> None:
    text = (
        "GPU 0000000F:01:00.0\n    Performance\n        Clocks Event Reasons\n"
        "            Idle              : Not Active\n"
        "            HW Slowdown       : Active\n"
    )
    (gpu,) = nvsmi_text.parse_gpus(text)
    assert gpu.throttle_reasons == ("hw_slowdown",)
