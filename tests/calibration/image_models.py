"""Image models that timm lacks: detection, segmentation, and torchvision's own classifiers."""

# ruff: noqa: PLC0415 - torchvision can only be imported once its compiled operators are out of the way
from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


def _convs(dims: int, *widths: int) -> nn.Sequential:
    """Return 3-wide convolutions, each with instance norm and leaky ReLU (Isensee et al., nnU-Net)."""
    conv, norm = (nn.Conv2d, nn.InstanceNorm2d) if dims == 2 else (nn.Conv3d, nn.InstanceNorm3d)
    layers: list[nn.Module] = []
    for source, target in itertools.pairwise(widths):
        layers += [
            conv(source, target, 3, padding=1),
            norm(target, affine=True),
            nn.LeakyReLU(0.01, inplace=True),
        ]
    return nn.Sequential(*layers)


class _UNet(nn.Module):
    """U-Net with two convolutions per level, max pooling downwards and transposed convolutions upwards."""

    def __init__(
        self, dims: int, channels: int, classes: int, widths: tuple[int, ...], *, heads: int = 1
    ) -> None:
        super().__init__()
        up = nn.ConvTranspose2d if dims == 2 else nn.ConvTranspose3d
        head = nn.Conv2d if dims == 2 else nn.Conv3d
        self.pool = nn.MaxPool2d(2) if dims == 2 else nn.MaxPool3d(2)
        pairs = list(zip((channels, *widths), widths, strict=False))
        self.down = nn.ModuleList(_convs(dims, source, target, target) for source, target in pairs)
        steps = list(zip(widths[:0:-1], widths[-2::-1], strict=True))
        self.up = nn.ModuleList(up(source, target, 2, stride=2) for source, target in steps)
        self.merge = nn.ModuleList(_convs(dims, 2 * target, target, target) for _, target in steps)
        self.heads = nn.ModuleList(head(target, classes, 1) for _, target in steps[-heads:])

    def forward(self, value: Tensor) -> list[Tensor]:
        skips, outputs = [], []
        for index, level in enumerate(self.down):
            value = level(self.pool(value) if index else value)
            skips.append(value)
        for up, merge, skip in zip(self.up, self.merge, skips[-2::-1], strict=True):
            value = merge(torch.cat((up(value), skip), 1))
            outputs.append(value)
        return [head(output) for head, output in zip(self.heads, outputs[-len(self.heads) :], strict=True)]


class _Ssd300(nn.Module):
    """SSD300 on a ResNet up to conv4, without the stride of conv4.

    The source is NVIDIA/DeepLearningExamples, PyTorch/Detection/SSD.
    """

    def __init__(self, backbone: str, width: int) -> None:
        super().__init__()
        import torchvision

        resnet = getattr(torchvision.models, backbone)()
        block = resnet.layer3[0]
        for conv in (block.conv1, block.conv2, block.downsample[0]):
            conv.stride = (1, 1)
        self.features = nn.Sequential(*list(resnet.children())[:7])
        sizes, middle = [width, 512, 512, 256, 256, 256], (256, 256, 128, 128, 128)
        self.more = nn.ModuleList()
        for index, (source, inner, target) in enumerate(zip(sizes, middle, sizes[1:], strict=False)):
            last = nn.Conv2d(
                inner, target, 3, bias=False, **({"padding": 1, "stride": 2} if index < 3 else {})
            )
            norms = (nn.BatchNorm2d(inner), nn.BatchNorm2d(target))
            self.more.append(
                nn.Sequential(
                    nn.Conv2d(source, inner, 1, bias=False),
                    norms[0],
                    nn.ReLU(inplace=True),
                    last,
                    norms[1],
                    nn.ReLU(inplace=True),
                )
            )
        boxes = (4, 6, 6, 6, 4, 4)
        self.heads = nn.ModuleList(
            nn.Conv2d(size, count * 85, 3, padding=1) for size, count in zip(sizes, boxes, strict=True)
        )

    def forward(self, value: Tensor) -> list[Tensor]:
        value = self.features(value)
        outputs = [self.heads[0](value)]
        for layer, head in zip(self.more, list(self.heads)[1:], strict=True):
            value = layer(value)
            outputs.append(head(value))
        return outputs


