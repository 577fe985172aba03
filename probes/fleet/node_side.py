"""Collect what a node reports about itself: attributes, reasons of its verdict, metrics of its parts."""

import re
from collections.abc import Iterable

from probes.base.record import items_of, known
from probes.base.units import GIB
from probes.compare.comparing import Beside, worse
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.fleet.comparing.sku_matrix import SEPARATOR
from probes.fleet.node_report import Metric, Reason
from probes.judging.findings import Status
from probes.judging.verdict import Verdict

MOST_REASONS = 20
_GPU = re.compile(r"GPU(\d+)")


def attributes_of(facts: MachineFacts) -> dict[str, str]:
    """Return hardware, firmware and software of a node by name; unknown ones are left out.

    Values that differ between the parts of the node are joined by ` | `.
    """
    gpus, nics, software, dmi = items_of(facts.gpus), items_of(facts.nics), facts.software, facts.dmi
    parts: dict[str, list[object]] = {
        "gpu_model": [gpu.name for gpu in gpus],
        "gpu_memory": [_gib(gpu.memory_bytes) for gpu in gpus],
        "power_cap": [gpu.power_limit_w for gpu in gpus],
        "vbios": [gpu.vbios_version for gpu in gpus],
        "gsp_firmware": [gpu.gsp_firmware_version for gpu in gpus],
        "inforom": [gpu.inforom_version for gpu in gpus],
        "mig": [gpu.mig_enabled for gpu in gpus],
        "ecc": [gpu.ecc_enabled for gpu in gpus],
        "driver": [software.driver_version],
        "kernel": [software.kernel],
        "operating_system": [software.operating_system],
        "nccl": [software.nccl_version],
        "ofed": [software.ofed_version],
        "fabric_manager": [software.fabric_manager_version],
        "nic_firmware": [nic.firmware_version for nic in nics],
        "product": [dmi.product_name],
        "bios": [dmi.bios_version],
        "bmc": [dmi.bmc_version],
    }
    if known(facts.gpus):
        parts["gpus"] = [len(gpus)]
    texts = {
        name: SEPARATOR.join(sorted({str(value) for value in values if known(value) and value is not None}))
        for name, values in parts.items()
    }
    return {name: text for name, text in texts.items() if text}


def _gib(value: object) -> object:
    return f"{round(value / GIB)} GiB" if isinstance(value, int) else None


def reasons_of(verdict: Verdict) -> tuple[Reason, ...]:
    """Return the first `MOST_REASONS` findings that explain the verdict, without waived findings."""
    return tuple(
        Reason(
            check_id=finding.check_id,
            subject=finding.subject,
            status=finding.status,
            summary=finding.summary,
        )
        for finding in verdict.findings
        if finding.waived is None
        and (
            finding.status in (Status.FAIL, Status.WARN)
            or (finding.status is Status.UNKNOWN and finding.check_id in verdict.required_unknown)
        )
    )[:MOST_REASONS]


def passed_of(verdict: Verdict) -> tuple[str, ...]:
    """Return the checks that passed on every subject that they judged."""
    passed = {finding.check_id: None for finding in verdict.findings if finding.status is Status.PASS}
    for finding in verdict.findings:
        if finding.status in (Status.FAIL, Status.WARN, Status.UNKNOWN):
            passed.pop(finding.check_id, None)
    return tuple(passed)


def parts_of(facts: MachineFacts) -> dict[str, str]:
    """Return the identity of the GPU or RDMA card in each slot, as far as it is known."""
    gpus = ((f"GPU{gpu.index}", gpu.uuid) for gpu in items_of(facts.gpus))
    nics = ((nic.name, nic.node_guid) for nic in items_of(facts.nics))
    return {slot: identity for slot, identity in (*gpus, *nics) if isinstance(identity, str) and identity}


def metrics_of(
    measured: MeasurementSet, facts: MachineFacts, version: str, beside: Iterable[Beside] = ()
) -> tuple[Metric, ...]:
    """Return the rates and times of the measurements, each with the identity of its part.

    `version` is the version of rigtune, and `beside` has the measurements with a value in the catalogue.
    Sizes, such as a peak of memory, and other figures that are no speeds are left out.
    """
    gpus = {gpu.index: gpu for gpu in items_of(facts.gpus)}
    host = facts.hostname if isinstance(facts.hostname, str) else ""
    references = {id(each.measured): each for each in beside}
    return tuple(
        _metric(each, gpus, host, version, references.get(id(each)))
        for each in measured.measurements
        if each.samples and each.unit != "byte" and worse(each) is not None
    )


def unmeasured(measured: MeasurementSet) -> str:
    """Return the first reason why benchmarks gave no result; empty if all did, or none was wanted."""
    if not measured.failures:
        return ""
    first = measured.failures[0]
    more = f" (and {len(measured.failures) - 1} more)" if len(measured.failures) > 1 else ""
    return f"{first.bench_id}: {first.message or first.kind}{more}"


def _metric(
    each: Measurement, gpus: dict[int, Gpu], host: str, version: str, beside: Beside | None
) -> Metric:
    match = _GPU.fullmatch(each.subject)
    gpu = gpus.get(int(match[1])) if match else None
    uuid = gpu.uuid if gpu is not None and isinstance(gpu.uuid, str) else ""
    case = " ".join(f"{name}={value}" for name, value in sorted(each.parameters.items()))
    return Metric(
        part_kind="gpu" if gpu is not None else "node",
        part_id=uuid or f"{host} {each.subject}".strip(),  # `NUMA node 0` is a part of every node
        slot=each.subject,
        metric=f"{each.metric} {case}".strip(),
        unit=each.unit,
        samples=each.samples,
        is_larger_better=worse(each) == "low",
        quality="busy" if each.was_disturbed else "good",
        version=version,
        reference_share=beside.share if beside is not None else None,
        reference=beside.compared.words if beside is not None else "",
    )
