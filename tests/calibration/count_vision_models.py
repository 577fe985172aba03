"""Count the operations of image models on the meta device and write `recipes/data/vision_models.toml`.

Needs timm and torchvision beside torch (`pip install --no-deps timm torchvision pillow` in an environment of
its own); no weights are loaded and no numbers are computed. Run again when an architecture is to be added:

    python tests/calibration/count_vision_models.py [--only NAME ...] [--output FILE]

A training step is traced twice, with two batch sizes: counts that grow with the batch belong to an image, all
other counts to the step.
"""

# ruff: noqa: PLC0415 - torchvision can only be imported after `_without_compiled_operators`
from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probes" / "workers"))

from rigtune_worker.counting import count_step

from tests.calibration.image_models import entries

DATA = Path(__file__).parents[2] / "recipes" / "data" / "vision_models.toml"
_BATCHES = (2, 4)


def count(model: nn.Module, step: Callable[[int], Tensor]) -> tuple[dict[str, float], int]:
    """Return the counts of one image, with the operators of a whole step, and the number of parameters."""
    resident = [*model.parameters(), *model.buffers()]
    traced = []
    for batch in _BATCHES:
        model.zero_grad()  # otherwise the second pass would add to the gradients of the first
        traced.append(count_step(partial(step, batch), resident, fused_attention=False))
    first, second = traced
    counts = {name: (second[name] - first[name]) / (_BATCHES[1] - _BATCHES[0]) for name in first}
    counts["operators"] = first["operators"]
    return counts, sum(parameter.numel() for parameter in model.parameters())


def _image_step(model: nn.Module, shape: tuple[int, ...]) -> Callable[[int], Tensor]:
    def step(batch: int) -> Tensor:
        out = model(torch.empty(batch, *shape, device="meta"))
        tensors = [tree_leave for tree_leave in tree_leaves(out) if isinstance(tree_leave, Tensor)]
        total: Tensor = sum(tensor.sum() for tensor in tensors)  # type: ignore[assignment]
        return total

    return step


_FAMILIES = (
    "beit", "botnet26", "cait", "caformer_s18", "coat_", "coatnet_[0-2]_", "convformer_s18", "convit",
    "convmixer", "convnext_", "convnextv2_", "crossvit_(9|15|18|base|small|tiny)_", "cs3darknet_[lmsx]",
    "csp", "darknet53", "deit3?_", "densenet", "dla", "dm_nfnet_f[0-3]", "dpn", "eca_nfnet_l[012]",
    "ecaresnet(26|50|101|269)", "edgenext", "efficientformer_", "efficientnetv2_rw",
    "ese_vovnet(19b_dw|39b|99b)", "fastvit", "fbnetc", "focalnet_.*_srf", "gcvit", "gernet", "ghostnet_",
    "ghostnetv2_", "gmixer", "gmlp", "halonet", "hrnet_w(18|30|32|40|48|64)$", "inception", "lambda", "lcnet",
    "legacy_se", "legacy_xception", r"levit_\d", "maxvit_.*tf_224", "mixer", "mixnet", "mnasnet",
    "mobilenetv", "mobileone", "mobilevit", "mvitv2_", "nasnet", "pnasnet", "nest_(base|small|tiny)$",
    "nf_resnet50", "nf_regnet_b1", "nfnet_[fl][0-3]", "pit_", "poolformer_", "poolformerv2", "pvt_v2",
    "regnet[xyz]_", "repvgg", r"repvit_m\d_", "res2net50", "res2net101_26w", "res2next", "resmlp", "resnest",
    r"resnet\d+[dt]?$", "resnetaa50", "resnetblur50$", "resnetrs", r"resnetv2_(50|101|152)(x\d_bit)?$",
    "resnext", "rexnet_", "selecsls", "semnasnet", "senet154", "sequencer2d",
    "seresnet(18|34|50|101|152|152d)$", "seresnext", "skresn", "spnasnet", "swin_", "swinv2_.*_256",
    r"tf_efficientnet_(b\d|lite\d|e[lms]$)", "tf_efficientnetv2", "tf_mixnet", "tf_mobilenetv3", "tnt_",
    "tresnet", "twins", "davit_(tiny|small|base|large)$", r"eva02_.*patch14_224$",
    "hiera_(tiny|small|base|base_plus|large|huge)_224$", "vgg", "visformer",
    "vit_(huge|giant|gigantic)_patch14_224$", "vit_(tiny|small|base|large)_patch(8|14|16|32)_(224|384)$",
    "vit_(tiny|small|base|large)_r", r"volo_d\d_(224|384)$", "vovnet", "wide_resnet", "xception",
    "xcit_.*_224$",
)  # fmt: skip
_LEFT_OUT = re.compile(
    r"_distilled|_pruned|_ols|_rms|_gn|_evos|_frn|_ap$|_ns$|_abswin|_reg|beit3|mobilenetv[45]|_ts"
    r"|resnetv2.*evos"
)
_LARGEST_PARAMETERS = 2_000_000_000


