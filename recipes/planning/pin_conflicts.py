"""The reason why pinned settings allow no layout: the first pin that is impossible, alone or with others."""

import math
from collections.abc import Iterator

import msgspec

from probes.base.units import plural
from recipes.planning.programs import load_programs, trains
from recipes.planning.space import (
    SHARDING_OF,
    Request,
    context_degrees,
    expert_degrees,
    pipeline_degrees,
    schedules,
    tensor_degrees,
)

_MOST_LISTED = 12


def pin_conflict(request: Request) -> str:
    """Return why the pins allow no layout, with possible values; empty if no rule explains it."""
    return next(_conflicts(request), "")


def _conflicts(request: Request) -> Iterator[str]:
    yield from _impossible_degrees(request)
    yield from _impossible_sharing(request)
    yield from _impossible_products(request)


def _impossible_degrees(request: Request) -> Iterator[str]:
    """Yield each pinned degree that is impossible here even without other pins."""
    pins = request.pins
    if request.model is None and any(getattr(pins, name) for name in ("tp", "pp", "cp", "ep", "vp")):
        yield "an image model can be divided only by dp and fsdp"
    for name, possible in _possible_degrees(request).items():
        pin = getattr(pins, name)
        if pin is None or pin in possible:
            continue
        if possible == (1,):
            instead = _with_other_programs(request, name, pin)
            yield f"{request.program.title} has only {name} 1 here: {instead}"
        else:
            yield f"{name} can be {_listed(possible)} here"
    yield from _impossible_pipeline(request)


def _possible_degrees(request: Request) -> dict[str, tuple[int, ...]]:
    """Return the values of each degree that the program, the model and the ranks allow without other pins."""
    world = request.cluster.world_size
    return {
        "tp": tensor_degrees(request),
        "pp": pipeline_degrees(request, world),
        "cp": context_degrees(request, world, 1),
        "ep": expert_degrees(request, world),
    }


def _with_other_programs(request: Request, name: str, pin: int) -> str:
    """Return the programs that allow the pinned degree, or else the degrees that any program allows."""
    if name == "ep" and request.model is not None and not request.model.is_moe:
        return f"drop the pin, because {request.model.id} has no experts"
    others = {
        row.id: _possible_degrees(request._replace(program=row))[name]
        for row in load_programs().values()
        if row.runs_on(request.cluster) and trains(row, request.workload)
    }
    able = [program for program, possible in others.items() if pin in possible]
    if able:
        return f"name a program that has {name} {pin}: --program {', '.join(able)}"
    sizes = tuple(sorted({size for possible in others.values() for size in possible}))
    if sizes in ((), (1,)):
        return "drop the pin; no program can divide this job so"
    return f"drop the pin; with other programs, {name} can be {_listed(sizes)}{_must_divide(request, name)}"


def _must_divide(request: Request, name: str) -> str:
    model = request.model
    if model is None:
        return ""
    ranks = plural(request.cluster.world_size, "rank")
    parts = {"tp": f"{model.heads} heads", "ep": f"{model.experts} experts"}
    return f": it must divide {parts[name]} and {ranks}" if name in parts else ""


def _impossible_pipeline(request: Request) -> Iterator[str]:
    """Yield the pinned schedule or parts of stages that the program or the number of layers excludes."""
    title, pins = request.program.title, request.pins
    if pins.schedule not in (None, "1f1b", *request.program.schedules):
        yield f"schedules of {title}: {', '.join(request.program.schedules) or 'none'}"
    if (pins.vp or 1) > 1 and pins.pp == 1:
        yield f"vp {pins.vp} divides the stages of a pipeline, and pp 1 is none: pin pp of at least 2"
    if (pins.vp or 1) > 1 and "interleaved" not in request.program.schedules:
        yield f"{title} does not divide pipeline stages into parts: drop the pinned vp"
    if (pins.vp or 1) > 1 and pins.pp is not None:
        free = request._replace(pins=msgspec.structs.replace(pins, vp=None))
        parts = tuple(parts for _, parts in schedules(free, pins.pp))
        if parts and pins.vp not in parts:
            yield f"vp can be {_listed(parts)} with pp {pins.pp}"


def _listed(values: tuple[int, ...]) -> str:
    """Return the values, of which only the first are named if there are many."""
    rest = " ..." if len(values) > _MOST_LISTED else ""
    return ", ".join(map(str, values[:_MOST_LISTED])) + rest


def _impossible_sharing(request: Request) -> Iterator[str]:
    """Yield pins of the strategy, the sharding and the sharding group that the program does not combine."""
    program, pins = request.program, request.pins
    allowed = {*program.shardings, *program.pipeline_shardings}
    strategies = [name for name, sharding in SHARDING_OF.items() if sharding in allowed]
    strategies = [name for name in strategies if name != "hsdp" or program.hybrid]
    if pins.strategy is not None and pins.strategy not in strategies:
        yield f"strategies of {program.title}: {', '.join(strategies)}"
    if pins.sharding is not None and pins.sharding not in allowed:
        yield f"shardings of {program.title}: {', '.join(sorted(allowed))}"
    named = None if pins.strategy is None else SHARDING_OF[pins.strategy]
    if pins.sharding is not None and named not in (None, pins.sharding):
        yield f"strategy {pins.strategy} is sharding {named}: drop one of the two pins"
    if (pins.fsdp or 1) > 1 and (pins.sharding or named) not in (None, "zero3"):
        yield "fsdp is the number of ranks that share the parameters: pin strategy fsdp or hsdp with it"


def _impossible_products(request: Request) -> Iterator[str]:
    """Yield products of pins that divide neither the ranks nor the batch."""
    pins, world, batch = request.pins, request.cluster.world_size, request.workload.global_batch
    sizes = {name: size for name in ("tp", "pp", "cp", "fsdp") if (size := getattr(pins, name) or 1) > 1}
    product = math.prod(sizes.values())
    words = " x ".join(f"{name} {size}" for name, size in sizes.items())
    if world % product:
        yield f"{words} needs a multiple of {product} ranks, and there are {world}"
        return
    share = (pins.micro_batch or 1) * (pins.grad_accum or 1)
    batches = ("micro_batch", "grad_accum")
    counted = " x ".join(
        f"{name.replace('_', '-')} {size}" for name in batches if (size := getattr(pins, name)) is not None
    )
    if batch % share:
        yield f"{counted} does not divide the global batch of {batch}"
    elif pins.micro_batch is not None and pins.grad_accum is not None and world % (batch // share):
        replicas = plural(batch // share, "data-parallel rank")
        yield f"{counted} of a global batch of {batch} needs {replicas}, and {world} ranks cannot form them"
