"""Image models by name, with their counts at any image size."""

import functools
import re

import msgspec

from probes.base.nearest import letters_and_digits
from probes.base.record import StrictRecord, quoted
from probes.base.rows import load_rows, read_rows
from recipes.job.workload import VisionModel

_MEGA, _KILO = 1e6, 1e3
_PREFIXES = ("timm", "torchvision", "tf", "legacy", "dm", "tv", "gluon", "swsl", "ssl")
"""Prefixes of model names in tables of runs; they do not change the architecture."""
_SUFFIX = re.compile(
    r"[._-](v1\.5|v15|v1b?|fp16|fp32|tf32|amp|nchw|nhwc|torchvision|baseline|pretrained|in1k|in22k|in21k"
    r"|imagenet|\d{3})$"
)


_REGNET = re.compile(r"regnet[-_ ]?([xyz])[-_ ]?(\d+(?:[._]\d+)?)[-_ ]?([gm])f\b")
"""Names that state the FLOPs, as in the paper: `RegNetX-1.6GF`, `regnet_y_400mf`."""


class _File(StrictRecord, kw_only=True):
    source: str
    date: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int, ...], ...]


class Alias(StrictRecord, kw_only=True):
    """Names of a counted model that cannot be derived from its id, and properties that the counts lack."""

    model: str
    names: tuple[str, ...] = ()
    fixed_size: bool = False
    image_operators: int = 0
    source: str = ""


@functools.lru_cache(maxsize=1)
def load_vision_models() -> dict[str, VisionModel]:
    """Return all counted models by id."""
    counted = msgspec.convert(read_rows("vision_models", "recipes"), _File)
    aliases = {alias.model: alias for alias in load_aliases()}
    models = {}
    for cells in counted.rows:
        row = dict(zip(counted.columns, cells, strict=True))
        name = str(row["id"])
        alias = aliases.get(name)
        models[name] = VisionModel(
            id=name,
            title=name,
            parameters=int(row["parameters"]),
            image_size=int(row["image_size"]),
            dimensions=int(row["dimensions"]),
            fixed_size=alias.fixed_size if alias else False,
            forward_flops=_MEGA * float(row["forward_mflops"]),
            dense_flops=_MEGA * float(row["dense_mflops"]),
            grouped_flops=_MEGA * float(row["grouped_mflops"]),
            product_flops=_MEGA * float(row["product_mflops"]),
            spatial_flops=_MEGA * float(row["spatial_mflops"]),
            depthwise_flops=_MEGA * float(row["depthwise_mflops"]),
            convolution_elements=_KILO * float(row["convolution_kilo_elements"]),
            matrix_elements=_KILO * float(row["matrix_kilo_elements"]),
            depthwise_elements=_KILO * float(row["depthwise_kilo_elements"]),
            pointwise_elements=_KILO * float(row["pointwise_kilo_elements"]),
            saved_elements=_KILO * float(row["saved_kilo_elements"]),
            operators=int(row["operators"]),
            image_operators=alias.image_operators if alias else 0,
            source=counted.source,
            date=counted.date,
        )
    return models


@functools.lru_cache(maxsize=1)
def load_aliases() -> tuple[Alias, ...]:
    """Return the other names of counted models."""
    return load_rows("recipes", "aliases", Alias, file="vision_names")


@functools.lru_cache(maxsize=1)
def _by_name() -> dict[str, str]:
    ids: dict[str, str] = {}
    for name in load_vision_models():
        # `_100` means a width of 1.0, `_224` the usual input.
        for short in (name.removesuffix("_100"), name.removesuffix("_224"), *_without_prefix(name)):
            ids.setdefault(letters_and_digits(short), name)
    ids |= {letters_and_digits(name): name for name in load_vision_models()}
    ids |= {letters_and_digits(name): alias.model for alias in load_aliases() for name in alias.names}
    return ids


@functools.lru_cache(maxsize=1024)
def find_vision_model(name: str, image_size: int | None = None) -> VisionModel | None:
    """Return the model for this image size, or for its usual size; None if no counted model has the name."""
    listed = _listed(name)
    if listed is None:
        return _vision_transformer(_with_gigantic(name).lower(), image_size)
    return listed if image_size is None else at_size(listed, image_size)


@functools.lru_cache(maxsize=1024)
def assumed_of_name(name: str) -> tuple[str, ...]:
    """Return what is assumed about an image model whose name no counted model has; empty for other names.

    Such a name contains the size of a vision transformer, and perhaps the patch and the way of training.
    """
    model, match = find_vision_model(name), _VIT.search(_with_gigantic(name).lower())
    if model is None or match is None or _listed(name) is not None:
        return ()
    patch, counted = _patch_of(match, name.lower()), int(re.findall(r"patch(\d+)", model.id)[0])
    parts = [f"patches of {patch} pixels{'' if match['patch'] else ', which the name does not state'}"]
    if patch != counted:
        parts.append(
            f"images of {model.image_size} pixels in patches of {counted} are as many patches, and counted"
        )
    if _TWO_TOWERS.search(name.lower()):
        parts.append("the image tower alone, without the text tower and the contrastive loss")
    return (f"model {quoted(name)} is taken as {model.id}: {'; '.join(parts)}",)