class _MaskRcnn(nn.Module):
    """torchvision's Mask R-CNN with its data-dependent parts at their configured sizes.

    There are 512 regions an image, 64 of them with a mask.
    """

    def __init__(self) -> None:
        super().__init__()
        from torchvision.models import detection

        self.model = detection.maskrcnn_resnet50_fpn(weights=None, weights_backbone=None)
        for name, parameter in self.model.backbone.body.named_parameters():
            parameter.requires_grad_(any(name.startswith(f"layer{stage}") for stage in (2, 3, 4)))

    def forward(self, value: Tensor) -> list[Tensor]:
        features = list(self.model.backbone(value).values())
        heads = self.model.roi_heads
        regions = value.shape[0] * 512
        # Gradients reach the features through pooling; copies of the pooled size take its place.
        pooled = features[0][:, :, :1, :1].expand(-1, -1, 7, 7).repeat(512, 1, 1, 1)
        boxes = heads.box_predictor(heads.box_head(pooled))
        masked = features[0][:, :, :1, :1].expand(-1, -1, 14, 14).repeat(64, 1, 1, 1)
        masks = heads.mask_predictor(heads.mask_head(masked))
        assert pooled.shape[0] == regions
        return [*tree_leaves(self.model.rpn.head(features)), *boxes, masks]


class _RetinaNet(nn.Module):
    """torchvision's RetinaNet without the matching of anchors."""

    def __init__(self, *, resnext: bool) -> None:
        super().__init__()
        from torchvision.models import detection, resnext50_32x4d
        from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
        from torchvision.ops.feature_pyramid_network import LastLevelP6P7

        if resnext:
            backbone = _resnet_fpn_extractor(
                resnext50_32x4d(), 3, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(256, 256)
            )
            self.model: Any = detection.RetinaNet(backbone, 264)
        else:
            self.model = detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)

    def forward(self, value: Tensor) -> list[Tensor]:
        return tree_leaves(self.model.head(list(self.model.backbone(value).values())))


