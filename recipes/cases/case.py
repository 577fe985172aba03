"""A row of a table of training runs: the columns that describe the run and its machine, as typed values.

Measured columns are never read.
"""

import math
from collections.abc import Mapping

import msgspec

from probes.base.errors import UsageError
from probes.base.record import Record, quoted
from probes.catalogue.hardware import Catalogue
from recipes.machine.cluster_records import Cluster
from recipes.machine.from_words import MachineWords, cluster_from_words

MISSING = frozenset({"", "-", "n/a", "na", "none stated", "null", "?"})
"""Cells without a value."""


class Case(Record, kw_only=True):
    """One run to be predicted. A value that the row does not state is None."""

    case_id: str
    stack: str = ""
    model: str = ""
    family: str = ""
    params_b: float | None = None
    params_active_b: float | None = None
    n_layers: int | None = None
    hidden: int | None = None
    n_heads: int | None = None
    n_kv_heads: int | None = None
    ffn_hidden: int | None = None
    vocab: int | None = None
    n_experts: int | None = None
    moe_topk: int | None = None
    image_size: int | None = None
    seq_len: int | None = None
    mean_seq_len: float | None = None
    """Mean tokens of a sequence, if lengths differ: time depends on the mean, memory on `seq_len`."""
    task: str = ""
    lora_rank: int | None = None
    lora_targets: str = ""
    gpu: str = ""
    gpu_mem_gb: float | None = None
    n_gpus: int | None = None
    gpus_per_node: int | None = None
    interconnect_intra: str = ""
    interconnect_inter: str = ""
    precision: str = ""
    optimizer: str = ""
    sharding: str = ""
    zero_stage: int | None = None
    dp: int | None = None
    fsdp: int | None = None
    tp: int | None = None
    pp: int | None = None
    cp: int | None = None
    ep: int | None = None
    vp: int | None = None
    pp_schedule: str = ""
    sequence_parallel: bool | None = None
    micro_batch: int | None = None
    grad_accum: int | None = None
    global_batch: int | None = None
    activation_checkpointing: str = ""
    compile: bool | None = None
    flash_attention: bool | None = None
    memory_figure: str = ""
    gpu_peak_tflops: float | None = None
    """Dense matrix rate of one GPU in the precision of the run, for a GPU outside the catalogue."""
    gpu_memory_bandwidth_gb_per_s: float | None = None
    """Memory bandwidth of a GPU outside the catalogue, in 1e9 bytes per second."""


COLUMNS = tuple(field.name for field in msgspec.structs.fields(Case))
NOT_INPUTS = frozenset(
    (
        *("step_time_s", "tokens_per_s_per_gpu", "samples_per_s", "tflops_per_gpu", "mfu", "hfu"),
        *("peak_mem_gib", "oom", "time_us", "algbw_gbps", "busbw_gbps"),
        *("peak_mem_unit", "nccl_version", "derived", "notes"),
    )
)
"""Further columns that tables of runs may have; they contain measurements, and rigtune does not read them.

Columns whose names begin with `source_` or `raw_` state the source of a value; they are not read either.
"""
_NUMBERS = frozenset(field.name for field in msgspec.structs.fields(Case) if field.type == float | None)
_OFF_AT_ZERO = frozenset(
    {"dp", "fsdp", "tp", "pp", "cp", "ep", "vp", "n_experts", "moe_topk", "image_size", "vocab"}
)
"""Counts for which 0 means "none".

-1 is read as 0: some frameworks write -1 for a count that they derive from the other counts.
"""
_FLAGS = frozenset({"sequence_parallel", "compile", "flash_attention"})
_TEXTS = frozenset(field.name for field in msgspec.structs.fields(Case) if field.type is str)
_LARGEST = 10**15
_LONGEST_TEXT = 500
_MOST = {
    "zero_stage": 3,
    "n_gpus": 10**7,
    "gpus_per_node": 10**4,
    "n_layers": 10**4,
    "vp": 10**3,
    "lora_rank": 10**5,
    "seq_len": 10**9,
    "micro_batch": 10**7,
}
"""Largest accepted value of these columns; all other columns accept up to `_LARGEST`."""


