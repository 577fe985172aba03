"""The GPUs for which software is to be installed: model, count and connections."""

from collections import Counter

import msgspec

from probes.base.errors import UsageError
from probes.base.record import (
    StrictRecord,
    items_of,
    known,
)
from probes.catalogue.hardware import Catalogue, GpuModel, load_catalogue
from probes.facts import Gpu, MachineFacts, PciDevice
from recipes.advice.machine_parts import Parts, parts_of, row_of


class Hardware(StrictRecord, kw_only=True):
    """The GPUs for which software is to be installed."""

    model: GpuModel
    count: int
    has_switch: bool
    """True if NVSwitches connect the GPUs."""


def hardware_of(facts: MachineFacts, catalogue: Catalogue) -> Hardware:
    """Return the most common GPU model of a machine, and the number of these GPUs.

    The driver reports the GPUs, or else the PCI bus.

    Raises UsageError if the machine has no GPU, or if the catalogue contains none of its GPUs.
    """
    devices = items_of(facts.pci_devices)
    named = [row for gpu in items_of(facts.gpus) if (row := row_of(gpu, catalogue))]
    on_bus = [
        row
        for device in devices
        if device.kind == "gpu"
        and known(device.device_id)
        and (row := catalogue.gpu_on_bus(device.device_id))
    ]
    rows = named or on_bus  # the PCI bus also shows GPUs that have no driver
    if not rows:
        raise UsageError(
            "the facts show no GPU of this machine that is in the catalogue",
            "State its GPUs: `rigtune advise install --gpu h100-sxm --count 8`; `rigtune list gpus` lists "
            "their names.",
        )
    model, count = Counter(row.id for row in rows).most_common(1)[0]
    row = next(row for row in rows if row.id == model)
    return Hardware(model=row, count=count, has_switch=_has_switch(facts, devices, row, count))


def planned_hardware(model: GpuModel, count: int) -> Hardware:
    """Return GPUs that are not installed yet.

    NVSwitches are assumed for more than four boards whose NVLinks are not bridges.
    """
    return Hardware(
        model=model, count=count, has_switch=model.nvlink_count > 0 and not model.nvlink_bridge and count > 4
    )


def parts_of_plan(facts: MachineFacts, hardware: Hardware, supplies_w: float | None) -> Parts:
    """Return the parts of the machine; the planned GPUs replace its GPUs if the two differ."""
    parts = parts_of(facts, load_catalogue(), supplies_w)
    if [row for row in parts.rows if row].count(hardware.model) != hardware.count:
        gpus = tuple(Gpu(index=index, name=hardware.model.driver_name) for index in range(hardware.count))
        facts = msgspec.structs.replace(facts, gpus=gpus)
        parts = msgspec.structs.replace(parts, facts=facts, rows=(hardware.model,) * hardware.count)
    return parts


def remarks_on(facts: MachineFacts, hardware: Hardware) -> tuple[str, ...]:
    """Return remarks on the connections between the GPUs and on the GPUs' slots."""
    model = hardware.model
    connection = f"{model.nvlink_count} NVLinks join all GPUs, which suits any parallelism within the machine"
    if model.nvlink_count == 0:
        connection = (
            "no NVLink; the GPUs exchange data over PCIe, which suits data parallelism of small models"
        )
    elif model.nvlink_bridge:
        connection = "NVLink joins pairs with a bridge; across pairs the GPUs exchange data over PCIe"
    peerless = "the driver allows no peer-to-peer access; data between GPUs goes through host memory"
    is_peerless = "GeForce" in model.driver_name and model.architecture in ("ada", "blackwell")
    words = [connection, *([peerless] if is_peerless else [])] if hardware.count > 1 else []
    remarks = [f"{model.title}: {remark}" for remark in words]
    narrow = [
        f"GPU{gpu.index} x{gpu.pcie.width_max}"
        for gpu in items_of(facts.gpus)
        if known(gpu.pcie.width_max) and gpu.pcie.width_max < model.pcie_width
    ]
    if narrow:
        remarks.append(f"slots narrower than x{model.pcie_width}: {', '.join(narrow)}")
    return tuple(remarks)


def _has_switch(facts: MachineFacts, devices: tuple[PciDevice, ...], row: GpuModel, count: int) -> bool:
    if any(device.kind == "nvswitch" for device in devices):
        return True
    gpus = items_of(facts.gpus)
    return any(link.remote == "switch" for gpu in gpus if known(gpu.nvlinks) for link in gpu.nvlinks) or (
        not gpus and planned_hardware(row, count).has_switch
    )
