"""The residual network of the reference workload, with counts from its layers."""

from __future__ import annotations

from probes.bench.resnet import (
    RESNET_50,
    SMALL,
    Resnet,
    convolutions,
    forward_flops,
    parameter_count,
    training_flops,
)
from recipes.job.workload import VisionModel

NETWORKS = {network.id: network for network in (RESNET_50, SMALL)}
"""Networks that benchmark train-cnn trains, by id."""
_NORM_PASSES = 8.0
"""Elements moved per output of a batch norm: read twice and written forward; backward, two are read twice and
one written.
"""
_ACTIVATION_PASSES = 5.0
"""Elements moved per output of an activation in place."""
_ADDITION_PASSES = 6.0
"""Elements moved per output of adding the shortcut.

Two are read and one is written, and likewise for the sum of the gradients of its two uses.
"""
_POOL_PASSES = 2.5
_CONVOLUTION_KERNELS = 5
"""Kernels of convolution and batch norm, forward, and of the gradients of input, weights and norm."""
_ACTIVATION_KERNELS = 2
_ADDITION_KERNELS = 2


def reference_vision_model(network: Resnet, image_size: int) -> VisionModel:
    """Return the counts for one image, by operator.

    They are each layer's outputs with how often they are read and written in a step.
    """
    moved = pointwise = saved = 0.0
    kernels = 0
    before = None
    entered = image_size
    for layer in convolutions(network, image_size):
        outputs = float(layer.outputs * layer.size**2)
        is_stem = before is None
        is_shortcut = (
            before is not None and before.kernel == layer.kernel == 1 and layer.outputs == before.outputs
        )
        is_wide = layer.outputs > layer.inputs and layer.kernel == 1 and not is_shortcut
        if is_stem:
            size = image_size
        elif is_shortcut:
            size = entered
        else:
            size = before.size if before is not None and layer.kernel > 1 else layer.size
        if not is_stem and not is_shortcut and not is_wide and layer.kernel == 1:
            entered = layer.size
        # Forward, and in one backward kernel, which makes no gradient of the images.
        moved += 2.0 * outputs + (2.0 if is_stem else 3.0) * layer.inputs * float(size) ** 2
        pointwise += _NORM_PASSES * outputs
        kernels += _CONVOLUTION_KERNELS
        # Kept are the outputs of convolutions, for the norms, and what activations leave, for the next
        # convolution.
        saved += outputs
        if not is_shortcut:
            pointwise += _ACTIVATION_PASSES * outputs
            kernels += _ACTIVATION_KERNELS
            saved += outputs
        if is_wide:
            pointwise += _ADDITION_PASSES * outputs
            kernels += _ADDITION_KERNELS
        if is_stem:
            pointwise += _POOL_PASSES * outputs
            saved += 0.75 * outputs  # the pooled quarter with its indices of 8 bytes
        before = layer
    return VisionModel(
        id=network.id,
        title=network.id,
        parameters=parameter_count(network),
        image_size=image_size,
        forward_flops=float(forward_flops(network, image_size)),
        dense_flops=float(training_flops(network, image_size)),
        grouped_flops=0.0,
        convolution_elements=moved,
        matrix_elements=0.0,
        depthwise_elements=0.0,
        pointwise_elements=pointwise,
        saved_elements=saved,
        operators=kernels,
        source="probes/bench/resnet.py",
        date="2026-11",
    )
