"""Test small parts of outputs of tools: subjects of results, cut texts, and rows of tables."""

from __future__ import annotations

import json

import pytest

from probes.base.record import Unknown
from probes.parsers.nvidia_smi import nvsmi_csv
from probes.parsers.tools import dcgm_discovery, dcgm_json, dcgm_monitor
from probes.parsers.tools.dcgm_words import result_of, subjects_of
from probes.parsers.tools.nccl_conf import parse_configuration, parse_logged, parse_network
from probes.parsers.tools.nccl_log import read_nccl_line
from probes.parsers.topology.nccl_graph import parse_gpus as parse_graph


@pytest.mark.parametrize(
    ("words", "subjects"),
    [
        ("GPUs: 1, 2", ("GPU1", "GPU2")),
        ("GPU: 3", ("GPU3",)),
        ("0-2,", ("GPU0", "GPU1", "GPU2")),
        ("CPU: 0", ("host",)),
        ("All", ("host",)),
        ("", ("host",)),
        (None, ("host",)),
        ("0-255", tuple(f"GPU{index}" for index in range(256))),
        ("0-256", ("host",)),
    ],
)
def test_the_subjects_of_a_result(words: str | None, subjects: tuple[str, ...]) -> None:
    assert subjects_of(words) == subjects


@pytest.mark.parametrize(
    ("word", "result"), [(" PASSED ", "PASS"), ("Not Run", "SKIP"), ("strange", "UNKNOWN"), ("", "UNKNOWN")]
)
def test_the_words_of_results(word: str, result: str) -> None:
    assert result_of(word) == result


def test_the_warning_of_a_cut_report_has_at_most_600_characters() -> None:
    text = '"name": "Memory", "gpu_id": "2", "status": "Fail", "warnings": "' + "x" * 700
    for cut in (text + '"', text + '", "warning": "{"'):
        (row,) = dcgm_json.parse_damaged(cut)
        assert (row.test, row.subject, row.message) == ("Memory", "GPU2", "x" * 600)


@pytest.mark.parametrize(
    ("fields", "subjects"),
    [
        ({"entity_group": "GPU", "entity_id": 3}, ["GPU3"]),
        ({"entity_group": "gpu", "entity_id": 0}, ["GPU0"]),
        ({"entity_group": "GPU", "entity_id": 4095}, ["GPU4095"]),
        ({"entity_group": "GPU", "entity_id": 4096}, ["host"]),
        ({"entity_group": "GPU", "entity_id": -1}, ["host"]),
        ({"entity_group": "CPU", "entity_id": 1}, ["host"]),
        ({"entity_group": "GPU", "entity_id": True, "gpu_id": 5}, ["GPU5"]),
        ({"gpu_ids": "1,2"}, ["GPU1", "GPU2"]),
        ({"gpu_ids": ""}, ["host"]),
        ({"gpu_ids": [1]}, ["host"]),
        ({}, ["host"]),
    ],
)
def test_the_devices_of_a_result_in_json(fields: dict[str, object], subjects: list[str]) -> None:
    test = {"name": "Memory", "results": [{"status": "Pass", **fields}]}
    body = {"test_categories": [{"category": "Hardware", "tests": [test]}]}
    rows = dcgm_json.parse_json(body, json.dumps(body), 0)
    assert [row.subject for row in rows] == subjects


@pytest.mark.parametrize(("length", "gpus"), [(299, 0), (300, 0), (301, 1)])
def test_the_list_of_gpus_ends_at_the_heading_of_other_devices(length: int, gpus: int) -> None:
    """A heading is a short line; a longer line is not read at all."""
    heading = "2 NvSwitches found.".ljust(length, "x")
    text = f"{heading}\n| 0      | Name: NVIDIA H100 |\n"
    assert len(dcgm_discovery.parse_gpus(text)) == gpus


