"""`nvidia-smi -q -x`, schemas 10 to 13 (drivers 418 to 610)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from probes.facts import Gpu, GpuProcess, PcieLink
from probes.parsers.nvidia_words import memory_bytes, number, printed, switch, whole
from probes.parsers.pci import link_width, normal_address
from probes.record import NOT_RECORDED, EvidenceRef, Reason, Record, Unknown

T = TypeVar("T")

_ROOT = "<nvidia_smi_log"
_END = "</nvidia_smi_log>"
_COMPUTE_MODES = {
    "Default": "default",
    "Exclusive_Process": "exclusive process",
    "Exclusive_Thread": "exclusive thread",
    "Prohibited": "prohibited",
}
_REASON_NAMES = {"display_clocks_setting": "display_clock_setting"}
"""Where the XML names a clock event reason differently from NVML."""


class SmiLog(Record, kw_only=True):
    """One output. `gpus` holds the elements that arrived whole, in the order of NVML's indices."""

    driver_version: str | Unknown
    cuda_version: str | Unknown
    attached_gpus: int | Unknown
    """What the driver counted; more than `gpus` where the output was shortened."""
    gpus: tuple[Gpu, ...]
    problem: str = ""
    """Why the output ends early, where it does."""


def recognise(text: str) -> bool:
    return _ROOT in text


def parse_smi_xml(text: str, evidence: tuple[EvidenceRef, ...] = ()) -> SmiLog | Unknown:
    """The log in `text`, each GPU with `evidence`; Unknown where no log or not one whole GPU of those attached is there.

    The document type and everything else before the root element is skipped, so no entity is ever defined.
    """
    start = text.find(_ROOT)
    if start < 0:
        return Unknown(Reason.UNPARSABLE, "no nvidia_smi_log in the output of nvidia-smi -q -x")
    root, elements, problem = _read(text[start:])
    if root is None:
        return Unknown(Reason.UNPARSABLE, f"nvidia-smi -q -x: {problem}")
    driver = printed(root.findtext("driver_version"), "driver_version")
    attached = whole(root.findtext("attached_gpus"), "attached_gpus")
    if not elements and (problem or attached != 0):
        return Unknown(Reason.UNPARSABLE, f"nvidia-smi -q -x: {problem or 'no gpu element'}")
    return SmiLog(
        driver_version=driver,
        cuda_version=printed(root.findtext("cuda_version"), "cuda_version"),
        attached_gpus=attached,
        gpus=tuple(_gpu(index, element, driver, evidence) for index, element in enumerate(elements)),
        problem=problem,
    )


def _read(text: str) -> tuple[Element | None, list[Element], str]:
    """The root, the complete GPU elements and, where the rest is damaged or missing, a word on it."""
    end = text.find(_END)
    parser: XMLPullParser[Any] = XMLPullParser(events=("start", "end"))
    root: Element | None = None
    gpus: list[Element] = []
    try:
        parser.feed(text if end < 0 else text[: end + len(_END)])
        for event in parser.read_events():
            kind, element = event[0], event[-1]
            if isinstance(element, Element):
                root = element if root is None else root
                if kind == "end" and element.tag == "gpu":
                    gpus.append(element)
        parser.close()
    except ParseError as error:
        return root, gpus, f"damaged or cut XML ({error})"
    return root, gpus, ""


def _gpu(index: int, gpu: Element, driver: str | Unknown, evidence: tuple[EvidenceRef, ...]) -> Gpu:
    power = _first_of(gpu, "gpu_power_readings", "power_readings")
    return Gpu(
        index=index,
        name=_text(gpu, "product_name"),
        uuid=_text(gpu, "uuid"),
        memory_bytes=_value(gpu, "fb_memory_usage/total", memory_bytes),
        memory_used_bytes=_value(gpu, "fb_memory_usage/used", memory_bytes),
        pci_bus_id=normal_address(gpu.get("id") or gpu.findtext("pci/pci_bus_id") or ""),
        driver_version=driver,
        vbios_version=_text(gpu, "vbios_version"),
        pcie=PcieLink(
            generation=_value(gpu, "pci/pci_gpu_link_info/pcie_gen/current_link_gen", whole),
            generation_max=_value(gpu, "pci/pci_gpu_link_info/pcie_gen/max_link_gen", whole),
            width=_width(gpu, "pci/pci_gpu_link_info/link_widths/current_link_width"),
            width_max=_width(gpu, "pci/pci_gpu_link_info/link_widths/max_link_width"),
        ),
        fabric_state=_fabric_state(gpu),
        persistence_mode=_value(gpu, "persistence_mode", switch),
        compute_mode=_compute_mode(gpu),
        mig_enabled=_value(gpu, "mig_mode/current_mig", switch),
        ecc_enabled=_value(gpu, "ecc_mode/current_ecc", switch),
        ecc_corrected_volatile=_ecc(gpu, "single_bit", "_correctable"),
        ecc_uncorrected_volatile=_ecc(gpu, "double_bit", "_uncorrectable"),
        row_remap_pending=_value(gpu, "remapped_rows/remapped_row_pending", switch),
        row_remap_failed=_value(gpu, "remapped_rows/remapped_row_failure", switch),
        temperature_c=_unit(gpu, "temperature/gpu_temp", "C", whole),
        power_w=_power(power, "power_draw", "instant_power_draw", "average_power_draw"),
        power_limit_w=_power(power, "current_power_limit", "enforced_power_limit", "power_limit"),
        power_limit_default_w=_power(power, "default_power_limit"),
        sm_clock_mhz=_unit(gpu, "clocks/sm_clock", "MHz", whole),
        sm_clock_max_mhz=_unit(gpu, "max_clocks/sm_clock", "MHz", whole),
        throttle_reasons=_throttle_reasons(gpu),
        utilization_percent=_unit(gpu, "utilization/gpu_util", "%", whole),
        processes=_processes(gpu),
        evidence=evidence,
    )


