"""Are the copies that other tools measured as fast as the links allow?

The reference is what such a link achieves, by the PCIe link or the NVLinks of the GPU. Where the GPU is not known, GPUs are
compared with each other only. Copies by the copy engine over one GPU's link at a time are judged; copies by SMs, and several at
once, are slower by nature.
Source: `probes/data/tool_references.toml`; NVIDIA/nvbandwidth, README; leptonai/gpud and azurehpc-health-checks, their gates.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Sequence

from probes.facts import Gpu, MachineFacts, ToolResult
from probes.findings import Evidence, Finding, Judge, Remedy
from probes.hardware import GpuModel
from probes.judging import HOST, SMI_LINK, fold_names
from probes.record import EvidenceRef, Record, Unknown, known
from probes.tool_references import ToolReferences, load_references
from probes.units import gb_per_s

HOST_COPIES = Judge(
    check_id="host-bandwidth",
    why="Batches, checkpoints and offloaded states cross this link, and so does every collective where GPUs have no direct path.",
)
PEER_COPIES = Judge(
    check_id="peer-bandwidth",
    why="A slow pair of GPUs slows every ring that passes it, and with it all GPUs.",
)

_HOST_TESTS = re.compile(r"(?:host_to_device|device_to_host)_memcpy_ce|(?:H2D|D2H)-Pinned|cpu_to_gpu_by_dma|gpu_to_cpu_by_dma")
_PEER_TESTS = re.compile(r"device_to_device_memcpy_(?:read|write)_ce|gpu_to_gpu(?:_read|_write)?_by_dma")
_BOARD = 5
"""GPUs from which on a machine with NVLink has switches, so that each pair has all links."""
_FEWEST_PEERS = 3

_PCIE = Remedy(
    text="Look at the PCIe link's speed and width under load, and at the NUMA node that the copy ran on; reseat the card.",
    command=f"{SMI_LINK} && lspci -vv",
)
_NVLINK = Remedy(
    text="Look at the NVLinks' state, speed and errors of both GPUs, and at the fabric.", command="nvidia-smi nvlink -s"
)


class _Expected(Record, kw_only=True):
    """What a copy should reach."""

    rate: float
    words: str
    ref: EvidenceRef


def host_bandwidth(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(HOST_COPIES, evidence, _HOST_TESTS, _PCIE)


def peer_bandwidth(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(PEER_COPIES, evidence, _PEER_TESTS, _NVLINK)


def _judge(judge: Judge, evidence: Evidence, tests: re.Pattern[str], remedy: Remedy) -> Iterator[Finding]:
    results = evidence.facts.tool_results
    if isinstance(results, Unknown):
        yield judge.undetermined(HOST, results, what="the measurements")
        return
    best = _best([result for result in results if result.metric == "bandwidth" and tests.fullmatch(result.test)])
    if not best:
        yield judge.skipped(HOST, "no such copy was measured")
        return
    references = load_references()
    unknown: list[ToolResult] = []
    fine: list[ToolResult] = []
    for result in best:
        expected = _expected(judge, evidence, references, result.subject)
        if expected is None:
            unknown.append(result)
        elif (finding := _against(judge, references, result, expected, remedy)) is not None:
            yield finding
        else:
            fine.append(result)
    if fine:
        yield judge.passed(_names(fine), "copies are as fast as the link", observed=_spread(fine), evidence=_refs(fine))
    yield from _among_peers(judge, references, unknown, remedy)


def _best(results: Sequence[ToolResult]) -> list[ToolResult]:
    """The fastest of each test and subject: tools repeat a copy for each NUMA node."""
    best: dict[tuple[str, str, str], ToolResult] = {}
    for result in results:
        key = (result.tool, result.test, result.subject)
        if isinstance(result.value, float) and (key not in best or result.value > _value(best[key])):
            best[key] = result
    return list(best.values())


def _against(judge: Judge, references: ToolReferences, result: ToolResult, expected: _Expected, remedy: Remedy) -> Finding | None:
    limits = references.limits
    share = _value(result) / expected.rate
    if share >= limits.warn_fraction:
        return None
    report = judge.failed if share < limits.fail_fraction else judge.warned
    return report(
        result.subject,
        f"{result.test} is slow",
        expected=f"about {gb_per_s(expected.rate)} ({expected.words})",
        observed=f"{gb_per_s(_value(result))} by {result.tool}",
        remedy=remedy,
        evidence=(*result.evidence, expected.ref, limits.ref),
    )


def _expected(judge: Judge, evidence: Evidence, references: ToolReferences, subject: str) -> _Expected | None:
    gpus = {f"GPU{gpu.index}": gpu for gpu in evidence.facts.gpus} if known(evidence.facts.gpus) else {}
    ends = [gpus.get(name) for name in subject.split("-")]
    models = [_model(evidence, gpu) for gpu in ends]
    if judge is HOST_COPIES:
        return _host_rate(references, ends[0], models[0]) if len(ends) == 1 else None
    if len(ends) != 2 or models[0] is None or models[0] != models[1]:
        return None
    return _peer_rate(evidence.facts, references, subject, models[0])


def _model(evidence: Evidence, gpu: Gpu | None) -> GpuModel | None:
    if gpu is None:
        return None
    model = evidence.catalogue.gpu(gpu.name) if known(gpu.name) else None
    return model or (evidence.catalogue.gpu_by_device(gpu.pci_device_id) if known(gpu.pci_device_id) else None)


def _host_rate(references: ToolReferences, gpu: Gpu | None, model: GpuModel | None) -> _Expected | None:
    """By the link that the GPU can have in this slot; the catalogue's where nothing says so."""
    if gpu is None:
        return None
    of_gpu = [value for value in (gpu.pcie.generation_max, model.pcie_generation if model else None) if isinstance(value, int)]
    widths = [
        value for value in (gpu.pcie.width, gpu.pcie.width_max, model.pcie_width if model else None) if isinstance(value, int)
    ]
    row = references.host_rate(min(of_gpu)) if of_gpu and widths else None
    if row is None:
        return None
    width = min(widths)
    words = f"PCIe {row.pcie_generation} x{width}"
    return _Expected(rate=row.rate * width / 16, words=words, ref=row.ref)


