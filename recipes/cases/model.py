"""The model of a case: a preset that the case names, or a model with the stated or usual sizes."""

import functools
import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from probes.base.record import quoted
from recipes.cases.case import Case, CaseError
from recipes.cases.typical_models import (
    TypicalSizes,
    decoder_sizes,
    encoder_sizes,
    expert_sizes,
    gated_width,
    hidden_for,
)
from recipes.job.models.counted import names_own_module
from recipes.job.models.counts import active_parameter_count, parameter_count
from recipes.job.models.files import names_model_file
from recipes.job.models.image_models import assumed_of_name, find_vision_model
from recipes.job.models.names import is_like_gpt, model_named, size_in_name
from recipes.job.workload import TransformerModel, VisionModel

_MODEL_COLUMNS = (
    *("model", "family", "params_b", "params_active_b", "n_layers", "hidden", "n_heads", "n_kv_heads"),
    *("ffn_hidden", "vocab", "n_experts", "moe_topk", "image_size", "seq_len"),
)
"""Columns that describe the model of a case."""


class KnownModel(NamedTuple):
    """A case's model."""

    model: TransformerModel | VisionModel
    assumed: tuple[str, ...]
    """Defaults that were assumed, as text."""


OwnModels = Mapping[str, VisionModel | TransformerModel]
"""The counts of the user's own modules, and models from the user's files, by their names in cases."""


def model_of(case: Case, own_models: OwnModels | None = None) -> KnownModel:
    """Return the model of a case.

    Raises CaseError if neither a preset nor the sizes describe a model, if values contradict each other, or
    if the name means a module or file of the user that `own_models` lacks. The message names the columns or
    the option.
    """
    own = own_models.get(case.model) if own_models else None
    if isinstance(own, TransformerModel):
        known = _sized(own, _stated(case))
        count = f"{parameter_count(own) / 1e9:.4g} billion parameters"
        return known._replace(
            assumed=(f"model {case.model[-60:]} was read from your file: {count}", *known.assumed)
        )
    if own is not None:
        size = (
            f"{own.parameters / 1e6:.4g} million parameters, "
            f"{own.forward_flops / 1e9:.4g} GFLOP forward for each sample"
        )
        return KnownModel(own, (f"model {own.source}: {size}",))
    if names_own_module(case.model):
        raise CaseError(
            f"model {case.model[-60:]!r} is code, and rigtune does not run code that only a table names: "
            "also give --own-module FILE.py:FUNCTION"
        )
    if names_model_file(case.model):
        raise CaseError(f"model {case.model[-60:]!r} is a file: also give --model-file")
    return model_of_stated(_stated(case))


def _stated(case: Case) -> Case:
    """Return the case with only the columns that describe its model; this is the key under which results are
    cached.
    """
    return Case(case_id="", **{name: getattr(case, name) for name in _MODEL_COLUMNS})


@functools.lru_cache(maxsize=4096)
def model_of_stated(stated: Case) -> KnownModel:
    """Return the model that the stated columns describe.

    Results are cached, because thousands of cases share a few models.
    """
    if stated.n_heads and stated.n_kv_heads and stated.n_heads % stated.n_kv_heads:
        raise CaseError(f"n_kv_heads is {stated.n_kv_heads}, which does not divide n_heads {stated.n_heads}")
    if stated.n_experts and stated.moe_topk and stated.moe_topk > stated.n_experts:
        raise CaseError(f"moe_topk is {stated.moe_topk}, more than n_experts {stated.n_experts}")
    preset = None if stated.family == "cnn" else model_named(stated.model)
    if preset is not None and not _is_of_another_size(preset, stated):
        return _sized(preset, stated)
    if stated.family == "cnn" or stated.n_layers is None or stated.hidden is None:
        vision = find_vision_model(stated.model, stated.image_size)
        if vision is not None:
            return KnownModel(vision, assumed_of_name(stated.model))
    if stated.family == "cnn":
        raise CaseError(f"model {quoted(stated.model)} is not an image model that rigtune knows")
    known = _from_sizes(stated)
    if preset is None:
        return known
    count = f"{parameter_count(preset) / 1e9:.3g}"
    words = f"params_b {stated.params_b:g} is used, although {preset.title} has {count} billion parameters"
    return known._replace(assumed=(words, *known.assumed))


