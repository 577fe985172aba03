"""The settings of a layout in the words of the program that trains with it."""

import math
from typing import NamedTuple

from recipes.job.candidate import Degrees, Sharding
from recipes.job.workload import Workload
from recipes.planning.plan import Plan
from recipes.planning.programs import Program
from recipes.planning.space import whole_layers
from recipes.settings.setting import Optimization

_SHARED_OUT = 3
"""Number of missing layers from which on not only the first and the last part of a pipeline are smaller.

Missing layers are those that a model lacks for all parts to have the same number of layers.
"""


class Layout(NamedTuple):
    """The numbers and words of a plan or a recipe that a program needs."""

    degrees: Degrees
    sharding: Sharding
    schedule: str
    micro_batch: int
    grad_accum: int
    global_batch: int
    sequence_length: int | None
    """None for a model of images."""
    activation_checkpointing: str
    recomputed_share: float
    precision: str
    learning_rate: float
    warmup_steps: int
    steps: int
    tuning: str
    adapter_rank: int
    layers: int
    optimization: Optimization = Optimization()
    ranks_per_node: int = 0
    """0 if unknown."""


def layout_of(plan: Plan) -> Layout:
    """Return the layout of the plan's choice."""
    chosen, workload = plan.chosen, plan.workload
    text = workload if isinstance(workload, Workload) else None
    return Layout(
        degrees=chosen.degrees,
        sharding=chosen.sharding,
        schedule=chosen.schedule,
        micro_batch=chosen.micro_batch,
        grad_accum=chosen.grad_accum,
        global_batch=chosen.global_batch,
        sequence_length=None if text is None else text.sequence_length,
        activation_checkpointing=chosen.activation_checkpointing,
        recomputed_share=chosen.recomputed_share,
        precision=chosen.precision,
        learning_rate=chosen.learning_rate,
        warmup_steps=chosen.warmup_steps,
        steps=workload.steps,
        tuning="full" if text is None else text.tuning,
        adapter_rank=0 if text is None else text.adapter_rank,
        layers=1 if text is None else text.model.layers + text.model.encoder_layers,
        optimization=plan.optimization,
        ranks_per_node=plan.cluster.ranks_per_node,
    )


def program_settings(program: Program, layout: Layout) -> tuple[tuple[str, str], ...]:
    """Return name and value of each setting in the program's own words.

    The value of an option without a value is empty.
    """
    values, rows = _values(layout), []
    if program.has_presets:
        values = {**{name: str(size) for name, size in _degrees(layout).items()}, **values}
    for key, name in program.settings.items():
        value = values.get(key)
        if value is None:
            continue
        text = program.values.get(key, {}).get(value, value)
        if text or (name and not value):
            rows.append((name, text) if name else (text, ""))
    return tuple(rows)


def setting_options(program: Program, layout: Layout) -> tuple[tuple[str, ...], ...]:
    """Return each setting that is an option of the command line, as its name and values.

    Settings without dashes are words for people, such as a change in the program's code.
    """
    words = (f"{name} {value}".split() for name, value in program_settings(program, layout))
    options: list[list[str]] = []
    for row in words:
        if not row[0].startswith("--"):
            continue
        for word in row:
            if word.startswith("--"):
                options.append([word])
            else:
                options[-1].append(word)
    return tuple(map(tuple, options))


def _degrees(layout: Layout) -> dict[str, int]:
    return {name: getattr(layout.degrees, name) for name in layout.degrees.__struct_fields__}


