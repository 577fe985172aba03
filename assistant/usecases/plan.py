"""Plan how to train a model on this machine."""

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.model_file import read_model
from probes.base.errors import UsageError
from probes.base.record import Record
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.models.files import names_model_file
from recipes.job.models.names import find_model
from recipes.job.workload import Pins, Precision, TransformerModel, Tuning
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.from_words import MachineWords, NamedGpu, cluster_from_words, gpu_named
from recipes.machine.link_words import inter_bandwidth_of, transport_of
from recipes.planning.default_model import default_model_id
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan
from recipes.planning.programs import OWN, program_named


class PlanRequest(Record, kw_only=True):
    """The settings that the user chose; rigtune chooses the settings that are None."""

    model: str = ""
    """Preset id or path of a model file; empty for a default that suits the machine."""
    nodes: int = 1
    global_batch: int | None = None
    sequence_length: int | None = None
    precision: Precision | None = None
    steps: int | None = None
    tokens: int | None = None
    """Tokens of the whole run; None if steps are given, or neither."""
    tuning: Tuning = "full"
    lora_rank: int | None = None
    program: str = ""
    """Training software: a row of `programs.toml`; empty for the user's own torch program."""
    headroom: float | None = None
    """Part of each GPU's memory that stays free; None for the default."""
    gpu: str | None = None
    """GPU of nodes that are described by their parts; None for the machine that was read."""
    gpus: int | None = None
    """GPUs per node, for `gpu`; None for the usual number."""
    network: str | None = None
    """Network of a node in words, for `gpu`."""
    pins: Pins = Pins()


@stage("plan")
def plan_workload(
    facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest
) -> Generator[Event, None, Plan]:
    """Make a plan; the last event's result is a `Plan`.

    Raises UsageError, InputError or NoFeasiblePlanError.
    """
    yield StageStarted(stage="plan", title=f"Planning {request.model or 'the default workload'}")
    _require_positive(
        nodes=request.nodes,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        steps=request.steps,
        micro_batch=request.pins.micro_batch,
        ranks_per_node=request.pins.ranks_per_node,
        gpus=request.gpus,
        lora_rank=request.lora_rank,
    )
    program = program_named(request.program or OWN)
    model = model_named(request.model or default_model_id(facts))
    cluster = _cluster_of(facts, measurements, request)
    workload = default_workload(
        model,
        cluster,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        precision=request.precision,
        steps=request.steps,
        tokens=request.tokens,
        tuning=request.tuning,
        adapter_rank=request.lora_rank,
        program=program,
    )
    return make_plan(workload, cluster, facts, request.pins, program=program, headroom=request.headroom)


def _cluster_of(facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest) -> Cluster:
    """Return the machine that the request describes by its parts, or the machine of the facts."""
    catalogue = load_catalogue()
    if not request.gpu:
        if request.gpus is not None or request.network is not None:
            name = "--gpus" if request.gpus is not None else "--network"
            raise UsageError(f"{name} describes nodes of a GPU that is not named", "give --gpu NAME too")
        return cluster_from_facts(
            facts,
            measurements,
            catalogue,
            nodes=request.nodes,
            ranks_per_node=request.pins.ranks_per_node,
        )
    named = catalogue_gpu(request.gpu)
    per_node = request.gpus or request.pins.ranks_per_node or named.design.gpus_per_node
    words = MachineWords(
        gpu=request.gpu,
        gpus=per_node * request.nodes,
        gpus_per_node=per_node,
        inter=known_network(request.network or ""),
    )
    return cluster_from_words(words, catalogue)


def catalogue_gpu(name: str) -> NamedGpu:
    """Return the GPU with this name. Raises UsageError if the catalogue has none."""
    named = gpu_named(name, None, load_catalogue())
    if named is None:
        raise UsageError(f"there is no GPU {name[:60]!r} in the catalogue", "see `rigtune list gpus`")
    return named


def known_network(words: str) -> str:
    """Return the words about a network. Raises UsageError if they name neither a rate nor a transport."""
    if words and transport_of(words) == "unknown" and inter_bandwidth_of(words, 1) is None:
        raise UsageError(
            f"network {words[:60]!r} names no rate and no transport",
            'give for example "8x400G IB", "100 Gb/s Ethernet" or "NDR InfiniBand"',
        )
    return words


def pins_of(pinned: tuple[str, ...], **pins: Any) -> Pins:
    """Return the pins of `NAME=VALUE` texts and of other options. Raises UsageError for a wrong text."""
    values = {name: value for name, value in pins.items() if value is not None}
    for text in pinned:
        name, _, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if name not in _PINS:
            raise UsageError(f"{text[:60]!r} pins nothing", f"give NAME=VALUE with one of {', '.join(_PINS)}")
        try:
            values[name] = _PINS[name](value.strip())
        except ValueError:
            raise UsageError(
                f"the pin {text[:60]!r} has no valid value", "give a positive whole number or a known word"
            ) from None
    try:
        return msgspec.convert(values, Pins)
    except msgspec.ValidationError as error:
        raise UsageError(f"a pinned setting is wrong: {error}", "see `rigtune plan --help`") from error


def _positive(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 10**9:
        raise ValueError(text)
    return number


_PINS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("tp", "pp", "vp", "cp", "ep", "fsdp", "micro_batch", "grad_accum"), _positive),
    **dict.fromkeys(("strategy", "schedule", "sharding", "activation_checkpointing"), str),
    "recomputed_share": float,
}
PINNED_NAMES = tuple(_PINS)
"""Names of the settings that `NAME=VALUE` can pin."""


_MOST_NODES = 100_000
"""Several times the number of nodes of the largest published cluster; a larger number is a typing error."""


def model_named(name: str) -> TransformerModel:
    """Return a preset by its id, or the model in a file. Raises UsageError or InputError."""
    return read_model(name) if names_model_file(name) or "/" in name else find_model(name)


def _require_positive(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} is {value}, but must be 1 or more",
                "give a positive whole number",
            )
    if (nodes := values.get("nodes")) is not None and nodes > _MOST_NODES:
        raise UsageError(f"--nodes is {nodes}, but may be at most {_MOST_NODES}", "give fewer nodes")
