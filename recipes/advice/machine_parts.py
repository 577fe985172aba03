"""The parts of a machine for advice about hardware, taken from facts or from a list of parts."""

import functools
import re
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeVar

import msgspec

from probes.base.errors import UsageError
from probes.base.record import (
    NOT_RECORDED,
    Reason,
    Record,
    Unknown,
    first_unknown,
    items_of,
    known,
    only_known,
    quoted,
)
from probes.base.rows import load_rows
from probes.base.units import GIB
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.catalogue.thresholds import Cited
from probes.facts import Cpu, Gpu, MachineFacts, Nic, is_virtual
from probes.judging.reporting import accelerator_words
from recipes.constants import Constant
from recipes.machine.completed import MOST_GPUS, completed_facts
from recipes.machine.link_words import inter_bandwidth_of, ports_of, transport_of

T = TypeVar("T")

LIST_OF_PARTS = "the listed parts"
_NOT_STATED = Unknown(Reason.NOT_RECORDED, "the list of parts does not state it")


class Processor(Cited, kw_only=True):
    """A family of processors."""

    name: str
    """Regular expression for the model name; its group is looked up in `power_w`."""
    power_w: dict[str, float]
    lanes: int
    """PCIe lanes of one socket."""
    lanes_of_two: int
    """PCIe lanes of two sockets together."""
    generation: int


class PartsList(Record, kw_only=True):
    """Parts of a machine that the user states."""

    gpu: str | None = None
    """Name of the GPU in any spelling; None: the GPUs of the machine that was read."""
    gpus: int | None = None
    """GPUs of one machine; None for the number that the machine shows, or else the usual number."""
    cpu: str | None = None
    sockets: int = 1
    network: str | None = None
    """Ports of one machine in words, such as `8x400G IB`."""
    memory_gib: float | None = None


class Parts(Record, kw_only=True):
    """The facts of a machine, with the catalogue's rows of its parts."""

    facts: MachineFacts
    rows: tuple[GpuModel | None, ...]
    """Row of each GPU, in the order of the GPUs; None for a GPU that the catalogue does not contain."""
    supplies_w: float | Unknown
    """Power that all supplies deliver together."""

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return items_of(self.facts.gpus)

    def of_each(self, read: Callable[[Gpu, GpuModel | None], T | Unknown]) -> tuple[T, ...] | Unknown:
        """Return a value of each GPU; Unknown if the value of a GPU is unknown."""
        values = [read(gpu, row) for gpu, row in zip(self.gpus, self.rows, strict=True)]
        return first_unknown(*values) or tuple(only_known(values))

    @property
    def is_virtual(self) -> bool:
        """True if the processor, the system or the GPUs' driver shows a hypervisor."""
        modes = {gpu.virtualization for gpu in self.gpus}
        return is_virtual(self.facts) or bool(modes & {"pass-through", "vgpu"})

    @property
    def maker(self) -> Literal["nvidia", "amd", "other"]:
        """Maker of the GPUs, or of the accelerators if there are no GPUs; `nvidia` if there are neither."""
        names = [gpu.name for gpu in self.gpus if known(gpu.name)]
        names += [row.title for row in self.rows if row is not None]
        names += [each.name for each in items_of(self.facts.accelerators) if not self.gpus]
        if any(re.search(r"\bAMD\b|\bInstinct\b", name, re.IGNORECASE) for name in names):
            return "amd"
        is_other = (not self.gpus and names) or any(row and row.link_kind == "ethernet" for row in self.rows)
        return "other" if is_other else "nvidia"

    @property
    def accelerators(self) -> str:
        """The GPUs or accelerators in words: `8 x AMD Instinct MI300X`; empty if there are none."""
        names = [gpu.name if known(gpu.name) else "GPU of unknown model" for gpu in self.gpus]
        counts = ", ".join(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))
        return counts or accelerator_words(self.facts)

    @property
    def is_planned(self) -> bool:
        """True for a list of parts: no machine was read, so slots and temperatures are unknown."""
        return self.facts.source == LIST_OF_PARTS


@functools.lru_cache(maxsize=1)
def load_figures() -> dict[str, Constant]:
    """Return the figures of `recipes/data/advice/figures.toml` by id."""
    return {row.id: row for row in load_rows("recipes", "figures", Constant, file="advice/figures")}


def figure(figure_id: str) -> float:
    """Return the value of one figure, in the row's unit."""
    return load_figures()[figure_id].value


class Tools(Cited, kw_only=True):
    """The commands of one maker's tools."""

    maker: Literal["nvidia", "amd", "other"]
    words: dict[str, str]


class ReadValue(NamedTuple):
    """A value, and the name of the fact from which the value was taken."""

    value: float
    fact: str


def tool_words(parts: Parts) -> dict[str, str]:
    """Return the commands that read and set the GPUs of this maker, by the words in braces in the rows."""
    rows = load_rows("recipes", "tools", Tools, file="advice/hardware")
    return next(dict(row.words) for row in rows if row.maker == parts.maker)


def facts_of(values: Iterable[ReadValue]) -> str:
    """Return the names of the facts from which values were taken."""
    return " and ".join(dict.fromkeys(value.fact for value in values))


