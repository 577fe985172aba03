"""A residual network of bottleneck blocks (He 2016, arXiv 1512.03385) in plain torch; ResNet-50 at full size.

    images -> 7 x 7 convolution and pooling (a quarter of the size) -> four stages of blocks
    -> mean over positions -> classes

The stride of a stage is in its first 3 x 3 convolution, as in the variant ResNet v1.5.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4
"""Channels at the end of a bottleneck relative to its narrow part."""
MOMENTUM = 0.9
WEIGHT_DECAY = 1e-4
LEARNING_RATE = 0.1
"""Settings of section 3.4 of the paper; the learning rate is for a batch of 256 images."""


@dataclasses.dataclass(frozen=True)
class CnnShape:
    """The sizes of the network. The defaults describe ResNet-50."""

    depths: tuple[int, ...] = (3, 4, 6, 3)
    """Blocks per stage; each stage after the first halves the image and doubles the channels."""
    width: int = 64
    classes: int = 1000

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CnnShape:
        """Return the shape in `{"depths": "3-4-6-3", "width": 64, "classes": 1000}`. Raises ValueError."""
        depths = tuple(int(part) for part in str(values["depths"]).split("-"))
        return cls(depths=depths, width=int(values["width"]), classes=int(values["classes"]))


class Bottleneck(nn.Module):
    """A block that narrows with 1 x 1, mixes positions with 3 x 3, widens with 1 x 1, and adds the input."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.narrow = nn.Sequential(nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width))
        self.middle = nn.Sequential(
            nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(width)
        )
        self.widen = nn.Sequential(nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.narrow(x), inplace=True)
        y = F.relu(self.middle(y), inplace=True)
        return F.relu(self.widen(y) + self.shortcut(x), inplace=True)


class ResidualNetwork(nn.Module):
    """The whole network: images [B, 3, H, W] in, logits [B, classes] out."""

    def __init__(self, shape: CnnShape) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, shape.width, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(shape.width)
        )
        blocks: list[nn.Module] = []
        inputs = shape.width
        for stage, depth in enumerate(shape.depths):
            width = shape.width * 2**stage
            for index in range(depth):
                blocks.append(Bottleneck(inputs, width, stride=2 if stage > 0 and index == 0 else 1))
                inputs = EXPANSION * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, shape.classes)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.stem(images), inplace=True), 3, stride=2, padding=1)
        return self.head(self.blocks(x).mean(dim=(2, 3)))


class CnnTrainer:
    """Network, optimizer and one batch of synthetic images on one rank. Several ranks need the process group.

    The images are noise that stays in the device's memory, so that no time is spent on reading.
    """

    def __init__(
        self,
        shape: CnnShape,
        *,
        micro_batch: int,
        image_size: int,
        precision: str,
        device: torch.device,
        world_size: int,
    ) -> None:
        self.device, self.precision = device, precision
        torch.manual_seed(0)
        with device:
            self.model: nn.Module = ResidualNetwork(shape)
        self.model.to(memory_format=torch.channels_last)
        self.model.train()
        if device.type == "cuda":
            # The shapes never change, so one search for the best kernel is enough for all steps.
            torch.backends.cudnn.benchmark = True
        if world_size > 1:
            self.model = nn.parallel.DistributedDataParallel(
                self.model,
                device_ids=[device.index] if device.type == "cuda" else None,
                gradient_as_bucket_view=True,
            )
        self.optimizer = torch.optim.SGD(
            self.model.parameters(),
            lr=LEARNING_RATE * micro_batch / 256,
            momentum=MOMENTUM,
            weight_decay=WEIGHT_DECAY,
        )
        images = torch.randn(micro_batch, 3, image_size, image_size, device=device)
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(shape.classes, (micro_batch,), device=device)

    def step(self) -> Tensor:
        """Run one optimizer step and return this rank's loss."""
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            logits = self.model(self.images)
        loss = F.cross_entropy(logits.float(), self.labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()
