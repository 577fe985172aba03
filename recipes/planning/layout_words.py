"""Describe a layout in words for people: `ZeRO-1 64 × tp 8 × pp 8 (vp 16)`."""

from recipes.job.candidate import Candidate, Degrees
from recipes.planning.plan import Choice
from recipes.planning.space import strategy_of

STRATEGY_TITLES = {"ddp": "DDP", "zero1": "ZeRO-1", "zero2": "ZeRO-2", "fsdp": "FSDP", "hsdp": "HSDP"}
"""Titles of the data-parallel strategies by name."""
DEGREE_TITLES = {
    "tp": "tensor parallelism",
    "pp": "pipeline",
    "cp": "context parallelism",
    "ep": "expert parallelism",
}
"""Titles of the kinds of model parallelism by the name of their degree."""


def layout_title(row: Candidate | Choice, ranks: str = "GPUs") -> str:
    """Return the strategy and degrees of a layout as a product that gives the number of ranks.

    `ranks` is the word for ranks: GPUs, unless the machine has none. Expert parallelism is not a factor,
    because the experts are spread over ranks that other factors count.
    """
    degrees = row.degrees
    strategy = row.strategy if isinstance(row, Choice) else strategy_of(row)
    name = STRATEGY_TITLES.get(strategy, strategy)
    sizes = [str(size) for size in (degrees.dp, degrees.fsdp) if size > 1]
    parts = f" (vp {degrees.vp})" if degrees.vp > 1 else ""
    model = [
        f"{degree} {size}{parts if degree == 'pp' else ''}"
        for degree in ("tp", "pp", "cp")
        if (size := getattr(degrees, degree)) > 1
    ]
    experts = f", ep {degrees.ep}" if degrees.ep > 1 else ""
    if model:
        # Without data parallelism, states are still sharded over the ranks of context parallelism.
        shards = f", {name} over cp" if degrees.cp > 1 and not sizes and strategy != "ddp" else ""
        return " × ".join([*([f"{name} {' × '.join(sizes)}"] if sizes else []), *model]) + experts + shards
    spread = f"{name} over {' × '.join(sizes)} {ranks}" if sizes else f"one {ranks.removesuffix('s')}"
    return spread + experts


def recomputation_words(row: Candidate | Choice) -> str:
    """Return how activations are recomputed: `full recomputation of 25 % of the layers`; blank if not."""
    if row.activation_checkpointing == "none":
        return ""
    share = row.recomputed_share
    part = f" of {round(100 * share)} % of the layers" if share < 1.0 else ""
    return f"{row.activation_checkpointing} recomputation{part}"


def describe(row: Candidate | Choice, ranks: str = "GPUs") -> str:
    """Return the layout with its batch and recomputation: `FSDP over 8 GPUs, micro-batch 2 × 4`."""
    words = [layout_title(row, ranks), f"micro-batch {row.micro_batch} × {row.grad_accum}"]
    words += [row.schedule] * (row.schedule not in ("1f1b", "interleaved") and row.degrees.pp > 1)
    return ", ".join([*words, *filter(None, [recomputation_words(row)])])


def degree_words(degrees: Degrees) -> str:
    """Return the degrees above 1, such as `dp 8 tp 8 pp 16 vp 4`; blank for a single rank."""
    sizes = ((name, getattr(degrees, name)) for name in degrees.__struct_fields__)
    return " ".join(f"{name} {size}" for name, size in sizes if size > 1)


def short_words(candidate: Candidate) -> str:
    """Return the layout in the words of settings, such as `dp 8 tp 8 pp 16 vp 4, zero1`."""
    sharding = candidate.sharding_stage
    return (degree_words(candidate.degrees) or "one rank") + ("" if sharding == "none" else f", {sharding}")