class _Tiramisu(nn.Module):
    """The dense U-Net of the climate segmentation at Summit.

    It has growth 32, 5 levels of 2, 2, 2, 4 and 5 layers, and 5-wide convolutions.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, 64, 3, padding=1)
        width, skips, self.down, self.up = 64, [], nn.ModuleList(), nn.ModuleList()
        for layers in (2, 2, 2, 4):
            self.down.append(self._block(width, layers))
            width += 32 * layers
            skips.append(width)
        self.middle = self._block(width, 5)
        width += 32 * 5
        self.rise = nn.ModuleList()
        for layers, skip in zip((4, 2, 2, 2), skips[::-1], strict=True):
            self.rise.append(nn.ConvTranspose2d(width, 32 * layers, 3, stride=2, padding=1, output_padding=1))
            self.up.append(self._block(skip + 32 * layers, layers))
            width = skip + 64 * layers
        self.last = nn.Conv2d(width, classes, 1)
        self.pool = nn.MaxPool2d(2)

    @staticmethod
    def _block(width: int, layers: int) -> nn.ModuleList:
        return nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(width + 32 * item),
                nn.ReLU(inplace=True),
                nn.Conv2d(width + 32 * item, 32, 5, padding=2),
            )
            for item in range(layers)
        )

    @staticmethod
    def _dense(value: Tensor, block: nn.ModuleList) -> Tensor:
        for layer in block:
            value = torch.cat((value, layer(value.clone())), 1)
        return value

    def forward(self, value: Tensor) -> Tensor:
        value, skips = self.first(value), []
        for block in self.down:
            value = self._dense(value, block)  # type: ignore[arg-type]
            skips.append(value)
            value = self.pool(value)
        value = self._dense(value, self.middle)
        for rise, block, skip in zip(self.rise, self.up, skips[::-1], strict=True):
            value = self._dense(torch.cat((rise(value), skip), 1), block)  # type: ignore[arg-type]
        out: Tensor = self.last(value)
        return out


class _Features(nn.Module):
    """A torchvision segmentation model with another number of input channels."""

    def __init__(self, model: nn.Module, channels: int) -> None:
        super().__init__()
        first = model.backbone.conv1  # type: ignore[union-attr]
        outputs = first.out_channels  # type: ignore[union-attr]
        convolution = nn.Conv2d(channels, outputs, 7, 2, 3, bias=False)  # type: ignore[arg-type]
        model.backbone.conv1 = convolution  # type: ignore[union-attr, operator]
        self.model = model

    def forward(self, value: Tensor) -> Any:
        return self.model(value)


@dataclass
class Entry:
    """A model that timm does not have: the function that builds it, and the shape of one sample."""

    id: str
    build: Callable[[], nn.Module]
    shape: tuple[int, ...]
    source: str = "torchvision"


def _torchvision(name: str, shape: tuple[int, ...] = (3, 224, 224), **options: Any) -> Entry:
    def build() -> nn.Module:
        import torchvision

        model: nn.Module = torchvision.models.get_model(name, **options)
        return model

    return Entry(name, build, shape)


def entries() -> list[Entry]:
    """Return detection, segmentation and the classifiers that only torchvision has."""
    from torchvision.models import segmentation as seg

    width_2d, width_3d = (32, 64, 128, 256, 512, 512), (32, 64, 128, 256, 320, 320)
    dle = "the layout of NVIDIA/DeepLearningExamples"
    return [
        Entry("ssd300_resnet50", lambda: _Ssd300("resnet50", 1024), (3, 300, 300), dle),
        Entry("ssd300_resnet34", lambda: _Ssd300("resnet34", 256), (3, 300, 300), "MLPerf Training v0.7 SSD"),
        Entry(
            "maskrcnn_resnet50_fpn",
            _MaskRcnn,
            (3, 800, 1216),
            "torchvision, a padded COCO image of the usual size",
        ),
        Entry("retinanet_resnet50_fpn", lambda: _RetinaNet(resnext=False), (3, 800, 1216)),
        Entry(
            "retinanet_resnext50_fpn",
            lambda: _RetinaNet(resnext=True),
            (3, 800, 800),
            "MLPerf Training v2.0 RetinaNet",
        ),
        Entry("nnunet_2d", lambda: _UNet(2, 4, 4, width_2d, heads=3), (4, 192, 160), dle),
        Entry("nnunet_3d", lambda: _UNet(3, 4, 4, width_3d, heads=3), (4, 128, 128, 128), dle),
        Entry(
            "unet3d",
            lambda: _UNet(3, 1, 3, (32, 64, 128, 256, 320)),
            (1, 128, 128, 128),
            "MLPerf Training U-Net 3D, KiTS19",
        ),
        Entry("unet_medical", lambda: _UNet(2, 1, 2, (64, 128, 256, 512, 1024)), (1, 576, 576), dle),
        Entry(
            "deeplabv3plus_climate",
            lambda: _Features(seg.deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=3), 16),
            (16, 768, 1152),
            "DeepLabv3 of torchvision on 16 channels (Kurth et al. 2018)",
        ),
        Entry(
            "tiramisu_climate", lambda: _Tiramisu(16, 3), (16, 768, 1152), "Kurth et al. 2018, section V-B"
        ),
        _torchvision("fcn_resnet50", (3, 520, 520), weights=None, weights_backbone=None),
        _torchvision("deeplabv3_resnet50", (3, 520, 520), weights=None, weights_backbone=None),
        _torchvision("deeplabv3_resnet101", (3, 520, 520), weights=None, weights_backbone=None),
        *(
            _torchvision(name)
            for name in ("alexnet", "googlenet", "squeezenet1_0", "squeezenet1_1", "mobilenet_v3_small")
        ),
        *(_torchvision(name) for name in ("maxvit_t", "vit_h_14")),
        *(_torchvision(f"shufflenet_v2_x{scale}") for scale in ("0_5", "1_0", "1_5", "2_0")),
    ]