def _sized(model: TransformerModel, stated: Case) -> KnownModel:
    """Return `model` with the sizes that the row states. Raises CaseError if they contradict the model."""
    if (
        stated.n_kv_heads
        and not model.key_value_latent
        and (stated.n_heads or model.heads) % stated.n_kv_heads
    ):
        raise CaseError(
            f"n_kv_heads is {stated.n_kv_heads}, which does not divide the "
            f"{stated.n_heads or model.heads} heads of {model.title}"
        )
    if stated.moe_topk and model.is_moe and stated.moe_topk > (stated.n_experts or model.experts):
        raise CaseError(
            f"moe_topk is {stated.moe_topk}, more than the {stated.n_experts or model.experts} experts of "
            f"{model.title}"
        )
    model = _with_sizes(model, stated)
    return KnownModel(model, _other_count(model, stated))


def _other_count(model: TransformerModel, stated: Case) -> tuple[str, ...]:
    """Return a note if `params_b` contradicts the sizes.

    It contradicts the sizes if it is near neither the total nor the active number that the sizes give.
    """
    if stated.params_b is None or stated.n_layers is None or stated.hidden is None:
        return ()
    counts = (parameter_count(model), active_parameter_count(model))
    if any(abs(math.log(stated.params_b * 1e9 / count)) < _OTHER_SIZE for count in counts):
        return ()
    return (
        f"params_b {stated.params_b:g} does not match the sizes, "
        f"which give {counts[0] / 1e9:.3g} billion parameters",
    )


def _is_of_another_size(preset: TransformerModel, stated: Case) -> bool:
    """Return whether the row's number of parameters shows that the row means another model than the preset.

    The name in the row is then the name of the family.
    """
    if stated.params_b is None or stated.n_layers is not None or stated.hidden is not None:
        return False
    counts = (parameter_count(preset), active_parameter_count(preset))
    return all(abs(math.log(stated.params_b * 1e9 / count)) > _OTHER_SIZE for count in counts)


_OTHER_SIZE = math.log(1.4)


def _with_sizes(preset: TransformerModel, stated: Case) -> TransformerModel:
    """Return the preset with the sizes of the row.

    For example, a proxy model (a smaller model for experiments) has fewer layers or experts.
    """
    changes = {
        **_layers(preset, stated.n_layers),
        **_heads_of(preset, stated),
        **_experts(preset, stated),
        **_widths(preset, stated),
    }
    if stated.vocab is not None:
        changes["vocab"] = stated.vocab
    if preset.learned_positions and preset.kind == "decoder" and stated.seq_len:
        # Frameworks create a position table as long as the sequences.
        changes["learned_positions"] = stated.seq_len
    changed = {name: value for name, value in changes.items() if getattr(preset, name) != value}
    model = msgspec.structs.replace(preset, **changed) if changed else preset
    # A whole number of billions is usually taken from the model's name, and not an exact count.
    if stated.params_b is None or stated.params_b == round(stated.params_b):
        return model
    return _nearest(
        model,
        stated.params_b,
        (model, msgspec.structs.replace(model, tied_embeddings=not model.tied_embeddings)),
    )