def _values(layout: Layout) -> dict[str, str]:
    """Return the values by the names that rows of `programs.toml` use.

    Degrees of 1 and options that the layout does not need are left out. If parameters are sharded,
    recomputation is a setting of the sharding (`sharded_recomputation`), else of the model
    (`plain_recomputation`). `missing_first` and `missing_last` are the layers by which the first and the last
    part of a pipeline are smaller than the others. `node_` and `cross_` before a degree are its parts inside
    a node and across nodes. `launched_singly` states that kernels cannot be recorded
    as CUDA graphs.
    """
    degrees = layout.degrees
    has_pipeline = degrees.pp > 1
    parts = degrees.pp * degrees.vp
    per_part = math.ceil(layout.layers / parts)
    recomputes_all = layout.recomputed_share >= 1.0
    missing = -layout.layers % parts
    sizes = {name: str(size) for name, size in _degrees(layout).items() if size > 1}
    always = {
        "sharding": layout.sharding,
        "micro_batch": str(layout.micro_batch),
        "local_batch": str(layout.micro_batch * (layout.grad_accum if has_pipeline else 1)),
        "batch_per_rank": f"{layout.global_batch / layout.grad_accum / _ranks(degrees):g}",
        "grad_accum": str(layout.grad_accum),
        "global_batch": str(layout.global_batch),
        "activation_checkpointing": layout.activation_checkpointing,
        "precision": layout.precision,
        "converter": layout.precision,
        "learning_rate": f"{layout.learning_rate:g}",
        "warmup_steps": str(layout.warmup_steps),
        "steps": str(layout.steps),
    }
    length = layout.sequence_length
    lengths = (
        {}
        if length is None
        else {
            "micro_batch_tokens": str(layout.micro_batch * length),
            "global_batch_tokens": str(layout.global_batch * length),
            "sequence_length": str(length),
        }
    )
    is_full, is_sharded = layout.activation_checkpointing == "full", layout.sharding == "zero3"
    is_hybrid = is_sharded and degrees.dp > 1
    sometimes = {
        "zero1": layout.sharding == "zero1",
        "sequence_parallel": degrees.tp > 1,
        "recompute_granularity": layout.activation_checkpointing != "none",
        "recompute_method": is_full,
        "recomputed_layers": is_full,
        "recomputed_share": is_full and not recomputes_all,
        "layers_per_part": degrees.vp > 1,
        "schedule": has_pipeline,
        "pipeline_micro_batch": has_pipeline,
        "uneven_layers": has_pipeline and missing > 0,
        "missing_first": has_pipeline,
        "missing_last": has_pipeline,
        "launched_singly": has_pipeline or degrees.ep > 1,
        "balanced_context": degrees.cp > 1,
        "tuning": layout.tuning != "full",
        "adapter_rank": layout.tuning != "full",
        "hybrid_replicas": is_hybrid,
        "hybrid_shards": is_hybrid,
        "sharded_recomputation": is_sharded,
        "plain_recomputation": not is_sharded,
    }
    texts = {
        "zero1": "",
        "sequence_parallel": "",
        "recompute_granularity": layout.activation_checkpointing,
        "recompute_method": "uniform" if recomputes_all else "block",
        "recomputed_layers": "1"
        if recomputes_all
        else str(whole_layers(layout.recomputed_share, layout.layers, parts)),
        "recomputed_share": f"{layout.recomputed_share:g}",
        "layers_per_part": str(per_part),
        "schedule": layout.schedule,
        "pipeline_micro_batch": str(layout.micro_batch),
        "uneven_layers": str(missing) if missing < _SHARED_OUT else "more",
        "missing_first": str(missing // 2),
        "missing_last": str(missing - missing // 2),
        "launched_singly": "",
        "balanced_context": "balanced",
        "tuning": layout.tuning,
        "adapter_rank": str(layout.adapter_rank),
        "hybrid_replicas": str(degrees.dp),
        "hybrid_shards": str(degrees.fsdp),
        "sharded_recomputation": layout.activation_checkpointing,
        "plain_recomputation": layout.activation_checkpointing,
    }
    return {
        **sizes,
        **always,
        **lengths,
        **_sizes_by_place(layout),
        **_optimization_values(layout),
        **{name: texts[name] for name, is_needed in sometimes.items() if is_needed},
    }


def _sizes_by_place(layout: Layout) -> dict[str, str]:
    """Return the part of each degree inside a node (`node_tp`) and across nodes (`cross_tp`), above 1.

    The degrees that communicate most are inside. Experts are an axis of their own, which divides `fsdp`.
    """
    degrees, room = layout.degrees, layout.ranks_per_node or _ranks(layout.degrees)
    shards = degrees.fsdp // degrees.ep if degrees.fsdp % degrees.ep == 0 else degrees.fsdp
    sizes = {"tp": degrees.tp, "cp": degrees.cp, "ep": degrees.ep, "fsdp": shards, "dp": degrees.dp}
    values: dict[str, int] = {}
    for name, size in sizes.items():
        inside = math.gcd(size, room)
        room //= inside
        values |= {f"node_{name}": inside, f"cross_{name}": size // inside}
    return {name: str(size) for name, size in values.items() if size > 1}


def _optimization_values(layout: Layout) -> dict[str, str]:
    """Return schedule, decays and clipping by the names that rows of `programs.toml` use."""
    values, rate = layout.optimization, layout.learning_rate
    last = f"{values.final_share:g}"
    increment = math.gcd(values.ramp_from, layout.global_batch - values.ramp_from)
    sometimes = {
        "decaying_steps": (values.schedule != "constant", str(layout.steps)),
        "cosine_final_share": (values.schedule == "cosine", last),
        "wsd_final_share": (values.schedule == "wsd", last),
        "final_share": (values.schedule != "constant", last),
        "final_rate": (values.schedule != "constant", f"{rate * values.final_share:g}"),
        "decay_share": (values.schedule == "wsd", f"{values.decay_share:g}"),
        "decay_steps": (values.schedule == "wsd", str(math.ceil(values.decay_share * layout.steps))),
        "beta2": (values.beta2 > 0, f"{values.beta2:g}"),
        "betas": (values.beta2 > 0, f"[{values.beta1:g}, {values.beta2:g}]"),
        "two_betas": (values.beta2 > 0, f"{values.beta1:g} {values.beta2:g}"),
        "batch_ramp": (values.ramp_from > 0, f"{values.ramp_from} {increment} {values.ramp_samples}"),
    }
    decays = {"wsd": f"{values.decay_share:g}", "constant": "0"}
    return {
        "lr_schedule": values.schedule,
        "decaying_part": decays.get(values.schedule, "all"),
        "beta1": f"{values.beta1:g}",
        "weight_decay": f"{values.weight_decay:g}",
        "gradient_clipping": f"{values.gradient_clipping:g}",
        "accumulation_dtype": values.accumulation_dtype,
        **{name: text for name, (is_needed, text) in sometimes.items() if is_needed},
    }


def _ranks(degrees: Degrees) -> int:
    return degrees.dp * degrees.fsdp * degrees.tp * degrees.pp * degrees.cp
