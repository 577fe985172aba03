"""`dcgmi diag` (tables of all versions, JSON of DCGM 3 and 4) and `dcgmi health`, of whole files.

Kinds: dcgm.failure{test, gpu, reason, error}: a test that failed; gpu is the number, absent where the host
was tested; error is DCGM's own number. dcgm.warning{test, gpu, reason}. dcgm.summary{passed, failed, warned,
skipped}: of all tests of the file. dcgm.machine{version, driver, gpus}: what the report says of the machine,
gpus being how many. dcgm.unreadable{reason}: a report without a result that could be found.

Source: NVIDIA/DCGM (read 2026-11); `probes/parsers/tools/dcgm_diagnostic.py`, `dcgm_health.py`.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.facts import Diagnosis
from probes.logs.event import Event, Value
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
_KINDS = {"FAIL": "dcgm.failure", "WARN": "dcgm.warning"}
_VERSION = pattern(r'(?:\bDCGM Version\s{0,24}\| ?|"version"\s?: ?")(\d{1,2}(?:\.\d{1,4}){1,3})\b')
_DRIVER = pattern(r'Driver Version Detected"?\s{0,24}[|:] ?"?(\d{3}(?:\.\d{1,4}){1,2})\b')
_MOST = 1024
_LONGEST = 300


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """What failed, and how many tests did not."""
    document = Document(name, data)
    text = document.text
    found: tuple[Diagnosis, ...] = ()
    machine: tuple[Event, ...] = ()
    if dcgm_diagnostic.recognise(text):
        found = dcgm_diagnostic.parse_diagnoses(text)
        machine = tuple(_machine(document))
    elif dcgm_health.recognise(text):
        found = dcgm_health.parse_diagnoses(text)
    return (*machine, *_told(document, found))[:_MOST]


def _machine(document: Document) -> Iterator[Event]:
    told = {"version": _VERSION.search(document.text), "driver": _DRIVER.search(document.text)}
    fields: dict[str, Value] = {name: match[1] for name, match in told.items() if match is not None}
    gpus = len(dcgm_diagnostic.parse_gpus(document.text))
    fields |= {"gpus": gpus} if gpus else {}
    if fields:
        yield document.event("dcgm.machine", (), fields)


def _told(document: Document, found: tuple[Diagnosis, ...]) -> Iterator[Event]:
    counts = collections.Counter(str(diagnosis.result) for diagnosis in found)
    for diagnosis in found:
        kind = _KINDS.get(diagnosis.result)
        if kind is None:
            continue
        fields: dict[str, Value] = {"test": diagnosis.test.strip()}
        if diagnosis.subject.startswith("GPU") and diagnosis.subject[3:].isdecimal():
            fields["gpu"] = int(diagnosis.subject[3:])
        if diagnosis.message:
            fields["reason"] = diagnosis.message[:_LONGEST]
        if diagnosis.error_code is not None:
            fields["error"] = diagnosis.error_code
        yield document.event(kind, diagnosis.evidence, fields)
    if counts["UNKNOWN"] and counts["UNKNOWN"] == len(found):
        yield document.event("dcgm.unreadable", (), {"reason": found[0].message[:_LONGEST]})
    elif found:
        yield document.event("dcgm.summary", (), _numbers(counts))


def _numbers(counts: collections.Counter[str]) -> dict[str, Value]:
    return {
        "passed": counts["PASS"],
        "failed": counts["FAIL"],
        "warned": counts["WARN"],
        "skipped": counts["SKIP"],
    }