def _peer_rate(facts: MachineFacts, references: ToolReferences, subject: str, model: GpuModel) -> _Expected | None:
    row = references.nvlink_rate(model)
    if row is None:
        return None
    a, _, b = subject.partition("-")
    links = facts.links if known(facts.links) else ()
    link = next((link for link in links if {link.a, link.b} == {a, b}), None)
    if link is not None:
        count = link.nvlink_count if link.kind == "NVLINK" else None
    else:
        is_board = known(facts.gpus) and len(facts.gpus) >= _BOARD and model.nvlink_count > 6 and not model.nvlink_bridge
        count = model.nvlink_count if is_board else None
    return _Expected(rate=row.rate * count, words=f"{count} NVLinks", ref=row.ref) if count else None


def _among_peers(judge: Judge, references: ToolReferences, results: Sequence[ToolResult], remedy: Remedy) -> Iterator[Finding]:
    """GPUs whose best rate is far below that of the others. Pairs may differ by design; GPUs with slow pairs only do not."""
    limits = references.limits
    tests: dict[tuple[str, str], list[ToolResult]] = {}
    for result in results:
        tests.setdefault((result.tool, result.test), []).append(result)
    for same in tests.values():
        best: dict[str, ToolResult] = {}
        for result in same:
            for name in result.subject.split("-"):
                if name not in best or _value(result) > _value(best[name]):
                    best[name] = result
        if len(best) < _FEWEST_PEERS:
            yield judge.skipped(
                _names(same), f"{same[0].test}: the GPU's links are not known, and there is nobody to compare with"
            )
            continue
        usual = statistics.median(_value(result) for result in best.values())
        slow = {name: result for name, result in best.items() if _value(result) < limits.fail_fraction * usual}
        for name, result in slow.items():
            yield judge.warned(
                name,
                f"{result.test} is slower than with the other GPUs",
                expected=f"about {gb_per_s(usual)}, as the others",
                observed=f"{gb_per_s(_value(result))} by {result.tool}",
                remedy=remedy,
                evidence=(*result.evidence, limits.ref),
            )
        if not slow:
            yield judge.passed(_names(same), f"{same[0].test} is alike on all GPUs", observed=_spread(same), evidence=_refs(same))


def _value(result: ToolResult) -> float:
    return result.value if isinstance(result.value, float) else 0.0


def _spread(results: Sequence[ToolResult]) -> str:
    values = [_value(result) for result in results]
    return gb_per_s(min(values)) if len(values) == 1 else f"{gb_per_s(min(values))} to {gb_per_s(max(values))}"


def _names(results: Sequence[ToolResult]) -> str:
    return fold_names(list(dict.fromkeys(name for result in results for name in result.subject.split("-"))))


def _refs(results: Sequence[ToolResult]) -> tuple[EvidenceRef, ...]:
    return tuple(dict.fromkeys(ref for result in results for ref in result.evidence))
