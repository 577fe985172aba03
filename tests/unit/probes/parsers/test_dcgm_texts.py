"""Health watches, discovery, and the diagnostic's reports of DCGM 4, of wrapped messages and of cut JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes.base.record import known
from probes.parsers.tools import dcgm_diagnostic, dcgm_discovery, dcgm_health

OLD_HEALTH = """Health Monitor Report
+------------------+---------------------------------------------------------+
| Overall Health:    Warning                                                 |
+==================+=========================================================+
| GPU ID: 3        | Warning                                                 |
|                  | PCIe system: Warning - Detected more than 8 PCIe        |
|                  | replays per minute for GPU 3: 21                        |
+------------------+---------------------------------------------------------+
"""
NEW_HEALTH = """| Health Monitor Report                                                 |
+===========================+===========================================+
| Overall Health            | Failure                                   |
| GPU                       |                                           |
| -> 0                      | Healthy                                   |
| -> 1                      | Failure                                   |
|    -> Errors              |                                           |
|       -> Memory system    | Failure                                   |
|                           | Row remapping has failed.                 |
|       -> Thermal system   | Warning                                   |
|                           | Clocks were held down.                    |
| NvSwitch                  |                                           |
| -> 0                      | Warning                                   |
+---------------------------+-------------------------------------------+
"""
DISCOVERY = """2 GPUs found (Active).
+--------+----------------------------------------------------------------------+
| GPU ID | Device Information                                                   |
+--------+----------------------------------------------------------------------+
| 0      | Name: NVIDIA H200                                                    |
|        | PCI Bus ID: 00000000:1A:00.0                                         |
|        | Device UUID: GPU-00000000-1111-2222-3333-444444444444                |
+--------+----------------------------------------------------------------------+
| 1      | Name: <<<NULL>>>                                                     |
|        | PCI Bus ID: 00000000:3C:00.0                                         |
+--------+----------------------------------------------------------------------+
1 NvSwitches found.
+-----------+
| Switch ID |
+-----------+
| 6         |
+-----------+
"""
VERSION_4 = """| Diagnostic                | Result                                         |
|-----  Deployment  --------+------------------------------------------------|
| software                  | Pass                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Pass                                     |
+-----  Hardware  ----------+------------------------------------------------+
| memory                    | Fail                                           |
|                           | GPU0: Pass                                     |
|                           | GPU1: Fail                                     |
| Warning: GPU1             | An uncorrectable error was found. Reset the G  |
|                           | PU and run it once more.                       |
| Info: GPU0                | All is well.                                   |
| pcie                      | Fail                                           |
| Warning                   | The child process did not end in the right    |
|                           | way.                                           |
|                           | GPU0: Pass                                     |
"""
CUT_JSON = """{"DCGM Diagnostic": {"test_categories": [ {...}, {"category": "Hardware", "tests": [{"name": \
"memory", "results": [
 {"entity_group": "GPU", "entity_id": 5, "status": "Pass"},
 {"entity_group": "GPU", "entity_id": 6, "status": "Fail", "warnings": [{"error_id": 4, "warning": "bad \
rows"}"""


def test_a_row_per_gpu() -> None:
    (diagnosis,) = dcgm_health.parse_diagnoses(OLD_HEALTH)
    assert (diagnosis.subject, diagnosis.test, diagnosis.result) == ("GPU3", "PCIe system", "WARN")
    assert diagnosis.message == "Detected more than 8 PCIe replays per minute for GPU 3: 21"


def test_a_tree_of_watches() -> None:
    assert [(d.subject, d.test, d.result, d.message) for d in dcgm_health.parse_diagnoses(NEW_HEALTH)] == [
        ("GPU0", "health", "PASS", ""),
        ("GPU1", "Memory system", "FAIL", "Row remapping has failed."),
        ("GPU1", "Thermal system", "WARN", "Clocks were held down."),
        ("host", "health", "WARN", ""),
    ]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("| Health Monitor Report |\n| Overall Health   | Healthy  |\n", "PASS"),
        ('{"body": {"Overall Health": {"value": "Failure"}}, "header": ["Health Monitor Report"]}', "FAIL"),
    ],
)
def test_overall_health_is_read_as_the_result_of_the_host(text: str, result: str) -> None:
    assert dcgm_health.recognise(text)
    assert [(d.subject, d.result) for d in dcgm_health.parse_diagnoses(text)] == [("host", result)]


def test_discovered_gpus() -> None:
    assert dcgm_discovery.recognise(DISCOVERY)
    first, second = dcgm_discovery.parse_gpus(DISCOVERY)
    assert (first.index, first.name, first.pci_bus_id) == (0, "NVIDIA H200", "0000:1a:00.0")
    assert (second.index, second.pci_bus_id) == (1, "0000:3c:00.0")
    assert not known(second.name)
    assert dcgm_discovery.attached_gpus(DISCOVERY) == 2


def test_a_line_per_device() -> None:
    software, other, memory, good, pcie, last = dcgm_diagnostic.parse_diagnoses(VERSION_4)
    assert [(d.test, d.subject, d.result) for d in (software, other, good)] == [
        ("software", "GPU0", "PASS"),
        ("software", "GPU1", "PASS"),
        ("memory", "GPU1", "FAIL"),
    ]
    assert good.message == "An uncorrectable error was found. Reset the GPU and run it once more."
    assert (memory.subject, memory.result, last.subject, last.result) == ("GPU0", "PASS", "GPU0", "PASS")
    assert (pcie.subject, pcie.result, pcie.message) == (
        "host",
        "FAIL",
        "The child process did not end in the right way.",
    )


def test_a_report_that_is_cut() -> None:
    good, bad = dcgm_diagnostic.parse_diagnoses(CUT_JSON)
    assert (good.subject, good.result) == ("GPU5", "PASS")
    assert (bad.subject, bad.result, bad.message) == ("GPU6", "FAIL", "bad rows")
    assert [line.why for line in dcgm_diagnostic.parse_unread(CUT_JSON)] == ["the JSON report is incomplete"]


WORDS = (
    "| -> 1 | Failure |",
    "GPU ID: 7",
    "|  | PCIe system: Warning - x |",
    '"status": "Fail"',
    '"name": "a"',
    "GPU9: Fail",
    "\n",
)


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=20)), max_size=30).map("\n".join))
def test_arbitrary_text_never_raises(text: str) -> None:
    dcgm_health.recognise(text)
    dcgm_discovery.recognise(text)
    for diagnosis in (*dcgm_health.parse_diagnoses(text), *dcgm_diagnostic.parse_diagnoses(text)):
        assert diagnosis.subject == "host" or diagnosis.subject.removeprefix("GPU") in text
    for gpu in dcgm_discovery.parse_gpus(text):
        assert str(gpu.index) in text
