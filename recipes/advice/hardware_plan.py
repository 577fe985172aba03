"""The GPUs for which software is installed: model, count, power and connections."""

from collections import Counter

from probes.base.errors import UsageError
from probes.base.record import (
    NOT_RECORDED,
    Record,
    StrictRecord,
    Unknown,
    items_of,
    known,
    map_known,
    only_known,
    value_or,
)
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import MachineFacts, PciDevice
from recipes.advice.machine_parts import load_figures, row_of


class Hardware(StrictRecord, kw_only=True):
    """The GPUs for which software is installed."""

    model: GpuModel
    count: int
    has_switch: bool
    """Whether the board has NVSwitches, which need NVIDIA's Fabric Manager."""


class PowerBudget(Record, kw_only=True):
    """Board power compared with the power supplies, in watts. Cooling must remove the same power as heat."""

    boards_w: float | Unknown
    """Sum of the boards' power limits."""
    machine_w: float | Unknown
    """Peak draw of a machine with these boards, scaled from a published machine."""
    supplies_w: float | Unknown | None
    """Power of the supplies, as the management controller or the user states it; None if unknown."""
    verdict: str
    source: str


def hardware_of(facts: MachineFacts, catalogue: Catalogue) -> Hardware:
    """Return the GPUs of a machine, as the driver or the PCI bus reports them.

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
            "no GPU of this machine is in the catalogue",
            "State its GPUs: `rigtune advise install --gpu h100-sxm --count 8`; `rigtune list gpus` lists "
            "their names.",
        )
    model, count = Counter(row.id for row in rows).most_common(1)[0]
    row = next(row for row in rows if row.id == model)
    return Hardware(model=row, count=count, has_switch=_has_switch(facts, devices, row, count))


def planned_hardware(model: GpuModel, count: int) -> Hardware:
    """Return GPUs that are not installed yet.

    More than four boards with NVLinks but without bridges are assumed to share NVSwitches.
    """
    return Hardware(
        model=model, count=count, has_switch=model.nvlink_count > 0 and not model.nvlink_bridge and count > 4
    )


def power_budget(facts: MachineFacts, hardware: Hardware, supplies_w: float | None) -> PowerBudget:
    """Return the power of boards, machine and supplies with a verdict.

    Board limits come from the driver, or else from the catalogue. The power of the supplies comes from the
    user, or else from the BMC.
    """
    gpus = items_of(facts.gpus)
    limits = only_known(gpu.power_limit_w for gpu in gpus)
    each = hardware.model.power_limit_w
    boards: float | Unknown = sum(limits) if limits and len(limits) == len(gpus) else NOT_RECORDED
    if isinstance(boards, Unknown) and each is not None:
        boards = each * hardware.count
    factor = load_figures()["board_power_factor"]
    machine = map_known(boards, lambda boards: boards * factor.value)
    supplies = supplies_w if supplies_w is not None else facts.power.supply_capacity_w
    stated = value_or(supplies, None)
    return PowerBudget(
        boards_w=boards,
        machine_w=machine,
        supplies_w=stated,
        verdict=_power_verdict(boards, machine, stated),
        source=f"{factor.source} ({factor.date})",
    )


def _power_verdict(boards: float | Unknown, machine: float | Unknown, supplies: float | None) -> str:
    if isinstance(boards, Unknown) or isinstance(machine, Unknown):
        return "the boards' power is not known"
    heat = f"the boards draw {boards / 1000:.1f} kW, which cooling must remove as heat"
    if supplies is None:
        return (
            f"{heat}; state the supplies with --supplies-watts to compare (about {machine / 1000:.1f} kW for "
            "the whole machine)"
        )
    left = f"{(supplies - boards) / 1000:.1f} kW left for processors, memory, NICs and fans"
    if boards > supplies:
        return (
            f"{heat}; the supplies deliver {supplies / 1000:.1f} kW: the boards will be throttled, or the "
            "machine will switch off"
        )
    if machine > supplies:
        return (
            f"{heat}; {left}: less than in a published machine of this kind, so lower the power limits or "
            "add a supply"
        )
    return f"{heat}; {left}: enough"


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
