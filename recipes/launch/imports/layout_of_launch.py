"""Nodes, ranks, degrees and batch of an imported launch, from the settings that its files state."""

import math
from typing import NamedTuple

from probes.base.errors import InputError
from probes.base.units import plural
from recipes.job.candidate import Degrees
from recipes.launch.imports.chains import PER_NODE
from recipes.launch.imports.resolving import Settings
from recipes.planning.space import SHARDING_OF, strategy_named

SHARDING_WORDS = {name: "hybrid" if name == "hsdp" else sharding for name, sharding in SHARDING_OF.items()}
"""Value of the setting `sharding` by the name of a strategy."""
_SHARDINGS = (*dict.fromkeys(SHARDING_OF.values()), "hybrid")
_UNSHARDED_BY_DEFAULT = (
    "megatron",
    "hf-trainer",
    "accelerate",
    "lightning",
    "nanotron",
    "megatron-deepspeed",
)
"""Programs that keep whole copies of all training state unless a setting shards it."""
_NO_ACCUMULATION = ("hf-trainer", "deepspeed", "accelerate", "torchtune")
"""Programs that accumulate over one micro-batch unless a setting asks for more."""
_CHECKPOINTING = ("none", "selective", "full")


class Start(NamedTuple):
    """Launchers of an existing launch, whether it names a program, and whether it runs in Kubernetes."""

    launchers: tuple[str, ...]
    """Launchers of ranks, outermost first."""
    has_program: bool
    is_kubernetes: bool


class Size(NamedTuple):
    """Nodes and ranks per node; an unknown number is None."""

    nodes: int | None
    ranks_per_node: int | None