def test_lines_of_other_devices_and_rules_name_no_gpu() -> None:
    text = "| 0      | Name: NVIDIA H100 |\n|        | Name: Grace CPU |\n+--------+------+\n"
    (gpu,) = dcgm_discovery.parse_gpus(text)
    assert gpu.name == "NVIDIA H100"


@pytest.mark.parametrize(
    ("value", "expected"), [("71", 71), ("2147483631", 2147483631), ("2147483632", None), ("N/A", None)]
)
def test_a_blank_of_dcgm_is_no_sample(value: str, expected: int | None) -> None:
    (gpu,) = dcgm_monitor.parse_gpus(f"#Entity   TMPTR\nID        C\nGPU 0     {value}\n")
    assert gpu.temperature_c == expected or (expected is None and isinstance(gpu.temperature_c, Unknown))


def test_lines_of_nccl_s_configuration() -> None:
    text = "NCCL_DEBUG=INFO\n# NCCL_X=1\n\nno sign " + "x" * 200 + "\nNCCL_A=b=c\n"
    assignments, ignored = parse_configuration(text)
    assert [(row.line, row.name, row.value) for row in assignments] == [
        (1, "NCCL_DEBUG", "INFO"),
        (5, "NCCL_A", "b=c"),
    ]
    assert [(row.line, len(row.text)) for row in ignored] == [(4, 120)]


def test_variables_in_a_log_have_the_line_of_their_first_report() -> None:
    line = "n1:7:7 [0] NCCL INFO NCCL_DEBUG set by environment to INFO.\n"
    (row,) = parse_logged(f"x\n{line}{line}")
    assert (row.line, row.name, row.value) == (2, "NCCL_DEBUG", "INFO")


@pytest.mark.parametrize(
    ("networks", "expected"), [(("IB",), "IB"), (("IB", "IB"), "IB"), (("IB", "Socket"), None), ((), None)]
)
def test_the_network_that_all_ranks_report(networks: tuple[str, ...], expected: str | None) -> None:
    text = "".join(f"n1:7:7 [0] NCCL INFO Using network {network}\n" for network in networks)
    assert parse_network(text) == expected


@pytest.mark.parametrize(("words", "is_problem"), [("Cuda failure 1 'invalid argument'", True), ("", False)])
def test_a_warning_without_words_is_no_problem(words: str, is_problem: bool) -> None:
    sighting = read_nccl_line(f"n1:7:7 [0] a.cc:254 NCCL WARN {words}")
    assert (sighting is not None) is is_problem


HEAD = "index, pci.bus_id, name\n"


def test_rows_without_a_comma_are_no_rows_of_gpus() -> None:
    text = f"{HEAD}0, 00000000:1B:00.0, NVIDIA H100\nGPU lost\n1, 00000000:3B:00.0, NVIDIA H100\n"
    assert [(gpu.index, gpu.pci_bus_id) for gpu in nvsmi_csv.parse_gpus(text)] == [
        (0, "0000:1b:00.0"),
        (1, "0000:3b:00.0"),
    ]


def test_rows_of_one_gpu_are_joined_by_their_processes() -> None:
    head = "gpu_bus_id, pid, process_name, used_gpu_memory [MiB]\n"
    rows = ("00000000:1B:00.0, 7, python, 10 MiB", "00000000:1B:00.0, 8, python, 20 MiB")
    gpus = nvsmi_csv.parse_gpus(head + "\n".join(rows) + "\n")
    assert [[process.pid for process in gpu.processes] for gpu in gpus] == [[7, 8]]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("dev", "indexes"), [("3", [3]), ("99999", [99999]), ("100000", []), ("x", []), ("", [])]
)
def test_gpus_of_a_graph_have_numbers(dev: str, indexes: list[int]) -> None:
    text = f'<graphs version="1"><graph id="0"><channel><gpu dev="{dev}"/></channel></graph></graphs>'
    assert [gpu.index for gpu in parse_graph(text)] == indexes
