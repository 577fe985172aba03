"""Compute parameters and FLOPs of a residual network of bottleneck blocks from its sizes.

The layers are those of He 2016 (arXiv 1512.03385), table 1, with a stage's stride in its first 3 x 3
convolution (v1.5).
"""

from collections.abc import Iterator

from probes.base.record import Record
from probes.bench.bench_requests import Case

_EXPANSION = 4
_STEM_KERNEL = 7
_COLOURS = 3


class Resnet(Record, kw_only=True):
    """The sizes of the network, in the form of the worker's `CnnShape`."""

    id: str
    depths: tuple[int, ...]
    """Blocks per stage."""
    width: int
    """Number of channels after the first convolution, and in the narrow part of the first stage."""
    classes: int

    @property
    def shape(self) -> Case:
        """Return the shape for the worker: `{"id": "resnet-50", "depths": "3-4-6-3", "width": 64, ...}`."""
        return {
            "id": self.id,
            "depths": "-".join(map(str, self.depths)),
            "width": self.width,
            "classes": self.classes,
        }


RESNET_50 = Resnet(id="resnet-50", depths=(3, 4, 6, 3), width=64, classes=1000)
SMALL = Resnet(id="resnet-14", depths=(1, 1, 1, 1), width=32, classes=100)
"""A network of the same family for CPUs: one block per stage, half as wide."""


class Convolution(Record, kw_only=True):
    """A convolution without bias, followed by a batch norm."""

    inputs: int
    outputs: int
    kernel: int
    size: int
    """Rows and columns of the output."""

    @property
    def weights(self) -> int:
        return self.inputs * self.outputs * self.kernel**2

    @property
    def flops(self) -> int:
        """Return the operations of the forward pass for one image, two per multiply-add."""
        return 2 * self.weights * self.size**2


def convolutions(network: Resnet, image_size: int) -> Iterator[Convolution]:
    """Yield all convolutions in order; the first is the stem."""
    size = _half(image_size)
    yield Convolution(inputs=_COLOURS, outputs=network.width, kernel=_STEM_KERNEL, size=size)
    size = _half(size)  # pooling
    inputs = network.width
    for stage, depth in enumerate(network.depths):
        width = network.width * 2**stage
        for index in range(depth):
            halves = stage > 0 and index == 0
            before, size = size, _half(size) if halves else size
            outputs = _EXPANSION * width
            yield Convolution(inputs=inputs, outputs=width, kernel=1, size=before)
            yield Convolution(inputs=width, outputs=width, kernel=3, size=size)
            yield Convolution(inputs=width, outputs=outputs, kernel=1, size=size)
            if halves or inputs != outputs:
                yield Convolution(inputs=inputs, outputs=outputs, kernel=1, size=size)
            inputs = outputs


def parameter_count(network: Resnet) -> int:
    """Return the parameters: convolutions, two per channel of a batch norm, and the classifier with bias."""
    body = sum(layer.weights + 2 * layer.outputs for layer in convolutions(network, image_size=1))
    return body + (_features(network) + 1) * network.classes


def forward_flops(network: Resnet, image_size: int) -> int:
    """Return the operations of one image: convolutions and classifier.

    Norms, activations and pooling are not counted, as usual.
    """
    body = sum(layer.flops for layer in convolutions(network, image_size))
    return body + 2 * _features(network) * network.classes


def training_flops(network: Resnet, image_size: int) -> int:
    """Return the operations of one image, forward and backward.

    Each layer is counted three times: for its output, for the gradient of its weights and for the gradient of
    its input. The first layer's input is the image, which needs no gradient.
    """
    stem = next(convolutions(network, image_size))
    return 3 * forward_flops(network, image_size) - stem.flops


def _features(network: Resnet) -> int:
    return _EXPANSION * network.width << (len(network.depths) - 1)


def _half(size: int) -> int:
    """Return the rows after a convolution or pooling with stride 2 and a padding of half the kernel."""
    return (size + 1) // 2
