"""Plan how to train a model on this machine."""

import math
from collections.abc import Callable, Generator
from typing import Any

import msgspec

from assistant.usecases.events import Event, StageStarted, stage
from assistant.usecases.model_file import read_model
from probes.base.errors import UsageError
from probes.base.record import Record, Unknown
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement
from recipes.job.models.files import names_model_file
from recipes.job.models.names import find_model
from recipes.job.workload import Pins, Precision, TransformerModel, Tuning, Workload
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_facts import cluster_from_facts
from recipes.machine.from_words import MachineWords, cluster_from_words, gpu_named
from recipes.planning.default_model import default_model_id
from recipes.planning.objectives import Objective, Size, best_size
from recipes.planning.plan import Plan
from recipes.planning.planner import default_workload, make_plan, shared_batch
from recipes.planning.program_comparison import fastest_program
from recipes.planning.programs import OWN, Program, program_named
from recipes.planning.run_cost import RunLength, run_cost
from recipes.planning.what_if import Variation


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
    """Tokens of the whole run; None if steps or samples are given, or nothing."""
    samples: int | None = None
    """Sequences of the whole run."""
    price: float | None = None
    """Price of a GPU hour, in any currency."""
    objective: Objective = "throughput"
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
    return plan_of(facts, measurements, request)


def plan_of(
    facts: MachineFacts,
    measurements: tuple[Measurement, ...],
    request: PlanRequest,
    change: Variation | None = None,
) -> Plan:
    """Return the plan of a request, on the machine as `change` makes it; the same plan for the same input.

    Raises UsageError, InputError or NoFeasiblePlanError.
    """
    require_positive(
        nodes=request.nodes,
        global_batch=request.global_batch,
        sequence_length=request.sequence_length,
        steps=request.steps,
        micro_batch=request.pins.micro_batch,
        ranks_per_node=request.pins.ranks_per_node,
        gpus=request.gpus,
        lora_rank=request.lora_rank,
    )
    if request.price is not None and not 0 < request.price < math.inf:
        raise UsageError(f"--price is {request.price}", "give the price of a GPU hour, above 0")
    if request.objective == "cost" and request.price is None:
        raise UsageError("--objective cost needs a price", "give the price of a GPU hour with --price")
    program = program_named(request.program or OWN)
    model = model_named(request.model or default_model_id(facts))

    def cluster_at(size: Size | None) -> Cluster:
        cluster = _cluster_of(facts, measurements, request, size)
        return cluster if change is None else change(cluster)

    def plan_at(size: Size) -> Plan:
        cluster = cluster_at(size)
        workload = _workload_of(model, cluster, request, program, rounds_batch=change is not None)
        pins = request.pins
        if change is not None:  # a change may take a GPU from each node
            pins = msgspec.structs.replace(pins, ranks_per_node=None)
        plan = make_plan(workload, cluster, facts, pins, program=program, headroom=request.headroom)
        step = plan.chosen.predicted.step_time_s.total
        cost = run_cost(workload, cluster, step, price=request.price, length_from=_length_from(request))
        return msgspec.structs.replace(plan, run=cost, objective=request.objective)

    unchanged = _cluster_of(facts, measurements, request, None)
    plan = best_size(plan_at, Size(unchanged.nodes, unchanged.ranks_per_node), request.objective)
    step = plan.chosen.predicted.step_time_s.total
    if request.program or change is not None or isinstance(step, Unknown):
        return plan
    cluster = plan.cluster if request.objective in ("cost", "fewest-gpus") else cluster_at(None)
    fastest = fastest_program(
        plan.workload,
        cluster,
        request.pins,
        headroom=request.headroom,
        own_s=step,
        own=plan.chosen.program,
    )
    return msgspec.structs.replace(plan, fastest_program=fastest)


def _length_from(request: PlanRequest) -> RunLength:
    """Return the setting that determines the number of steps."""
    if request.tokens is not None:
        return "tokens"
    if request.samples is not None:
        return "samples"
    return "assumed" if request.steps is None else "steps"


def _workload_of(
    model: TransformerModel, cluster: Cluster, request: PlanRequest, program: Program, *, rounds_batch: bool
) -> Workload:
    """Return the job of the request; its batch is rounded only for a machine that was changed."""
    batch = request.global_batch
    if rounds_batch and batch is not None:
        batch = shared_batch(batch, cluster.world_size)
    return default_workload(
        model,
        cluster,
        global_batch=batch,
        sequence_length=request.sequence_length,
        precision=request.precision,
        steps=request.steps,
        tokens=request.tokens,
        samples=request.samples,
        tuning=request.tuning,
        adapter_rank=request.lora_rank,
        program=program,
    )


def _cluster_of(
    facts: MachineFacts, measurements: tuple[Measurement, ...], request: PlanRequest, size: Size | None
) -> Cluster:
    """Return the machine that the request describes by its parts, or the machine of the facts.

    `size` is a part of that machine; None means the whole machine.
    """
    catalogue = load_catalogue()
    nodes = request.nodes if size is None else size.nodes
    ranks = request.pins.ranks_per_node if size is None else size.ranks_per_node
    if not request.gpu:
        if request.gpus is not None or request.network is not None:
            name = "--gpus" if request.gpus is not None else "--network"
            raise UsageError(f"{name} describes nodes of a GPU that is not named", "give --gpu NAME too")
        return cluster_from_facts(facts, measurements, catalogue, nodes=nodes, ranks_per_node=ranks)
    named = gpu_named(request.gpu, None, catalogue)
    usual = request.gpus or request.pins.ranks_per_node or (named.design.gpus_per_node if named else 8)
    per_node = usual if size is None else size.ranks_per_node
    words = MachineWords(
        gpu=request.gpu, gpus=per_node * nodes, gpus_per_node=usual, inter=request.network or ""
    )
    return cluster_from_words(words, catalogue)


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
                f"--pin {text[:60]} has no valid value", "give a positive whole number or a known word"
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
    **dict.fromkeys(("schedule", "sharding", "activation_checkpointing"), str),
    "recomputed_share": float,
}


_MOST_NODES = 100_000
"""Several times the number of nodes of the largest published cluster; a larger number is a typing error."""


def model_named(name: str) -> TransformerModel:
    """Return a preset by its id, or the model in a file. Raises UsageError or InputError."""
    return read_model(name) if names_model_file(name) or "/" in name else find_model(name)


def require_positive(**values: int | None) -> None:
    """Raise UsageError for an option that is not positive, or for more nodes than any cluster has."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise UsageError(
                f"--{name.replace('_', '-')} is {value}, but must be 1 or more",
                "give a positive whole number",
            )
    if (nodes := values.get("nodes")) is not None and nodes > _MOST_NODES:
        raise UsageError(f"--nodes is {nodes}, but may be at most {_MOST_NODES}", "give fewer nodes")
