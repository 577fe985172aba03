"""Finds the preset that a published name means, however it is spelled."""

from __future__ import annotations

import difflib
import functools
import itertools
import re

from probes.base.errors import UsageError
from recipes.job.models.counts import load_models
from recipes.job.workload import TransformerModel

_LEADING = frozenset(
    {"meta", "nvidia", "hf", "huggingface", "nemo", "mcore", "megatron", "pretrain", "finetune", "google"}
)
"""Words before a name that say who made or ran the model."""
_TELLING = re.compile(
    r"\d+(\.\d+)?[bmt]|\d+x\d+(\.\d+)?b|a\d+(\.\d+)?[bm]|\d{1,2}(\.\d+)?|v\d+(\.5)?"
    r"|tiny|mini|nano|small|medium|large|x+l|lite|air|vision|super|ultra|next|distill|like"
)
"""Words that make another model of it. Any other word at the end says how it was tuned, run or released."""
_NEUTRAL = re.compile(r"chat|instruct|base|coder|math|vl|text|it|sft|release|\d{3,}")
"""Words anywhere in a name that leave the sizes as they are."""
_SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)-?(t|b|m)(?![a-z0-9])")
_UNITS = {"t": 1e3, "b": 1.0, "m": 1e-3}
_GPT_LIKE = re.compile(
    r"gpt(?!-?(oss|j))|megatron|opt-|bloom|mpt-|turing|t-nlg|mt-?nlg|cerebras|codegen|galactica|gopher"
)


def plain_name(name: str) -> str:
    """`name` in lower case without its organisation and remarks in brackets, with `-` between words."""
    text = re.sub(r"\([^)]*\)|\[[^]]*\]|\"[^\"]*\"", " ", name.lower()).strip().rsplit("/", 1)[-1]
    text = re.sub(r"(?<=-)(\d)_(\d+[bm]?)(?![\d.])", r"\1.\2", text)  # Qwen-1_8B
    text = re.sub(r"(?<=\d)p(?=\d)", ".", text)  # llama3p1
    return re.sub(r"[^a-z0-9.+]+", "-", text).strip("-.")


def find_model(name: str) -> TransformerModel:
    """Return the preset of this id or name, however it is spelled.

    Raises UsageError that names the nearest ids.
    """
    wanted = name.strip().lower()
    exact = next((model for model in load_models() if model.id == wanted), None)
    found = exact or (_index().get(_joined(name)) if wanted.isprintable() else None)
    if found is not None:
        return found
    near = difflib.get_close_matches(wanted, [model.id for model in load_models()], n=3, cutoff=0.5)
    suggestion = f"did you mean {' or '.join(near)}? " if near else ""
    hint = f"{suggestion}see `rigtune list models`, or give the path of a model file"
    raise UsageError(f"there is no model {name[:80]!r}", hint)


def _joined(name: str) -> str:
    """Return the words of a name without those of who made the model, as the index has them."""
    return "".join(itertools.dropwhile(_LEADING.__contains__, plain_name(name[:200]).split("-")))


@functools.lru_cache(maxsize=4096)
def model_named(name: str) -> TransformerModel | None:
    """Return the preset of this name; None where no row knows it.

    A name may go on with words that tell nothing of the sizes.
    """
    words = plain_name(name[:200]).split("-")
    bare = list(itertools.dropwhile(_LEADING.__contains__, words))
    neutral = [word for word in bare if not _NEUTRAL.fullmatch(word)]
    return next(filter(None, map(_beginning, (words, bare, neutral))), None)


def _beginning(words: list[str]) -> TransformerModel | None:
    """Return the preset whose name the words begin with, where no later word makes another model of it."""
    for end in range(len(words), 0, -1):
        found = _index().get("".join(words[:end]))
        if found is not None:
            return found if found.is_moe or "moe" not in words[end:] else None
        if _TELLING.fullmatch(words[end - 1]):
            return None
    return None


@functools.lru_cache(maxsize=4096)
def size_in_name(name: str) -> float | None:
    """Billions of parameters that a name states: 7 of `7B dense`, 0.125 of `mpt-125m`; None where it states
    none.
    """
    found = _SIZE.search(plain_name(name[:200]))
    return float(found[1]) * _UNITS[found[2]] if found else None


@functools.lru_cache(maxsize=4096)
def is_like_gpt(name: str) -> bool:
    """Return whether a name promises GPT's layers (LayerNorm, plain MLP, biases, learned positions, tied
    head) rather than Llama's.
    """
    return _GPT_LIKE.match(plain_name(name[:200])) is not None


@functools.lru_cache(maxsize=1)
def _index() -> dict[str, TransformerModel]:
    """Presets by ids and other names without separators, and where that is no other preset's, without dots
    too: llama31-8b.
    """
    names = [(name.replace("-", ""), model) for model in load_models() for name in (model.id, *model.names)]
    index = dict(reversed(names))
    for name, model in names:
        index.setdefault(name.replace(".", ""), model)
    return index