def _with_gigantic(name: str) -> str:
    return name if "dino" in name.lower() else _GIGANTIC.sub(r"\1gigantic", name)


def _listed(name: str) -> VisionModel | None:
    """Return the counted model that has the name, perhaps after an organisation and before words about its
    weights; None if none has.
    """
    return _listed_as(name) or (_listed_as(name.rsplit("/", 1)[-1]) if "/" in name else None)


def _listed_as(name: str) -> VisionModel | None:
    # Brackets contain remarks; the part after a dot may name a set of weights.
    plain = re.sub(r"\([^)]*\)", "", _with_gigantic(name).lower())
    stripped = _REGNET.sub(_timm_regnet_name, plain).strip()
    while stripped:
        for spelling in (stripped, stripped.split(".")[0], *_without_prefix(stripped)):
            model_id = _by_name().get(letters_and_digits(spelling))
            if model_id is not None:
                return load_vision_models()[model_id]
        shorter = _SUFFIX.sub("", stripped)
        if shorter == stripped:
            break
        stripped = shorter
    return None


_VIT_SIZES = {
    "ti": "tiny", "t": "tiny", "s": "small", "b": "base", "l": "large", "h": "huge", "g": "giant",
    "bigg": "gigantic",
}  # fmt: skip
_GIGANTIC = re.compile(r"(?<![A-Za-z])((?:[Vv]i[Tt]|VIT|[Vv]ision[-_ ][Tt]ransformer)[-_ /]?)G(?![A-Za-z])")
"""Names with a single capital G, which is the spelling of ViT-G (gigantic) in arXiv 2106.04560.

A small g means giant.
"""
_VIT_PATCHES = {"tiny": 16, "small": 16, "base": 16, "large": 16, "huge": 14, "giant": 14, "gigantic": 14}
"""Side of a patch in pixels by model size, from arXiv 2010.11929 and 2106.04560."""
_CLIP_PATCHES = {"base": 32, "large": 14}
"""Side of a patch of CLIP's first image tower of a size (openai/CLIP: ViT-B/32 and ViT-L/14)."""
_TWO_TOWERS = re.compile(r"(?<![a-z])(?:clip|siglip2?|openclip|eva-?clip|align)(?![a-z])")
"""Names of methods that train an image tower together with a text tower."""
_VIT = re.compile(
    r"(?<![a-z])(?:vit|dinov[23]|vision[-_ ]transformer)[-_ /]?"
    r"(?P<size>tiny|small|base|large|huge|gigantic|giant|bigg|ti|[tsblhg])(?![a-z])"
    r"(?:[-_ /]?(?:patch|p)?[-_ ]?(?P<patch>8|14|16|32)(?!\d))?"
)


def _vision_transformer(name: str, image_size: int | None) -> VisionModel | None:
    """Return a vision transformer by its size.

    The training method (DINOv2, CLIP's image tower) is ignored, because heads and weights differ little. If
    the patch size was not counted, a counted size is used, with an image size that gives the same number of
    patches.
    """
    match = _VIT.search(name)
    if match is None:
        return None
    size, patch = _size_of(match), _patch_of(match, name)
    for counted in (patch, _VIT_PATCHES[size]):
        model = load_vision_models().get(f"vit_{size}_patch{counted}_224")
        if model is not None:
            return at_size(model, round((image_size or 224) * counted / patch))
    return None


def _size_of(match: re.Match[str]) -> str:
    return _VIT_SIZES.get(match["size"], match["size"])


def _patch_of(match: re.Match[str], name: str) -> int:
    """Return the side of a patch that the name states, or else the usual one for its size and training."""
    size = _size_of(match)
    usual = 14 if "dinov2" in name else _VIT_PATCHES[size]
    if re.search(r"(?<![a-z])(?:open)?clip(?![a-z])", name):
        usual = _CLIP_PATCHES.get(size, usual)
    return int(match["patch"] or usual)


def _timm_regnet_name(match: re.Match[str]) -> str:
    """Return timm's name of a RegNet: `regnetx_016` for 1.6 GFLOPs (16 times 100 million, three digits)."""
    hundreds = float(match[2].replace("_", ".")) * (10 if match[3] == "g" else 0.01)
    return f"regnet{match[1]}_{round(hundreds):03d}"


def _without_prefix(name: str) -> list[str]:
    return [re.sub(rf"^{prefix}[-_/]?", "", name) for prefix in _PREFIXES if name.startswith(prefix)]


@functools.lru_cache(maxsize=1024)
def at_size(model: VisionModel, image_size: int) -> VisionModel:
    """Return the model for images of another size; a model of fixed size is returned unchanged.

    All counts except parameters and kernels grow with the number of pixels of an image.
    """
    if model.fixed_size or image_size == model.image_size:
        return model
    share = (image_size / model.image_size) ** model.dimensions
    names = (
        "forward_flops", "dense_flops", "grouped_flops", "product_flops", "spatial_flops", "depthwise_flops",
        "convolution_elements", "matrix_elements", "depthwise_elements", "pointwise_elements",
        "saved_elements",
    )  # fmt: skip
    scaled = {name: share * getattr(model, name) for name in names}
    return msgspec.structs.replace(model, image_size=image_size, **scaled)