def _found(element: Element, path: str) -> str | None:
    """The text at `path`. Where an element on the way has words in place of children (`GPU is lost`), those words."""
    for tag in path.split("/"):
        child = element.find(tag)
        if child is None:
            return element.text if element.tag != "gpu" and len(element) == 0 else None
        element = child
    return element.text


def _value(gpu: Element, path: str, read: Callable[[str | None, str], T | Unknown]) -> T | Unknown:
    return read(_found(gpu, path), path)


def _unit(gpu: Element, path: str, unit: str, read: Callable[[str | None, str, str], T | Unknown]) -> T | Unknown:
    return read(_found(gpu, path), path, unit)


def _text(gpu: Element, path: str) -> str | Unknown:
    return _value(gpu, path, printed)


def _width(gpu: Element, path: str) -> int | Unknown:
    text = _text(gpu, path)
    return text if isinstance(text, Unknown) else link_width(text)


def _first_of(gpu: Element, *tags: str) -> Element:
    return next((found for tag in tags if (found := gpu.find(tag)) is not None), Element("gpu"))


def _power(readings: Element, *tags: str) -> float | Unknown:
    """The first of the readings that the driver has; they were renamed with drivers 525 and 535."""
    values = [number(_found(readings, tag), tag, "W") for tag in tags]
    unknowns: list[Unknown] = []
    for value in values:
        if not isinstance(value, Unknown):
            return value
        unknowns.append(value)
    return next((value for value in unknowns if value.reason is not Reason.NOT_RECORDED), unknowns[0])


def _fabric_state(gpu: Element) -> str | Unknown:
    text = _text(gpu, "fabric/state")
    return text if isinstance(text, Unknown) else text.lower()


def _compute_mode(gpu: Element) -> str | Unknown:
    text = _text(gpu, "compute_mode")
    if isinstance(text, Unknown):
        return text
    return _COMPUTE_MODES.get(text, Unknown(Reason.UNPARSABLE, f"compute_mode: {text[:60]!r}"))


def _ecc(gpu: Element, old: str, new: str) -> int | Unknown:
    """Volatile ECC errors: one total by kind until schema 10, a sum over memories since.

    `_uncorrectable` also takes the SRAM counters that newer drivers split into parity and SECDED.
    """
    volatile = gpu.find("ecc_errors/volatile")
    if volatile is None or len(volatile) == 0:
        return whole(_found(gpu, "ecc_errors/volatile"), "ecc_errors/volatile")
    if volatile.find(old) is not None:
        return whole(_found(volatile, f"{old}/total"), f"ecc_errors/volatile/{old}/total")
    counters = [child for child in volatile if child.tag[4:].startswith(new)]
    if not counters:
        return Unknown(NOT_RECORDED.reason, f"no ecc_errors/volatile/*{new}")
    total = 0
    for counter in counters:
        errors = whole(counter.text, counter.tag)
        if isinstance(errors, Unknown):
            return errors
        total += errors
    return total


def _throttle_reasons(gpu: Element) -> tuple[str, ...] | Unknown:
    for prefix in ("clocks_event_reason", "clocks_throttle_reason"):
        parent = gpu.find(f"{prefix}s")
        if parent is not None:
            return _active(prefix, parent)
    return Unknown(NOT_RECORDED.reason, "no clocks_event_reasons")


def _active(prefix: str, parent: Element) -> tuple[str, ...] | Unknown:
    if len(parent) == 0:
        words = printed(parent.text, f"{prefix}s")
        return words if isinstance(words, Unknown) else Unknown(Reason.UNPARSABLE, f"{prefix}s: {words[:60]!r}")
    active: list[str] = []
    for child in parent:
        value = switch(child.text, child.tag)
        if isinstance(value, Unknown):
            return value
        if value:
            name = child.tag.removeprefix(f"{prefix}_")
            active.append(_REASON_NAMES.get(name, name))
    return tuple(active)


def _processes(gpu: Element) -> tuple[GpuProcess, ...] | Unknown:
    parent = gpu.find("processes")
    if parent is None:
        return Unknown(NOT_RECORDED.reason, "no processes")
    if len(parent) == 0 and (parent.text or "").strip() not in ("", "None"):
        words = printed(parent.text, "processes")
        return words if isinstance(words, Unknown) else Unknown(Reason.UNPARSABLE, f"processes: {words[:60]!r}")
    return tuple(_process_list(parent.iter("process_info")))


def _process_list(elements: Iterable[Element]) -> Iterable[GpuProcess]:
    """Those that compute, as NVML lists them; type G draws only."""
    for element in elements:
        pid = whole(element.findtext("pid"), "pid")
        if not isinstance(pid, Unknown) and element.findtext("type") != "G":
            yield GpuProcess(
                pid=pid,
                name=printed(element.findtext("process_name"), "process_name"),
                memory_bytes=memory_bytes(element.findtext("used_memory"), "used_memory"),
            )
