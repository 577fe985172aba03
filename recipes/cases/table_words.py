"""Parsers for words in a case, in any spelling: precision, optimizer, task, sharding, checkpointing."""

import functools
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple, TypeVar

from probes.base.record import quoted
from recipes.cases.case import CaseError
from recipes.job.candidate import ActivationCheckpointing, Schedule, Sharding
from recipes.job.workload import AdapterTargets, Optimizer, OptimizerStep, Precision, Tuning

_Name = TypeVar("_Name")


class Numbers(NamedTuple):
    """Precision of a run's computation and of its weights."""

    precision: Precision | None
    """Precision of matrix products; None if only the precision of the base weights under adapters is stated.
    """
    mixed: bool
    """False if the words name bf16 or fp16, but have no word such as `mixed` for fp32 copies of the weights.
    """
    base_bits: Literal[4, 8, 16]
    """Bits of a base weight under adapters."""


_PRODUCTS: tuple[tuple[str, Precision], ...] = (
    (r"nvfp4|mxfp4|fp4(?!-?bnb)|float4", "nvfp4"),
    (r"mxfp8|mx-?float8|fp8-?mx", "mxfp8"),
    (r"fp8|float8|e4m3|e5m2|f8", "fp8"),
    (r"bf-?16|bfloat16|b-float16", "bf16"),
    (r"fp-?16|float16|half|f16|16-mixed|16-true", "fp16"),
    (r"tf-?32|tensorfloat", "tf32"),
    (r"fp-?32|float32|f32|full|single|32-true|^32$", "fp32"),
    (r"amp|mixed|autocast|apex|o1|o2", "fp16"),
)
"""Precisions by pattern, smallest first.

The first match is used, because mixed precision computes matrix products in the smallest format that is
named.
"""
_FOUR_BITS = r"nf4|int-?4|4-?bit|gptq|awq|hqq|aqlm|w4|fp4-?bnb|bnb-?fp4"
_EIGHT_BITS = r"int-?8|8-?bit|w8"


@functools.lru_cache(maxsize=1024)
def numbers_of(words: str) -> Numbers:
    """Return the precision of `bf16-mixed`, `fp8 hybrid`, `nf4` ... Raises CaseError for unknown words."""
    text = _plain(words)
    base: Literal[4, 8, 16] = 4 if re.search(_FOUR_BITS, text) else 16
    if re.search(_EIGHT_BITS, text):
        base = 8
    precision = _first(_PRODUCTS, words)
    if precision is None and base == 16:
        raise CaseError(
            f"precision is {quoted(words)}: give one of fp32, tf32, fp16, bf16, fp8, mxfp8, nvfp4, nf4, int8"
        )
    is_mixed = re.search(r"mixed|amp|autocast|master|o1|o2", text) is not None
    return Numbers(precision, is_mixed or precision not in ("bf16", "fp16"), base)


def names_pure(words: str) -> bool:
    """Return whether the words state that no tensor has more than 16 bits: `bf16-true`, `pure bf16`."""
    return re.search(r"true|pure", _plain(words)) is not None


_OPTIMIZERS: tuple[tuple[str, Optimizer], ...] = (
    (r"galore.*8-?bit|8-?bit.*galore|q-?galore", "galore-8bit"),
    (r"galore|apollo|flora", "galore"),
    (r"ada-?lomo", "adafactor"),
    (r"lomo", "lomo"),
    (r"adam-?mini", "adam-mini"),
    (r"lion.*8-?bit|8-?bit.*lion", "lion-8bit"),
    (r"4-?bit|int4", "adamw-4bit"),
    (r"(?<!\d)8-?bit|bnb(?!.*(16|32)-?bit)|int8", "adamw-8bit"),
    (r"adafactor|came", "adafactor"),
    (r"muon", "muon"),
    (r"lamb", "lamb"),
    (r"lars", "lars"),
    (r"lion", "lion"),
    (r"adam|adan|sophia|novograd|lookahead|radam|ranger", "adamw"),
    (r"sgd|momentum|nesterov|nag|rmsprop|adagrad|signum", "sgd"),
)


@functools.lru_cache(maxsize=1024)
def optimizer_of(words: str) -> Optimizer:
    """Return the row of the optimizer table with states of the same size as the named optimizer.

    Raises CaseError if the optimizer is unknown.
    """
    optimizer = _first(_OPTIMIZERS, words)
    if optimizer is None:
        known = ", ".join(dict.fromkeys(optimizer for _, optimizer in _OPTIMIZERS))
        raise CaseError(f"optimizer is {quoted(words)}: give one of {known}, or leave it blank")
    return optimizer