def _heads_of(preset: TransformerModel, stated: Case) -> dict[str, object]:
    """Return width and heads with the sizes of the row.

    If the width of the preset is the number of heads times the head size, this is also true for the result if
    the heads divide the width. Unless the row states `n_kv_heads`, the number of query heads per key-value
    head stays the same if possible.
    """
    hidden, heads = stated.hidden or preset.hidden, stated.n_heads or preset.heads
    changes: dict[str, object] = {"hidden": hidden, "heads": heads}
    if preset.head_dim * preset.heads == preset.hidden and hidden % heads == 0:
        changes["head_dim"] = hidden // heads
    if heads != preset.heads:
        changes["kv_heads"] = math.gcd(heads, max(1, heads * preset.kv_heads // preset.heads))
    if stated.n_kv_heads is not None and heads % stated.n_kv_heads == 0 and not preset.key_value_latent:
        changes["kv_heads"] = stated.n_kv_heads
    return changes


def _experts(preset: TransformerModel, stated: Case) -> dict[str, object]:
    experts = stated.n_experts or preset.experts
    if experts <= 1:
        return {}
    return {
        "experts": experts,
        "experts_per_token": min(stated.moe_topk or preset.experts_per_token or 1, experts),
    }


def _layers(preset: TransformerModel, layers: int | None) -> dict[str, object]:
    """Return the number of layers of each kind, in the proportions of the preset.

    If a mixture of experts begins with a few dense layers, their number stays the same.
    """
    if layers is None or layers == preset.layers:
        return {}
    if preset.kind == "encoder-decoder" and layers == preset.layers + preset.encoder_layers:
        return {}
    share = layers / preset.layers
    changes: dict[str, object] = {"layers": layers}
    for name in (
        "encoder_layers",
        "local_layers",
        "attention_layers",
        "feed_forward_layers",
        "state_space_layers",
    ):
        count = getattr(preset, name)
        if count:
            changes[name] = max(1, round(count * share))
    if preset.dense_layers:
        few = preset.dense_layers * 8 <= preset.layers
        changes["dense_layers"] = (
            min(preset.dense_layers, layers - 1) if few else round(preset.dense_layers * share)
        )
    return changes


def _widths(preset: TransformerModel, stated: Case) -> dict[str, object]:
    """Return the MLP widths of the row; in a mixture of experts, the stated width is that of one expert.

    Without a stated width, the preset's widths are scaled with the hidden size.
    """
    width = stated.ffn_hidden
    if width is None:
        scale = (stated.hidden or preset.hidden) / preset.hidden
        names = ("ffn_hidden", "expert_ffn_hidden", "shared_ffn_hidden")
        return {name: max(1, round(getattr(preset, name) * scale)) for name in names if getattr(preset, name)}
    if not (preset.is_moe or (stated.n_experts or 0) > 1):
        return {"ffn_hidden": width}
    old = preset.expert_ffn_hidden or preset.ffn_hidden
    if width in (old, preset.ffn_hidden):
        return {}
    changes: dict[str, object] = {"expert_ffn_hidden": width}
    if preset.shared_ffn_hidden:
        changes["shared_ffn_hidden"] = round(preset.shared_ffn_hidden * width / old)
    return changes


def _nearest(
    model: TransformerModel,
    params_b: float | None,
    variants: tuple[TransformerModel, ...],
    *,
    clear: float = 3.0,
) -> TransformerModel:
    """Return the variant nearest to `params_b` if it is `clear` times nearer than `model`, else `model`.

    A `model` within 1 % of `params_b` is always kept.
    """
    if params_b is None:
        return model

    def miss(variant: TransformerModel) -> float:
        return abs(math.log(parameter_count(variant) / (params_b * 1e9)))

    best = min(variants, key=miss)
    own = miss(model)
    return best if own > 0.01 and miss(best) * clear < own else model


def _from_sizes(stated: Case) -> KnownModel:
    """Return a model with the stated sizes and the usual architecture, for a model that is not a preset."""
    params_b = stated.params_b or size_in_name(stated.model)
    assumed: list[str] = []
    typical = None
    if stated.n_layers is None or stated.hidden is None:
        typical = _typical(stated, params_b)
        if typical is None:
            missing = [name for name in ("n_layers", "hidden") if getattr(stated, name) is None]
            raise CaseError(
                f"no preset is named {quoted(stated.model)}, and the row lacks {', '.join(missing)}: "
                "give them, or params_b for the usual sizes of such a model"
            )
        assumed.append(
            f"a usual model of {params_b:g} billion parameters: "
            f"{typical.layers} layers of width {typical.hidden}"
        )
    usual = typical or TypicalSizes(layers=1, hidden=1, ffn_hidden=0, experts=0, experts_per_token=2)
    hidden = stated.hidden or usual.hidden
    is_gpt = is_like_gpt(stated.model) and stated.family != "encoder"
    is_moe = (stated.n_experts or 0) > 1 or usual.experts > 1
    encoder = stated.family == "encoder"
    plain = is_gpt or encoder
    heads = stated.n_heads or _heads(hidden)
    if hidden % heads:
        raise CaseError(f"hidden is {hidden}, which n_heads {heads} does not divide")
    has_images = encoder and stated.image_size is not None and stated.vocab is None
    vocab = stated.vocab or (51200 if is_gpt else 32000)
    if encoder:
        vocab = stated.vocab or (_CLASSES if has_images else 30522)
    ffn = stated.ffn_hidden or usual.ffn_hidden or (4 * hidden if plain else gated_width(hidden))
    for name, value in (("n_heads", heads), ("ffn_hidden", ffn), ("vocab", vocab)):
        if getattr(stated, name) is None:
            assumed.append(f"{name} {value}")
    experts = (stated.n_experts or usual.experts) if is_moe else 0
    model = TransformerModel(
        id=stated.model[:100] or "model",
        title=stated.model[:100],
        layers=stated.n_layers or usual.layers,
        hidden=hidden,
        heads=heads,
        kv_heads=stated.n_kv_heads if stated.n_kv_heads and heads % stated.n_kv_heads == 0 else heads,
        head_dim=hidden // heads,
        ffn_hidden=ffn,
        vocab=vocab,
        gated_mlp=not plain and (is_moe or ffn != 4 * hidden),
        tied_embeddings=plain,
        learned_positions=(512 if encoder else stated.seq_len or 2048) if plain else 0,
        norm="layernorm" if plain else "rmsnorm",
        bias=plain,
        kind="encoder" if encoder else "decoder",
        token_types=2 if encoder else 0,
        embedding_norm=encoder,
        final_norm=not encoder,
        pooler=encoder,
        head_fraction=0.15 if encoder else 1.0,
        experts=experts,
        experts_per_token=min(stated.moe_topk or usual.experts_per_token, experts),
        expert_ffn_hidden=ffn if is_moe else 0,
        sequence_length=stated.seq_len or (512 if encoder else 2048),
        source="the sizes of the case",
        date="",
    )
    if typical is None and not encoder:
        variants = tuple(
            msgspec.structs.replace(model, gated_mlp=gate, tied_embeddings=tie)
            for gate in (True, False)
            for tie in (True, False)
        )
        model = _nearest(model, stated.params_b, variants, clear=1.5)
    if has_images:
        patch = patch_in_name(stated.model)
        assumed = [
            *(words for words in assumed if not words.startswith("vocab")),
            f"an image is cut into patches of {patch or _PATCH} pixels",
        ]
        model = _vision_transformer(model, stated.image_size or 0, patch or _PATCH)
    return KnownModel(model, (*assumed, *_other_count(model, stated)))


_CLASSES = 1000
"""Number of classes of ImageNet."""


_PATCH = 16
"""Side of a patch in many vision transformers, in pixels (arXiv 2010.11929)."""


def patch_in_name(name: str) -> int | None:
    """Return the side of a patch, in pixels: 14 for `ViT g/14`, `vit_h_14` and `vit_huge_patch14_224`."""
    match = re.search(r"patch[-_ ]?(8|14|16|32)|[-_/ ](8|14|16|32)(?=$|[^0-9a-z])", name.lower())
    return int(match[1] or match[2]) if match else None


def _vision_transformer(model: TransformerModel, image_size: int, patch: int) -> TransformerModel:
    """Return the model as a vision transformer: a sequence is the patches of an image and a class token.

    The head processes only the class token. The embedding table, with one row for each class, represents the
    projection of patches, which has a similar size (588 rows for patches of 14 pixels).
    """
    tokens = (image_size // patch) ** 2 + 1
    return msgspec.structs.replace(
        model,
        tied_embeddings=False,
        learned_positions=tokens,
        token_types=0,
        embedding_norm=False,
        final_norm=True,
        pooler=False,
        head_fraction=1.0 / tokens,
        sequence_length=tokens,
    )


def _typical(stated: Case, params_b: float | None) -> TypicalSizes | None:
    """Return the usual sizes for this number of parameters, with the layers or the width that the row states.

    The result is None if the number of parameters is unknown or impossible.
    """
    if params_b is None or not 1e-3 <= params_b <= 1e5:
        return None
    if stated.family == "encoder":
        sizes = encoder_sizes(params_b)
    elif stated.family == "moe" or (stated.n_experts or 0) > 1:
        sizes = expert_sizes(params_b, stated.params_active_b, stated.n_experts, stated.moe_topk)
    else:
        sizes = decoder_sizes(params_b, gated=not is_like_gpt(stated.model))
    if stated.n_layers is not None:
        hidden = hidden_for(params_b, stated.n_layers, experts=sizes.experts)
        sizes = sizes._replace(
            layers=stated.n_layers, hidden=hidden, ffn_hidden=round(sizes.ffn_hidden * hidden / sizes.hidden)
        )
    elif stated.hidden is not None:
        sizes = sizes._replace(
            layers=max(1, round(sizes.layers * (sizes.hidden / stated.hidden) ** 2)),
            hidden=stated.hidden,
            ffn_hidden=round(sizes.ffn_hidden * stated.hidden / sizes.hidden),
        )
    return sizes


def _heads(hidden: int) -> int:
    """Return the number of heads if each head has 128 elements, or 64 elements in a narrow model.

    The result is 1 if such heads do not divide the width.
    """
    size = 128 if hidden >= 2048 and hidden % 128 == 0 else 64
    return hidden // size if hidden % size == 0 else 1