def timm_names() -> list[str]:
    """Return the architectures of timm that published tables of training speed name."""
    import timm

    wanted = re.compile("|".join(_FAMILIES))
    names = [name for name in timm.list_models() if wanted.match(name) and not _LEFT_OUT.search(name)]
    # Names with and without `tf_` are one architecture with different padding; the name with `tf_` is kept.
    return [name for name in names if f"tf_{name}" not in names]


def _timm_row(name: str) -> list[object] | None:
    import timm

    model = timm.create_model(name, pretrained=False).train()
    channels, size, _ = model.default_cfg["input_size"]
    if name.startswith("tf_efficientnetv2") and name[-1] in _EFFICIENTNET_V2:
        size = _EFFICIENTNET_V2[name[-1]]
    if sum(parameter.numel() for parameter in model.parameters()) > _LARGEST_PARAMETERS:
        return None
    return row(name.removeprefix("tf_"), model, (channels, size, size))


_EFFICIENTNET_V2 = {"s": 300, "m": 384, "l": 384}

COLUMNS = (
    "id",
    "parameters",
    "image_size",
    "dimensions",
    "forward_mflops",
    "dense_mflops",
    "grouped_mflops",
    "product_mflops",
    "spatial_mflops",
    "depthwise_mflops",
    "convolution_kilo_elements",
    "matrix_kilo_elements",
    "depthwise_kilo_elements",
    "pointwise_kilo_elements",
    "saved_kilo_elements",
    "operators",
)


def row(name: str, model: nn.Module, shape: tuple[int, ...]) -> list[object]:
    """Return one row of the data file."""
    counts, parameters = count(model, _image_step(model, shape))
    mega = [
        counts[f"{kind}_flops"] for kind in ("forward", "dense", "grouped", "product", "spatial", "depthwise")
    ]
    kilo = [
        counts[f"{kind}_elements"] for kind in ("convolution", "matrix", "depthwise", "pointwise", "saved")
    ]
    # The side of a square or cube with as many samples.
    size = round(torch.Size(shape[1:]).numel() ** (1 / (len(shape) - 1)))
    return [
        name,
        parameters,
        size,
        len(shape) - 1,
        *(round(count / 1e6) for count in mega),
        *(round(count / 1e3) for count in kilo),
        round(counts["operators"]),
    ]


def _without_compiled_operators() -> None:
    """Remove torchvision's compiled operators, which are not needed and may not match the build of torch."""
    register = torch.library.register_fake

    def other(name: object, *args: Any, **kwargs: Any) -> Any:
        return (
            (lambda body: body) if str(name).startswith("torchvision::") else register(name, *args, **kwargs)
        )

    torch.library.register_fake = other


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="*", help="count these alone and print them")
    parser.add_argument("--output", type=Path, default=DATA)
    arguments = parser.parse_args()

    _without_compiled_operators()
    import timm
    import torchvision
    from timm.layers import set_fused_attn

    # Attention as products and a softmax, as tables of 2022 ran it.
    set_fused_attn(False)
    rows: list[list[object]] = []
    with torch.device("meta"):
        for entry in entries():
            if not arguments.only or entry.id in arguments.only:
                rows.append(row(entry.id, entry.build().train(), entry.shape))
        names = timm_names()
        for index, name in enumerate(names):
            if arguments.only and name not in arguments.only:
                continue
            print(f"{index + 1}/{len(names)} {name}", file=sys.stderr)
            try:
                result = _timm_row(name)
            # A model that cannot run on the meta device is left out.
            except Exception as error:  # noqa: BLE001
                print(f"{name}: {type(error).__name__}: {error}"[:160], file=sys.stderr)
                continue
            if result:
                rows.append(result)
    rows.sort(key=lambda item: str(item[0]))
    if arguments.only:
        for row_cells in rows:
            print(dict(zip(COLUMNS, row_cells, strict=True)))
        return
    library = f"timm {timm.__version__}, torchvision {torchvision.__version__.split('+')[0]}"
    head = f"""\
# Image models by their counts: one line a model.
# Written by tests/calibration/count_vision_models.py, not by hand.
# MFLOPs (two per multiply-add) and thousands of elements are those of one image; all but `forward_mflops` and
# `saved_kilo_elements` are sums over a forward and a backward pass. `operators` are the kernels of an eager
# forward and backward pass. `image_size` is the side of a square (cube for three dimensions) with as many
# samples.
source = "counted on meta tensors from {library}"
date = "{date.today():%Y-%m}"
columns = {json.dumps(COLUMNS)}
rows = [
"""
    arguments.output.write_text(head + "".join(f"  {json.dumps(item)},\n" for item in rows) + "]\n")


if __name__ == "__main__":
    main()