class Step(NamedTuple):
    """Kind of an optimizer's step."""

    kind: OptimizerStep
    pages: bool
    """True if the optimizer's states are in memory that the driver moves between GPU and host."""


@functools.lru_cache(maxsize=1024)
def step_of(words: str) -> Step:
    """Return the kind of step that words such as `AdamW (fused)` or `optimizer in backward` mean."""
    text = _plain(words)
    if re.search(r"in-?-?(the-)?(backward|bwd)|layer-?wise|per-?layer|lomo", text):
        return Step("in-backward", "paged" in text)
    return Step("fused" if re.search(r"(?<!un)(?<!non-)fused|apex", text) else "after", "paged" in text)


class Task(NamedTuple):
    """The parameters that are trained, and their initial weights."""

    tuning: Tuning
    from_scratch: bool
    is_known: bool = True


@functools.lru_cache(maxsize=1024)
def task_of(words: str) -> Task:
    """Return the kind of training: pre-training, fine-tuning, or adapters over a frozen model."""
    return _first(_TASKS, words) or Task("full", from_scratch=True, is_known=False)


_TASKS = (
    (r"qlora|q-lora", Task("qlora", from_scratch=False)),
    (
        r"lora|dora|adapter|peft|prefix|prompt-tuning|p-tuning|ia3|galore",
        Task("lora", from_scratch=False),
    ),
    (r"pre-?train|scratch|^train(ing)?$|^$|mlm|causal-?lm|language-model", Task("full", from_scratch=True)),
    (
        r"sft|tun|instruct|squad|alignment|chat|dpo|orpo|kto|rlhf|ppo|grpo|reward",
        Task("full", from_scratch=False),
    ),
)
"""Tasks by pattern; the first match is used."""


_EVERY_LAYER = r"all-?linear"
_FEED_FORWARD = r"mlp|ffn|feed-?forward|gate|\bup\b|\bdown\b|fc|h-to-4h|4h-to-h|\bw[123]\b|\bwi\b"
_WHOLE_ATTENTION = r"att|qkv|q-?k-?v|query-key-value|key|\bout|in-proj|linear-proj|c-proj|\bw?[ko]\b"
_QUERY_OR_VALUE = r"query|value|\bw?[qv]\b|\bqv\b"


@functools.lru_cache(maxsize=1024)
def adapter_targets_of(words: str) -> AdapterTargets:
    """Return the linear layers with LoRA's adapters for `all-linear`, `q_proj,v_proj`, `attention`, `qv` ...

    Each name means one part of a layer. `dense` means attention's output layer if `query_key_value` is named
    too, and any linear layer otherwise. Raises CaseError for unknown names.
    """
    text = _plain(words)
    if re.search(_EVERY_LAYER, text):
        return "all"
    names = [_plain(name) for name in re.split(r"[,;+&|\s]+", words)]
    parts = {_adapted_part(name) for name in names}
    if "dense" in names and not any("qkv" in name or "query-key-value" in name for name in names):
        parts.add("all")
    for part in ("all", "attention", "query-value"):
        if part in parts:
            return part
    if re.search(r"all|linear", text):
        return "all"
    raise CaseError(
        f"lora_targets is {quoted(words)}: give query-value, attention or all, or the names of the layers"
    )


def _adapted_part(name: str) -> AdapterTargets | None:
    if re.search(_FEED_FORWARD, name):
        return "all"
    if re.search(_WHOLE_ATTENTION, name):
        return "attention"
    return "query-value" if re.search(_QUERY_OR_VALUE, name) else None


class Sharing(NamedTuple):
    """Sharing of states between data-parallel ranks."""

    sharding: Sharding | None
    """Sharding; None if the words do not determine it, so that the stack's default applies."""
    hybrid: bool = False
    """True if states are shared within a node and copied across nodes."""
    offload: bool = False
    splits_layers: bool = False
    """True if each GPU has consecutive layers of one model and the GPUs wait for each other, without data
    parallelism.
    """
    is_alone: bool = False
    """True if the words state that the job has only one GPU or only one replica."""
    is_known: bool = True
    note: str = ""
    """Note about words whose meaning is not part of rigtune's models."""


