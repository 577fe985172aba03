"""Advise on a machine, or on a planned machine: installation, hardware, MIG, containers, network."""

import datetime
from collections.abc import Callable, Iterator

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record, quoted
from probes.base.units import GIB
from probes.catalogue.hardware import Catalogue, GpuModel
from probes.facts import MachineFacts
from recipes.advice.advice_lines import Advice, Document, Observed, Subject, lines_for
from recipes.advice.container import container_documents, observe_container
from recipes.advice.hardware import observe_hardware
from recipes.advice.hardware_plan import hardware_of, planned_hardware
from recipes.advice.installation import InstallationAdvice, advise_installation
from recipes.advice.kubelet import kubelet_documents, observe_kubelet
from recipes.advice.machine_parts import Parts, PartsList, described_machine, parts_of
from recipes.advice.mig import Need, observe_mig
from recipes.advice.network import network_documents, observe_network, stated_class
from recipes.job.pins import Pins
from recipes.machine.completed import MOST_GPUS

LIVE = "live"
"""Title of the machine on which rigtune runs."""


class Question(Record, kw_only=True):
    """The settings of one request for advice."""

    subject: Subject
    parts: PartsList = PartsList()
    supplies_w: float | None = None
    """Power that the supplies deliver together."""
    need_gib: float | None = None
    """Memory of one small job."""
    model: str | None = None
    """Model of one small job."""
    nodes: int | None = None
    dscp: int | None = None
    priority: int | None = None


def advise(facts: MachineFacts, catalogue: Catalogue, question: Question) -> Advice:
    """Return the advice on one subject for a machine or a list of parts.

    Raises UsageError for parts that the catalogue does not contain, and for impossible numbers.
    """
    if question.parts != PartsList():
        facts = described_machine(facts, question.parts, catalogue)
    if question.supplies_w is not None and question.supplies_w <= 0:
        raise _impossible_supplies(question.supplies_w)
    parts = parts_of(facts, catalogue, question.supplies_w)
    observe, document = _SUBJECTS[question.subject]
    observations = tuple(observe(parts, question))
    return Advice(
        subject=question.subject,
        machine="this machine" if facts.source in ("", LIVE) else facts.source,
        lines=lines_for(question.subject, observations),
        documents=document(parts, observations),
    )


def _observe_mig(parts: Parts, question: Question) -> Iterator[Observed]:
    return observe_mig(parts, _need(parts, question))


def _need(parts: Parts, question: Question) -> Need | None:
    """Return the memory of one job: stated, or predicted for one GPU with a micro-batch of 1."""
    if question.need_gib is not None and question.model is not None:
        raise UsageError("--memory-gib and --model both state the need of a job", "give one of them")
    if question.need_gib is not None:
        stated = question.need_gib * GIB
        basis = f"--memory-gib {question.need_gib:g}"
        return Need(memory_bytes=stated, worst_bytes=stated, basis=basis)
    if question.model is None:
        return None
    from assistant.usecases.plan import PlanRequest, plan_of  # noqa: PLC0415 - most advice needs no plan

    row = next((row for row in parts.rows if row is not None), None)
    if row is None:
        raise UsageError(
            "the need of a model depends on the GPU, and the GPU is unknown", "state it with --gpu"
        )
    request = PlanRequest(model=question.model, gpu=row.id, gpus=1, pins=Pins(micro_batch=1))
    plan = plan_of(MachineFacts(), (), request)
    predicted, room = plan.chosen.predicted.memory_bytes_per_gpu, plan.cluster.memory_bytes_per_rank
    # On a whole GPU and on a MIG instance, a process can allocate only a part of the memory that the driver
    # reports.
    reported = row.memory_bytes / room.value if room is not None else 1.0
    return Need(
        memory_bytes=predicted.needed * reported,
        worst_bytes=predicted.upper * reported,
        basis=f"predicted for {question.model} on one GPU with a micro-batch of 1 (rigtune plan)",
    )


def _no_documents(parts: Parts, observations: tuple[Observed, ...]) -> tuple[Document, ...]:
    return ()


_Observe = Callable[[Parts, Question], Iterator[Observed]]
_Write = Callable[[Parts, tuple[Observed, ...]], tuple[Document, ...]]
_SUBJECTS: dict[Subject, tuple[_Observe, _Write]] = {
    "hardware": (lambda parts, _: observe_hardware(parts), _no_documents),
    "mig": (_observe_mig, _no_documents),
    "container": (
        lambda parts, _: observe_container(parts),
        lambda _, observed: container_documents(observed),
    ),
    "kubelet": (lambda parts, _: observe_kubelet(parts), lambda _, observed: kubelet_documents(observed)),
    "network": (
        lambda parts, asked: observe_network(parts, asked.nodes, stated_class(asked.dscp, asked.priority)),
        network_documents,
    ),
}
"""Function that observes a machine, and function that writes texts to copy, by subject."""


def advise_install(
    facts: MachineFacts,
    catalogue: Catalogue,
    *,
    gpu: str | None = None,
    count: int = 1,
    operating_system: str | None = None,
    supplies_w: float | None = None,
) -> InstallationAdvice:
    """Return the installation advice for the GPUs of `facts`, or for `count` of the catalogue's `gpu`.

    Raises UsageError for a GPU or distribution that no table contains, and for numbers that no machine has.
    """
    if not 1 <= count <= MOST_GPUS:
        raise UsageError(f"--count {count} is not a possible number of GPUs", f"give 1 to {MOST_GPUS}")
    if supplies_w is not None and supplies_w <= 0:
        raise _impossible_supplies(supplies_w)
    if operating_system is not None:
        software = msgspec.structs.replace(facts.software, operating_system=operating_system)
        facts = msgspec.structs.replace(facts, software=software)
    hardware = (
        hardware_of(facts, catalogue) if gpu is None else planned_hardware(_model(gpu, catalogue), count)
    )
    return advise_installation(
        facts, hardware, today=datetime.datetime.now(datetime.timezone.utc).date(), supplies_w=supplies_w
    )


def _impossible_supplies(power_w: float) -> UsageError:
    return UsageError(
        f"--supplies-watts {power_w:g} is not a possible power",
        "give the power that all supplies deliver together, such as 10200",
    )


def _model(name: str, catalogue: Catalogue) -> GpuModel:
    if row := catalogue.gpu_named(name):
        return row
    raise UsageError(
        f"there is no GPU {quoted(name)} in the catalogue",
        did_you_mean(name, (row.id for row in catalogue.gpus), "`rigtune list gpus` lists all"),
    )