def size_of(settings: Settings, start: Start) -> Size:
    """Return the nodes and ranks of the launch. Raises InputError if nodes, ranks and world size disagree."""
    per_node = any(name in PER_NODE for name in start.launchers)
    hosts = hosts_of(settings)
    is_decided = settings.decided >= {"nodes", "ranks_per_node"}
    nodes, world = settings.whole("nodes"), None if is_decided else settings.whole("world_size")
    ranks = settings.whole("ranks_per_node") or hosts.slots
    if not per_node:  # a task of the scheduler is a rank
        ranks = ranks or settings.whole("tasks_per_node")
        world = world or (None if is_decided else settings.whole("tasks"))
    if start.is_kubernetes:
        nodes = nodes or (settings.whole("workers") or 0) + (settings.whole("masters") or 0) or None
    nodes = nodes or len(hosts.names) or (world // ranks if world and ranks else None)
    nodes = nodes or _default_nodes(settings, start)
    if ranks is None and world is not None and nodes:
        ranks = world // nodes
    gpus = _gpus(settings, nodes) if per_node or start.is_kubernetes else None
    ranks = ranks or _default_ranks(settings, start, gpus)
    if world is not None and nodes and ranks and nodes * ranks != world:
        raise InputError(
            "the files contradict each other about the ranks: "
            + _stated(settings, "world_size", "tasks", "nodes", "ranks_per_node", "tasks_per_node", "hosts"),
            "the number of ranks is nodes times ranks per node: correct one of them, or give --nodes and "
            "--ranks-per-node",
        )
    return Size(nodes, ranks)


def _stated(settings: Settings, *names: str) -> str:
    """Return what the files state about these settings, each with its place."""
    stated = [each for name in names if (each := settings.statement(name)) is not None]
    return ", ".join(f"{each.setting} {each.value} ({each.where})" for each in stated)


def _default_ranks(settings: Settings, start: Start, gpus: int | None) -> int | None:
    """Return the ranks of a node if no file states them.

    They are the requested GPUs, else torchrun's default, else 1 if no launcher starts ranks; otherwise None.
    """
    if gpus is not None:
        settings.assume("ranks_per_node", gpus, "one rank for each GPU that the files request on a node")
        return gpus
    is_torchrun = start.launchers[-1:] == ("torchrun",) and settings.statement("ranks_per_node") is None
    if not start.has_program or (start.launchers and not is_torchrun):
        return None
    if any((settings.whole(name) or 1) > 1 for name in ("tp", "pp", "cp")):
        return None  # the files describe several ranks, whatever starts them
    why = "torchrun's default" if is_torchrun else "no launcher starts several ranks"
    settings.assume("ranks_per_node", 1, why)
    return 1


def _default_nodes(settings: Settings, start: Start) -> int | None:
    if settings.statement("nodes") is not None or not start.has_program:
        return None
    if "mpirun" in start.launchers or "horovodrun" in start.launchers:
        return None
    settings.assume("nodes", 1, "the files ask for no further node")
    return 1


def _gpus(settings: Settings, nodes: int | None) -> int | None:
    """Return the GPUs of a node, from texts such as `8` and `gpu:a100:8`, or its share of all GPUs."""
    of_node, of_job = (
        int(digits) if digits.isdigit() else 0
        for name in ("gpus_per_node", "gpus")
        for digits in [(settings.text(name) or "").partition("(")[0].rpartition(":")[2]]
    )
    return of_node or (of_job // nodes if nodes and of_job % nodes == 0 else 0) or None


class Hosts(NamedTuple):
    """Hosts in order, and the ranks on each if all have the same number."""

    names: tuple[str, ...]
    slots: int | None


def hosts_of(settings: Settings) -> Hosts:
    """Return the hosts of `a:8,b:8` or of a list of hosts."""
    parts = [part.strip() for part in (settings.text("hosts") or "").split(",") if part.strip()]
    counts = {part.partition(":")[2] for part in parts}
    slots = next(iter(counts)) if len(counts) == 1 else ""
    return Hosts(
        tuple(dict.fromkeys(part.partition(":")[0] for part in parts)),
        int(slots) if slots.isdigit() and int(slots) > 0 else None,
    )


class Distribution(NamedTuple):
    """Strategy and degrees; the strategy is None if it is unknown."""

    strategy: str | None
    degrees: Degrees


def distribution_of(settings: Settings, size: Size, program: str, layers: int | None) -> Distribution:
    """Return how the work is divided. Raises InputError if the degrees do not divide the ranks.

    The defaults of `program` apply; the name is empty if a file that was not given may change them.
    """
    world = (size.nodes or 1) * (size.ranks_per_node or 1)
    tp, pp, cp = (settings.whole(name) or 1 for name in ("tp", "pp", "cp"))
    if world % (tp * pp * cp) and size.nodes and size.ranks_per_node:
        raise InputError(
            f"{plural(world, 'rank')} cannot be divided by tp {tp} x pp {pp} x cp {cp}: "
            + _stated(settings, "nodes", "ranks_per_node", "tp", "pp", "cp"),
            "give --nodes and --ranks-per-node of the run that the files describe",
        )
    replicas = max(1, world // (tp * pp * cp))
    sharding = settings.word("sharding", _SHARDINGS) or settings.word("framework", _SHARDINGS)
    dp, fsdp = _shards(settings, "dp"), _shards(settings, "fsdp")
    if program == "torchtitan" and sharding is None:
        sharding = "zero3" if dp is None or dp < replicas else "none"
    if sharding is None and fsdp is not None and fsdp > 1:
        sharding = "zero3"
    is_stated = settings.statement("sharding") is not None  # perhaps with an unknown word
    if sharding is None and program in _UNSHARDED_BY_DEFAULT and not is_stated:
        sharding = "none"
        settings.assume("strategy", "ddp", f"the default of {program}: no file shards the training state")
    if sharding is None and size.nodes == size.ranks_per_node == 1:
        sharding = "none"
    if sharding == "hybrid":
        fsdp = fsdp or min(size.ranks_per_node or replicas, replicas)
        sharding = "zero3"
    if sharding == "zero3":
        fsdp = fsdp or replicas // (dp or 1)
        dp = replicas // max(1, fsdp)
    else:
        dp, fsdp = replicas, 1
    degrees = Degrees(
        dp=dp, fsdp=fsdp, tp=tp, pp=pp, cp=cp, ep=settings.whole("ep") or 1, vp=_parts(settings, pp, layers)
    )
    stage = next((name for name in SHARDING_OF.values() if name == sharding), None)
    return Distribution(None if stage is None else strategy_named(stage, degrees), degrees)


def _shards(settings: Settings, name: str) -> int | None:
    """Return a degree; None if no file states it, or for torchtitan's -1, which means all remaining ranks."""
    each = settings.statement(name)
    return None if each is None or each.value == "-1" else settings.whole(name)


def _parts(settings: Settings, pp: int, layers: int | None) -> int:
    """Return the number of parts of each pipeline stage, which files state directly or as layers per part."""
    per_part = settings.whole("layers_per_part")
    if per_part and layers and pp > 1:
        return max(1, math.ceil(layers / (pp * per_part)))
    return settings.whole("vp") or 1


class Batch(NamedTuple):
    """The three numbers of the batch; a number that does not follow from the files is None."""

    micro_batch: int | None
    grad_accum: int | None
    global_batch: int | None


def batch_of(settings: Settings, degrees: Degrees, program: str) -> Batch:
    """Return the batch from two of its three numbers. Raises InputError if all three disagree."""
    replicas = degrees.dp * degrees.fsdp
    micro, accum, total = (settings.whole(name) for name in ("micro_batch", "grad_accum", "global_batch"))
    local = settings.whole("local_batch")
    if micro is None and local is not None:
        pipelined = settings.whole("pipeline_micro_batch")
        micro = local if degrees.pp == 1 else (pipelined or 1)
        accum = accum or (local // micro if degrees.pp > 1 else None)
        total = total or (None if settings.statement("global_batch") else local * replicas)
    if accum is None and total is not None and micro is not None:
        accum = total // (micro * replicas) or None
    if accum is None and micro is not None and program in _NO_ACCUMULATION:
        accum = 1
        settings.assume("grad_accum", 1, f"the default of {program}")
    if micro is None and accum is not None and total is not None:
        micro = total // (accum * replicas) or None
    if total is None and micro is not None and accum is not None:
        total = micro * accum * replicas
    if micro and accum and total and micro * accum * replicas != total:
        raise InputError(
            f"micro-batch {micro} x {plural(accum, 'accumulation step')} x "
            f"{plural(replicas, 'replica')} is not the global batch {total}: "
            + _stated(settings, "micro_batch", "grad_accum", "global_batch"),
            "correct one of them; --nodes and --ranks-per-node state the size of the run",
        )
    return Batch(micro, accum, total)


def checkpointing_of(settings: Settings) -> str | None:
    """Return the kind of activation checkpointing; None if no file states a known kind."""
    text = settings.text("activation_checkpointing")
    if text is not None and text.lower() in ("true", "false"):
        return "full" if text.lower() == "true" else "none"
    return settings.word("activation_checkpointing", _CHECKPOINTING)
