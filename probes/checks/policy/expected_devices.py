"""Compare the GPUs and the training ports with the operator's policy.

Source: the policy file. Only limits and expectations that the policy states are judged here.
"""

import operator
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from probes.base.record import Unknown, items_of, known, map_known
from probes.base.units import gbit_per_s, gib
from probes.facts import Nic
from probes.judging.findings import Evidence, Finding, Judge
from probes.judging.policies.compared import (
    GPU_AMOUNTS,
    GPU_MODES,
    NIC_AMOUNTS,
    Held,
    Wish,
    compare_each,
    compared,
    different,
    is_near,
)
from probes.judging.policies.expected_versions import any_matches, words_of
from probes.judging.rails import training_rails
from probes.judging.reporting import HOST, evidence_of, fold_names, has_no_gpu, responsive_of, subject_name
from probes.parsers.topology.pci_addresses import normal_address

GPUS = Judge(check_id="policy-gpus", why="Jobs are planned for the GPUs that the policy states.")
NICS = Judge(check_id="policy-nics", why="Jobs are planned for the network that the policy states.")
_COMMON: tuple[tuple[str, str, Callable[[Any], str], Callable[[Nic], Any]], ...] = (
    ("rate_gbps", "the rate", gbit_per_s, lambda nic: nic.rate_gbps),
    ("link_layer", "the link layer", str, lambda nic: nic.link_layer),
)
"""Values that all training ports must have: field of the policy, its name in findings, the function that
writes a value, and the function that reads the value of a port.
"""


def policy_gpus(evidence: Evidence) -> Iterator[Finding]:
    """Compare number, model, memory, VBIOS, modes, limits and links of the GPUs."""
    return compared(GPUS, evidence, _held_gpus(evidence))


def policy_nics(evidence: Evidence) -> Iterator[Finding]:
    """Compare number, rate, link layer, PCIe link, firmware and places of the training ports."""
    return compared(NICS, evidence, _held_nics(evidence))


def _held_gpus(evidence: Evidence) -> Iterator[Held]:
    wanted, gpus = evidence.policy.gpu, evidence.facts.gpus
    if wanted.count is not None:
        number = "0" if has_no_gpu(evidence.facts) else map_known(gpus, lambda gpus: str(len(gpus)))
        yield Held("gpu.count", "the number of GPUs", str(wanted.count), number, number == str(wanted.count))
    # A machine whose GPUs cannot be read meets a policy that expects no GPU.
    judged_gpus = () if wanted.count == 0 and isinstance(gpus, Unknown) else map_known(gpus, responsive_of)
    if wanted.model is not None:
        row = evidence.catalogue.gpu(wanted.model)

        def is_model(name: str) -> bool:
            is_named = name.lower() == str(wanted.model).lower()
            return is_named or (row is not None and evidence.catalogue.gpu(name) == row)

        wish = Wish("gpu.model", "the model", f"{row.title} ({row.id})" if row is not None else wanted.model)
        yield from compare_each(wish, judged_gpus, lambda gpu: gpu.name, is_model, str)
    if wanted.memory_bytes is not None:
        size, share = wanted.memory_bytes, wanted.memory_tolerance_percent
        wish = Wish("gpu.memory_bytes", "the memory", f"{gib(size)}, give or take {share:g} %")
        yield from compare_each(
            wish, judged_gpus, lambda gpu: gpu.memory_bytes, lambda has: is_near(has, size, share), gib
        )
    if wanted.vbios is not None:
        vbios = wanted.vbios
        wish = Wish("gpu.vbios", "the VBIOS", words_of(vbios))
        yield from compare_each(
            wish, judged_gpus, lambda gpu: gpu.vbios_version, lambda has: any_matches(has, vbios), str
        )
    for field, what, value_of in GPU_MODES:
        is_on: bool | None = getattr(wanted, field)
        if is_on is not None:
            wish = Wish(f"gpu.{field}", what, "on" if is_on else "off")
            yield from compare_each(
                wish, judged_gpus, value_of, partial(operator.is_, is_on), lambda on: "on" if on else "off"
            )
    for field, what, unit, amount_of in GPU_AMOUNTS:
        amount: float | None = getattr(wanted, field)
        if amount is not None:
            wish = Wish(f"gpu.{field}", what, f"{amount:g}{unit}")
            words = f"{{:g}}{unit}".format
            yield from compare_each(wish, judged_gpus, amount_of, partial(_is_amount, amount), words)


def _is_amount(wanted: float, value: float) -> bool:
    """Return whether the numbers differ by at most 0.5, because drivers report watts with a fraction."""
    return abs(wanted - value) <= 0.5


def _held_nics(evidence: Evidence) -> Iterator[Held]:
    wanted, nics = evidence.policy.nic, evidence.facts.nics
    active = training_rails(evidence.facts).active
    refs = evidence_of(active)
    names = tuple(map(subject_name, active)) or (HOST,)
    if wanted.count is not None:
        number = f"{len(active)}: {fold_names(names)}" if active else "0"
        yield Held(
            "nic.count",
            "the number of training ports",
            str(wanted.count),
            nics if isinstance(nics, Unknown) else number,
            len(active) == wanted.count,
            evidence=refs,
        )
    for field, what, words, value_of in _COMMON:
        value = getattr(wanted, field)
        if value is not None and wanted.count != 0:
            values = different(map(value_of, active), nics)
            yield Held(
                f"nic.{field}",
                what,
                words(value),
                values if isinstance(values, Unknown) else ", ".join(map(words, values)) or "no port",
                values == (value,),
                names,
                refs,
            )
    yield from _held_nic_links(evidence)
    for kind, versions in wanted.firmware.items():
        wish = Wish(f"nic.firmware.{kind}", f"the firmware of {kind}", words_of(versions))
        cards = [nic for nic in items_of(nics) if nic.device_type == kind]
        if not cards:
            yield Held(*wish, nics if isinstance(nics, Unknown) else "no such card", holds=False)
        for nic in cards:
            version = nic.firmware_version
            holds = known(version) and any_matches(version, versions)
            yield Held(*wish, version, holds, (subject_name(nic),), nic.evidence)
    for name, bus_id in wanted.places.items():
        address = normal_address(bus_id)
        ports = [nic for nic in items_of(nics) if nic.name == name]
        port = next((nic for nic in ports if nic.pci_bus_id == address), ports[0] if ports else None)
        place = port.pci_bus_id if port else nics if isinstance(nics, Unknown) else "no such device"
        refs = port.evidence if port else ()
        yield Held(f"nic.places.{name}", "the place", bus_id, place, place == address, (name,), refs)


def _held_nic_links(evidence: Evidence) -> Iterator[Held]:
    """Compare the PCIe link of each training port."""
    wanted, nics = evidence.policy.nic, evidence.facts.nics
    active = training_rails(evidence.facts).active
    for field, what, value_of in NIC_AMOUNTS:
        amount: int | None = getattr(wanted, field)
        for nic in active if amount is not None else ():
            value, wish = value_of(nic), Wish(f"nic.{field}", what, str(amount))
            yield Held(*wish, map_known(value, str), value == amount, (subject_name(nic),), nic.evidence)
        if amount is not None and not active:
            no_port = nics if isinstance(nics, Unknown) else "no port"
            yield Held(f"nic.{field}", what, str(amount), no_port, holds=wanted.count == 0)