@functools.lru_cache(maxsize=1024)
def sharing_of(words: str) -> Sharing:
    """Return the sharing of `ddp`, `zero-3 offload`, `FSDP (SHARD_GRAD_OP)`, `hsdp`, `device_map` ..."""
    text = _plain(_without_denied(words))
    offload = re.search(r"offload|infinity|nvme|(?:zero|fsdp|stage).*\bcpu\b", text) is not None
    note = (
        "states on NVMe are predicted as if they were in the host's memory"
        if re.search(r"nvme|infinity", text)
        else ""
    )
    zero = _zero_of(text, offload=offload, note=note)
    if zero is not None:
        return zero
    row = next(row for pattern, row in _SHARINGS if re.search(pattern, text))
    if row.splits_layers:
        return row
    is_noted = row.sharding == "zero3" and not row.hybrid
    return row._replace(offload=offload, note=note if is_noted else "")


_SHARINGS = (
    (r"device-?map|naive|layer-?split|model-?split", Sharing("none", splits_layers=True)),
    (r"shard-grad-op|sharded-?ddp", Sharing("zero2")),
    (r"no-shard|replicat", Sharing("none")),
    # MiCS shares all states within a group (arXiv 2205.00119)
    (r"hsdp|hybrid|hfsdp|mics", Sharing("zero3", hybrid=True)),
    (r"fsdp|full(y)?-shard|gemini|infinity", Sharing("zero3")),
    (r"dist(ributed)?-?opt|optimizer", Sharing("zero1")),
    (r"^single(-?(gpu|device|card|process))?$|^1-?gpu$", Sharing("none", is_alone=True)),
    (r"single|^none$|^no$|1-?gpu|^local$", Sharing("none")),
    (r"ddp|^dp$|data-?parallel|horovod|mirrored|multi-?worker|all-?reduce|bagua|kvstore", Sharing(None)),
    (
        r"megatron|\dd$|3d|tp|pp|tensor|pipeline|model-?parallel|deepspeed|zero(?!-?\d)|^$",
        Sharing(None),
    ),
    ("", Sharing(None, is_known=False)),
)
"""Sharing by pattern; the first match is used."""


def _zero_of(text: str, *, offload: bool, note: str) -> Sharing | None:
    """Return the sharing that a stage of DeepSpeed's ZeRO means; None if the words name no stage.

    ZeRO++ (arXiv 2306.10209) is ZeRO-3 with more copies of the weights and quantised communication.
    """
    if re.search(r"zero-?[123]?\+\+|zero-?pp|zero-?plus-?plus", text):
        lacks = (
            "zero++ is treated as ZeRO-3: its copy of the weights in each node and its quantised "
            "communication are not modelled"
        )
        return Sharing("zero3", offload=offload, note=lacks)
    if re.search(r"^zero-?offload$", text):  # arXiv 2101.06840
        return Sharing("zero2", offload=offload)
    stage = re.search(r"(?:zero|stage|\bz)-?([0-3])", text)
    if stage is None:
        return None
    sharding: dict[str, Sharding] = {"0": "none", "1": "zero1", "2": "zero2", "3": "zero3"}
    return Sharing(sharding[stage.group(1)], offload=offload, note=note)


def steps_on_host(words: str) -> bool:
    """Return whether an optimizer runs on the host's processors (`DeepSpeedCPUAdam`)."""
    return re.search(r"cpu-?(adam|lion|adagrad|offload)|offload", _plain(words)) is not None


_DENIED = re.compile(
    r"\b(?:no|without|w/o)[\s_-]+(?:(?:cpu|param\w*|optimizer)[\s_-]+)*offload\w*"
    r"|offload\w*\s*[:=]\s*(?:false|no(?:ne)?|0|off)\b",
    re.IGNORECASE,
)


def _without_denied(words: str) -> str:
    """Return the words without phrases that state that nothing is offloaded, such as `no offload`."""
    return _DENIED.sub("", words)


def offloads(words: str) -> bool:
    """Return whether the words name an offload to the host's memory."""
    return "offload" in _without_denied(words).lower()


def offloads_weights(words: str) -> bool:
    """Return whether sharded parameters are offloaded too; False if only the optimizer is named."""
    text = _plain(words)
    return "optim" not in text or "param" in text


def names_zero(words: str) -> bool:
    """Return whether the words for sharding are words of DeepSpeed, such as `zero2`."""
    return re.search(r"zero|deepspeed|\bz-?[0-3]\b", _plain(words)) is not None


_PART = re.compile(
    r"(\d{1,6}(?:\.\d{1,6})?)\s*%|(?<!\d)(\d{1,4})\s*/\s*(\d{1,4})(?!\d)|selective\W*(\d{1,4})$",
    re.IGNORECASE | re.ASCII,
)
"""A fraction of the layers: 25 %, 1/3 (fms-fsdp: selective_checkpointing), or every n-th layer (torchtitan:
selective_ac_option).
"""