def parts_of(facts: MachineFacts, catalogue: Catalogue, supplies_w: float | None = None) -> Parts:
    """Return the parts of a machine.

    `supplies_w` is the power of all supplies that the user states; None for the value in the facts.
    """
    rows = tuple(row_of(gpu, catalogue) for gpu in items_of(facts.gpus))
    stated = supplies_w if supplies_w is not None else facts.power.supply_capacity_w
    return Parts(facts=facts, rows=rows, supplies_w=stated)


def row_of(gpu: Gpu, catalogue: Catalogue) -> GpuModel | None:
    """Return the catalogue's row of a GPU, by its name or else by its PCI device."""
    row = catalogue.gpu(gpu.name) if known(gpu.name) else None
    return row or (catalogue.gpu_on_bus(gpu.pci_device_id) if known(gpu.pci_device_id) else None)


def described_machine(facts: MachineFacts, stated: PartsList, catalogue: Catalogue) -> MachineFacts:
    """Return the facts with the parts that the user states.

    Without a machine that was read (`facts.source` is empty), the result is a list of parts. Raises
    UsageError for an unknown GPU or processor, for impossible numbers, for GPUs that contradict the facts,
    and for other parts that the facts already show.
    """
    is_read = bool(facts.source)
    if stated.gpu is None and not is_read:
        raise UsageError("a list of parts has no GPU", "state it with --gpu NAME")
    if stated.gpu is None and stated.gpus is not None:
        raise UsageError("--gpus without --gpu", "state the GPU too, such as --gpu H100-PCIE")
    if stated.gpus is not None and not 1 <= stated.gpus <= MOST_GPUS:
        raise UsageError(f"--gpus {stated.gpus} is not a possible number of GPUs", f"give 1 to {MOST_GPUS}")
    if stated.gpu is not None:
        facts = completed_facts(facts, stated.gpu, stated.gpus, catalogue)
    if not is_read:
        blank = Cpu(model=_NOT_STATED, sockets=_NOT_STATED)
        facts = msgspec.structs.replace(
            facts, source=LIST_OF_PARTS, cpu=blank, nics=_NOT_STATED, links=_NOT_STATED
        )
    if stated.cpu is not None:
        _require_unknown("--cpu", facts.cpu.model, facts)
        if processor_of(stated.cpu) is None:
            raise UsageError(
                f"--cpu {quoted(stated.cpu)} is no processor that rigtune knows",
                "give a model such as 'EPYC 9654', 'Xeon Platinum 8480+' or 'Threadripper PRO 5975WX', "
                "or leave --cpu out",
            )
        cpu = msgspec.structs.replace(facts.cpu, model=stated.cpu, sockets=stated.sockets)
        facts = msgspec.structs.replace(facts, cpu=cpu)
    if stated.memory_gib is not None:
        _require_unknown("--memory", facts.memory.total_bytes, facts)
        memory = msgspec.structs.replace(facts.memory, total_bytes=round(stated.memory_gib * GIB))
        facts = msgspec.structs.replace(facts, memory=memory)
    if stated.network is not None:
        _require_unknown("--network", facts.nics, facts)
        facts = msgspec.structs.replace(facts, nics=_ports(stated.network, len(items_of(facts.gpus))))
    return facts


def _require_unknown(option: str, value: object, facts: MachineFacts) -> None:
    if not isinstance(value, Unknown):
        raise UsageError(
            f"{option}, but the machine that was read ({facts.source[:60]}) shows this part",
            f"leave {option} out",
        )


def processor_of(model: str) -> tuple[Processor, float | None] | None:
    """Return the family of a processor and its power in watts; None for an unknown family.

    The power is None if the row does not contain the model.
    """
    for row in load_rows("recipes", "processors", Processor, file="advice/processors"):
        match = re.fullmatch(row.name, f" {model.strip()}", re.IGNORECASE)
        if match:
            return row, row.power_w.get(match[1].upper())
    return None


def _ports(network: str, gpus: int) -> tuple[Nic, ...]:
    """Return the RDMA ports that words such as `8x400G IB` describe; none for plain Ethernet.

    Raises UsageError without a rate, and for an impossible number of ports.
    """
    rate, count = inter_bandwidth_of(network, max(1, gpus)), ports_of(network)
    transport = transport_of(network)
    if rate is None or not 1 <= count <= MOST_GPUS:
        lack = "no rate" if rate is None else f"{count} ports, but a machine has 1 to {MOST_GPUS}"
        raise UsageError(
            f"--network {quoted(network)} names {lack}",
            'give the ports of one machine, such as "8x400G IB", "4x200G RoCE" or "100G Ethernet"',
        )
    if transport == "ethernet":  # ports without RDMA are interfaces, not NICs for training
        return ()
    layers: dict[str, str | Unknown] = {"infiniband": "InfiniBand", "roce": "Ethernet", "efa": "Ethernet"}
    return tuple(
        Nic(
            name=f"port{index}",
            link_layer=layers.get(transport, NOT_RECORDED),
            state="ACTIVE",
            rate_gbps=rate * 8 / 1e9 / count,
            device_type="efa" if transport == "efa" else NOT_RECORDED,
        )
        for index in range(count)
    )
