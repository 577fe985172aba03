"""`dcgmi diag` (tables of all versions, JSON of DCGM 3 and 4) and `dcgmi health`, of whole files.

Source: NVIDIA/DCGM (read 2026-11); `probes/parsers/tools/dcgm_diagnostic.py`, `dcgm_health.py`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.facts import Diagnosis
from probes.logs.event import Event
from probes.logs.events.host_events import DcgmFailure, DcgmMachine, DcgmSummary, DcgmUnreadable, DcgmWarning
from probes.logs.readers.whole_files import Document
from probes.parsers.tools import dcgm_diagnostic, dcgm_health

DOCUMENT_SIGNS: tuple[bytes, ...] = (
    b'"DCGM GPU Diagnostic"',
    b'"DCGM Diagnostic"',
    b"Successfully ran diagnostic for group",
    b"| Diagnostic  ",
    b"|-----  ",
    b"| PCIe  ",
    b"| GPU Memory  ",
    b"| Memory  ",
    b"| Memory Bandwidth",
    b"| Targeted ",
    b"| SM Stress",
    b"| Memtest",
    b"| Pulse Test",
    b"| EUD Test",
    b"| Software  ",
    b"| Page Retirement",
    b"memory_bandwidth",
    b"targeted_stress",
    b"targeted_power",
    b"Health Monitor Report",
)
_RECORDS: dict[str, type[DcgmFailure | DcgmWarning]] = {"FAIL": DcgmFailure, "WARN": DcgmWarning}
_VERSION = pattern(r'(?:\bDCGM Version\s{0,24}\| ?|"version"\s?: ?")(\d{1,2}(?:\.\d{1,4}){1,3})\b')
_DRIVER = pattern(r'Driver Version Detected"?\s{0,24}[|:] ?"?(\d{3}(?:\.\d{1,4}){1,2})\b')
_MOST = 1024
_LONGEST = 300


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the tests that failed, and the number of the others."""
    document = Document(name, data)
    text = document.text
    diagnoses: tuple[Diagnosis, ...] = ()
    machine: tuple[Event, ...] = ()
    if dcgm_diagnostic.recognise(text):
        diagnoses = dcgm_diagnostic.parse_diagnoses(text)
        machine = tuple(_machine(document))
    elif dcgm_health.recognise(text):
        diagnoses = dcgm_health.parse_diagnoses(text)
    return (*machine, *_results(document, diagnoses))[:_MOST]


def _machine(document: Document) -> Iterator[Event]:
    version, driver = _VERSION.search(document.text), _DRIVER.search(document.text)
    machine = DcgmMachine(
        version=None if version is None else version[1],
        driver=None if driver is None else driver[1],
        gpus=len(dcgm_diagnostic.parse_gpus(document.text)) or None,
    )
    if machine != DcgmMachine():
        yield document.event(machine, ())


def _results(document: Document, diagnoses: tuple[Diagnosis, ...]) -> Iterator[Event]:
    counts = collections.Counter(str(diagnosis.result) for diagnosis in diagnoses)
    for diagnosis in diagnoses:
        record = _RECORDS.get(diagnosis.result)
        if record is None:
            continue
        subject = diagnosis.subject
        result = record(
            test=diagnosis.test.strip(),
            gpu=int(subject[3:]) if subject.startswith("GPU") and subject[3:].isdecimal() else None,
            reason=diagnosis.message[:_LONGEST] or None,
            error=diagnosis.error_code,
        )
        yield document.event(result, diagnosis.evidence)
    if counts["UNKNOWN"] and counts["UNKNOWN"] == len(diagnoses):
        yield document.event(DcgmUnreadable(reason=diagnoses[0].message[:_LONGEST]), ())
    elif diagnoses:
        summary = DcgmSummary(
            passed=counts["PASS"], failed=counts["FAIL"], warned=counts["WARN"], skipped=counts["SKIP"]
        )
        yield document.event(summary, ())
