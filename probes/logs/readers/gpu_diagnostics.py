"""Reader of whole files with GPU diagnostics: `dcgmi diag`, `dcgmi health`, and the states of NVLinks.

Diagnostics are read as tables of all versions of DCGM, and as JSON of DCGM 3 and 4. NVLinks are read from
`nvidia-smi nvlink` and `dcgmi nvlink`. Source: NVIDIA/DCGM (read 2026-11); the parsers in
`probes/parsers/tools` and `probes/parsers/nvidia_smi`.
"""

import collections
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.base.record import Unknown
from probes.base.units import GB
from probes.facts import Diagnosis, Gpu, NvLink
from probes.facts.gpu_facts import UNNUMBERED
from probes.logs.event import Event
from probes.logs.events.host_events import (
    DcgmFailure,
    DcgmMachine,
    DcgmSummary,
    DcgmUnreadable,
    DcgmWarning,
    NvlinkAllDown,
    NvlinkErrors,
    NvlinkGpu,
    NvlinkLinkDown,
    NvlinkNoErrors,
    NvlinkNone,
)
from probes.logs.readers.whole_files import Document
from probes.parsers.nvidia_smi import nvlink_error_counts, nvlink_status
from probes.parsers.tools import dcgm_diagnostic, dcgm_health, dcgm_nvlink

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
    b"NvLink Link Status",
    b"NVLINK Error Counts",
    b"gpuId ",
    b"\tLink 0: ",
    b" Link 0: ",
    b" Link 3: ",
    b"links are inactive",
    b"links are inActive",
    b"Replay Error",
    b"CRC FLIT",
    b"CRC Error",
    b"not have or support Nvlink",
    b"not have or support NVLink",
    b"Nvlink queries are not supported",
    b"NVLink queries are not supported",
)
_RECORDS: dict[str, type[DcgmFailure | DcgmWarning]] = {"FAIL": DcgmFailure, "WARN": DcgmWarning}
_VERSION = pattern(r'(?:\bDCGM Version\s{0,24}\| ?|"version"\s?: ?")(\d{1,2}(?:\.\d{1,4}){1,3})\b')
_DRIVER = pattern(r'Driver Version Detected"?\s{0,24}[|:] ?"?(\d{3}(?:\.\d{1,4}){1,2})\b')
_NAMED = pattern(r"\bGPU (\d{1,3}): (.{1,120}?) \(UUID")
_COUNTERS = (("crc", "crc_errors"), ("replay", "replay_errors"), ("recovery", "recovery_errors"))
_MOST_RESULTS = 1024
_MOST_GPUS = 4096
_LONGEST = 300


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the diagnoses in a file, then the NVLinks of its GPUs."""
    document = Document(name, data)
    return (*_diagnoses(document)[:_MOST_RESULTS], *_nvlinks(document)[:_MOST_GPUS])


def _diagnoses(document: Document) -> list[Event]:
    """Return the tests that failed or warned, and how many tests had each result."""
    if dcgm_diagnostic.recognise(document.text):
        diagnoses = dcgm_diagnostic.parse_diagnoses(document.text)
        return [*_machine(document), *_results(document, diagnoses)]
    if dcgm_health.recognise(document.text):
        return [*_results(document, dcgm_health.parse_diagnoses(document.text))]
    return []


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


def _nvlinks(document: Document) -> list[Event]:
    """Return the links of every GPU of the file; empty if the file mixes lines of several machines."""
    if _is_mixed(document.text):
        return []
    return [
        event
        for parser in (nvlink_status, nvlink_error_counts, dcgm_nvlink)
        if parser.recognise(document.text)
        for gpu in parser.parse_gpus(document.text)[:_MOST_GPUS]
        for event in _events(document, gpu)
    ]


def _is_mixed(text: str) -> bool:
    """Return whether a GPU has several names: the file then mixes lines of several machines."""
    names: dict[str, str] = {}
    return any(names.setdefault(number, name) != name for number, name in _NAMED.findall(text))


def _events(document: Document, gpu: Gpu) -> Iterator[Event]:
    links = gpu.nvlinks
    index, name = gpu.index, gpu.name if isinstance(gpu.name, str) else None
    if not isinstance(links, tuple) or not links:
        reason = (links.detail or None) if isinstance(links, Unknown) else None
        yield document.event(NvlinkNone(gpu=index, name=name, reason=reason), gpu.evidence)
        return
    up = [link for link in links if link.active is True]
    down = [link for link in links if link.active is False and link.disabled is not True]
    disabled = [link for link in links if link.disabled is True]
    if up or down or disabled:
        rate = sum(_rate(link) for link in up)
        gbps = round(rate / GB, 3) if rate else None
        state = NvlinkGpu(gpu=index, name=name, up=len(up), down=len(down), disabled=len(disabled), gbps=gbps)
        yield document.event(state, gpu.evidence)
    if down and not up:
        yield document.event(NvlinkAllDown(gpu=index, name=name), gpu.evidence)
    for link in down if up else ():
        yield document.event(NvlinkLinkDown(gpu=index, name=name, link=_number(link)), gpu.evidence)
    counted = [getattr(link, field) for link in links for _, field in _COUNTERS]
    if 0 in counted and not any(isinstance(count, int) and count > 0 for count in counted):
        yield document.event(NvlinkNoErrors(gpu=index, name=name), gpu.evidence)
    for link in links:
        for counter, field in _COUNTERS:
            count = getattr(link, field)
            if isinstance(count, int) and count > 0:
                errors = NvlinkErrors(gpu=index, name=name, link=_number(link), counter=counter, count=count)
                yield document.event(errors, gpu.evidence)


def _number(link: NvLink) -> int | None:
    return None if link.index == UNNUMBERED else link.index


def _rate(link: NvLink) -> float:
    return float(link.bandwidth_bytes_per_s) if isinstance(link.bandwidth_bytes_per_s, int | float) else 0.0
