"""Search for the preset that a published name means; names are spelled in many ways."""

import functools
import itertools
import re

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import quoted
from recipes.job.models.counts import load_models, preset
from recipes.job.workload import TransformerModel

_LEADING = frozenset(
    {"meta", "nvidia", "hf", "huggingface", "nemo", "mcore", "megatron", "pretrain", "finetune", "google"}
)
"""Words before a model's name that state the organisation or software that made or ran the model."""
_DISTINGUISHING = re.compile(
    r"\d+(\.\d+)?[bmt]|\d+x\d+(\.\d+)?b|a\d+(\.\d+)?[bm]|\d{1,2}(\.\d+)?|v\d+(\.5)?"
    r"|tiny|mini|nano|small|medium|large|x+l|lite|air|vision|super|ultra|next|distill|like"
)
"""Words that distinguish models of one family.

Any other word at the end describes how the model was tuned, run or released.
"""
_NEUTRAL = re.compile(r"chat|instruct|base|coder|math|vl|text|it|sft|release|\d{3,}")
"""Words anywhere in a name that do not change the sizes."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)-?(t|b|m)(?![a-z0-9])")
_UNITS = {"t": 1e3, "b": 1.0, "m": 1e-3}
_GPT_LIKE = re.compile(
    r"gpt(?!-?(oss|j))|megatron|opt-|bloom|mpt-|turing|t-nlg|mt-?nlg|cerebras|codegen|galactica|gopher"
)


def plain_name(name: str) -> str:
    """Return `name` in lower case without organisation and remarks in brackets, with `-` between words."""
    text = re.sub(r"\([^)]*\)|\[[^]]*\]|\"[^\"]*\"", " ", name.lower()).strip().rsplit("/", 1)[-1]
    text = re.sub(r"(?<=-)(\d)_(\d+[bm]?)(?![\d.])", r"\1.\2", text)  # Qwen-1_8B
    text = re.sub(r"(?<=\d)p(?=\d)", ".", text)  # llama3p1
    return re.sub(r"[^a-z0-9.+]+", "-", text).strip("-.")


def find_model(name: str) -> TransformerModel:
    """Return the preset with this id or name, in any spelling.

    Raises UsageError, which names the nearest ids, if there is none.
    """
    wanted = name.strip().lower()
    model = preset(wanted) or (_index().get(_joined(name)) if wanted.isprintable() else None)
    if model is not None:
        return model
    rest = "see `rigtune list models`, or give the path of a model file"
    hint = did_you_mean(name, (model.id for model in load_models()), rest, most=3)
    raise UsageError(f"there is no model {quoted(name)}", hint)


def _joined(name: str) -> str:
    """Return the name's key in the index: its words joined, without the organisation that made the model."""
    return "".join(itertools.dropwhile(_LEADING.__contains__, plain_name(name[:200]).split("-")))


@functools.lru_cache(maxsize=4096)
def model_named(name: str) -> TransformerModel | None:
    """Return the preset of this name; None if no row has the name.

    The name may continue with words that do not change the sizes.
    """
    words = plain_name(name[:200]).split("-")
    bare = list(itertools.dropwhile(_LEADING.__contains__, words))
    neutral = [word for word in bare if not _NEUTRAL.fullmatch(word)]
    return next(filter(None, map(_beginning, (words, bare, neutral))), None)


def _beginning(words: list[str]) -> TransformerModel | None:
    """Return the preset whose name the words begin with; None if a later word means another model."""
    for end in range(len(words), 0, -1):
        model = _index().get("".join(words[:end]))
        if model is not None:
            return model if model.is_moe or "moe" not in words[end:] else None
        if _DISTINGUISHING.fullmatch(words[end - 1]):
            return None
    return None


@functools.lru_cache(maxsize=4096)
def size_in_name(name: str) -> float | None:
    """Return the billions of parameters in a name: 7 for `7B dense`, 0.125 for `mpt-125m`; None if the name
    states no size.
    """
    size = _SIZE.search(plain_name(name[:200]))
    return float(size[1]) * _UNITS[size[2]] if size else None


@functools.lru_cache(maxsize=4096)
def is_like_gpt(name: str) -> bool:
    """Return whether a name means GPT's layers rather than Llama's.

    GPT's layers have LayerNorm, a plain MLP, biases, learned positions and a tied head.
    """
    return _GPT_LIKE.match(plain_name(name[:200])) is not None


@functools.lru_cache(maxsize=1)
def _index() -> dict[str, TransformerModel]:
    """Return the presets by ids and other names without separators.

    A name without dots (llama31-8b) is a key too, unless the key belongs to another preset.
    """
    names = [(name.replace("-", ""), model) for model in load_models() for name in (model.id, *model.names)]
    index = dict(reversed(names))
    for name, model in names:
        index.setdefault(name.replace(".", ""), model)
    return index