class CaseError(Exception):
    """The row cannot be read; the message states the column, its value and the allowed values."""


def case_of_row(row: Mapping[str, str | None]) -> Case:
    """Return the case in a row of column names and cells. Raises CaseError if a cell has no valid value.

    Unknown columns are ignored.
    """
    values: dict[str, object] = {}
    for column in COLUMNS:
        cell = row.get(column)
        if not cell or (cell := cell.strip()).lower() in MISSING:  # most cells are empty
            continue
        if column in _TEXTS:
            values[column] = cell[:_LONGEST_TEXT]
        elif column in _FLAGS:
            values[column] = _flag(column, cell)
        else:
            number = _number(column, cell)
            if number > 0 or column not in _OFF_AT_ZERO:
                values[column] = number if column in _NUMBERS else _whole(column, cell, number)
    values.setdefault("case_id", "")
    return Case(**values)  # type: ignore[arg-type]


_FLAG_WORDS = {
    **dict.fromkeys(("true", "yes", "1", "1.0", "on", "y", "t"), True),
    **dict.fromkeys(("false", "no", "0", "0.0", "off", "n", "f", "none"), False),
}


def _flag(column: str, cell: str) -> bool:
    """Return the value of a flag.

    A word that is not in `_FLAG_WORDS` is read as the name of an attention kernel or a compilation mode. It
    means yes, unless it contains `disabled` or names an unfused kernel. Raises CaseError for such a word in
    `sequence_parallel`, and for a cell that does not begin with a letter.
    """
    known = _FLAG_WORDS.get(cell.lower())
    if known is None:
        if cell[0].isalpha() and column != "sequence_parallel":
            return not any(word in cell.lower() for word in ("eager", "math", "unfused", "disabled"))
        raise CaseError(f"{column} is {quoted(cell)}: give true or false, or leave it blank")
    return known


def _number(column: str, cell: str) -> float:
    try:
        number = float(cell)
    except ValueError:
        raise CaseError(f"{column} is {quoted(cell)}: give a number, or leave it blank") from None
    if number == -1 and column in _OFF_AT_ZERO:
        return 0.0
    if not math.isfinite(number) or not 0 <= number <= _LARGEST:
        raise CaseError(f"{column} is {cell[:40]}: give a number from 0 to {_LARGEST:g}")
    if number == 0 and column in _NUMBERS:
        raise CaseError(f"{column} is {cell[:40]}: give more than 0, or leave it blank")
    return number


def _whole(column: str, cell: str, number: float) -> int:
    if number != int(number):
        raise CaseError(f"{column} is {cell[:40]}: give a whole number")
    if number < 1 and column != "zero_stage":
        raise CaseError(f"{column} is {cell[:40]}: give at least 1, or leave it blank")
    if number > _MOST.get(column, _LARGEST):
        raise CaseError(f"{column} is {cell[:40]}: give at most {_MOST[column]:g}")
    return int(number)


def cluster_of_case(case: Case, gpus: int, catalogue: Catalogue) -> Cluster:
    """Return the case's machine with `gpus` GPUs.

    Raises CaseError if the cell `gpu` is blank, or if neither catalogue nor columns describe the GPU.
    """
    words = MachineWords(
        gpu=case.gpu,
        gpus=gpus,
        gpus_per_node=case.gpus_per_node,
        intra=case.interconnect_intra,
        inter=case.interconnect_inter,
        memory_gb=case.gpu_mem_gb,
        peak_tflops=case.gpu_peak_tflops,
        bandwidth_gb_per_s=case.gpu_memory_bandwidth_gb_per_s,
    )
    try:
        return cluster_from_words(words, catalogue)
    except UsageError as error:
        raise CaseError(f"{error.message}: {error.hint}") from error