@functools.lru_cache(maxsize=1024)
def checkpointing_of(words: str) -> ActivationCheckpointing:
    """Return the kind of recomputation: none, selective or full. Raises CaseError for unknown words."""
    mode = _first(_CHECKPOINTING, words)
    if mode != "none" and _PART.search(words):
        return "full"
    if mode is None:
        raise CaseError(f"activation_checkpointing is {quoted(words)}: give none, selective or full")
    return mode


_CHECKPOINTING: tuple[tuple[str, ActivationCheckpointing], ...] = (
    (r"^none$|^no$|^false$|^off$|^0$|disabled", "none"),
    (r"every", "full"),
    (r"selective|sac|core|^op$", "selective"),
    (r"full|uniform|block|^true$|^yes$|^on$|^1$|all|gradient|layer|%", "full"),
    (r"attn|attention|mlp|moe|partial|norm|act", "selective"),
)
"""Checkpointing by pattern; the first match is used, unless the words state a fraction of the layers."""


class Recomputed(NamedTuple):
    """Layers that full checkpointing recomputes."""

    share: float = 1.0
    layers: int | None = None
    """Recomputed layers of each pipeline stage, or of each part of an interleaved stage; None: `share` of all
    layers.
    """
    together: int = 1
    """Number of consecutive layers of which only the first layer's input is kept."""


@functools.lru_cache(maxsize=1024)
def recomputed_of(words: str) -> Recomputed:
    """Return the layers that full checkpointing recomputes. Raises CaseError for impossible numbers.

    The result is half of the layers for `every 2nd layer`; a quarter for `full 25 %` and `selective 1/4`; 10
    layers of each stage for `block 10` or `10 layers`; all layers, two at a time, for `uniform 2`; and all
    layers otherwise (Megatron-LM: --recompute-method, --recompute-num-layers).
    """
    text = _plain(words)
    together = re.search(r"uniform\W*(\d{1,4})\b", text, re.ASCII)
    some = re.search(r"(?:block|num-layers)\W*(\d{1,4})\b|(?<![\d-])(\d{1,4})-?layers?\b", text, re.ASCII)
    if "every" in text or (together is None and some is None):
        return Recomputed(_share_of(words))
    number = int(next(digits for digits in (together or some).groups() if digits))  # type: ignore[union-attr]
    if number < 1:
        raise CaseError(f"activation_checkpointing is {quoted(words)}: give at least 1 layer, or none")
    return Recomputed(layers=number) if together is None else Recomputed(together=number)


def _share_of(words: str) -> float:
    every = re.search(r"every\W*(\d{1,6}|other|second)", words, re.IGNORECASE | re.ASCII)
    part = _PART.search(words)
    share = 1.0
    if every is not None:
        share = _over(1.0, float(every[1]) if every[1].isdigit() else 2.0)
    elif part is not None:
        percent, over, under, apart = part.groups()
        share = float(percent) / 100.0 if percent else _over(float(over or 1.0), float(under or apart))
    if not 0.0 < share <= 1.0:
        raise CaseError(
            f"activation_checkpointing is {quoted(words)}: more than 0 % of the layers, and at most 100 %"
        )
    return share


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


_SCHEDULES: tuple[tuple[str, Schedule], ...] = (
    (r"zero-?bubble|^zb|dualpipe", "zero-bubble"),
    (r"interleav|looped|virtual|vpp", "interleaved"),
    (r"gpipe|all-?forward|afab", "gpipe"),
    (r"1f1b|one-forward|pipedream", "1f1b"),
)


@functools.lru_cache(maxsize=1024)
def schedule_of(words: str) -> Schedule:
    """Return the schedule of a pipeline: `1F1B`, `Interleaved1F1B`, `GPipe`, `zero-bubble` ...

    Raises CaseError for unknown words.
    """
    schedule = _first(_SCHEDULES, words)
    if schedule is None:
        raise CaseError(
            f"pp_schedule is {quoted(words)}: give 1f1b, interleaved, gpipe or zero-bubble, or leave it blank"
        )
    return schedule


def _first(rows: Iterable[tuple[str, _Name]], words: str) -> _Name | None:
    """Return the name of the first pattern that matches the words; None if no pattern matches."""
    text = _plain(words)
    return next((name for pattern, name in rows if re.search(pattern, text)), None)


def _plain(words: str) -> str:
    return re.sub(r"[\s_./]+", "-", words.strip().lower())
