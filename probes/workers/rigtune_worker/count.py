"""Count the parameters, FLOPs, traffic, memory kept for the backward pass and kernels of the user's own
module, without a GPU.

    python -m rigtune_worker.count path/to/file.py:function --out counts.json [--folder DIR]

The function builds the module and the module's inputs on `device`, which is "meta":

    def function(device, micro_batch):       # micro_batch may be left out, or have a default
        ...
        return module, inputs                # a tensor, or a tuple or dict of arguments

The file of `--out` gets one JSON object: `event` is `counted` with the figures, or `failure` with `kind` and
`message`.
"""

from __future__ import annotations

import argparse
import json
import os
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten

from .counting import count_step
from .own import OwnFunction, users_errors
from .protocol import CaseError, SetupError
from .worker_process import die_with_parent, run_and_leave

_RETURN = "return the module and its inputs: module, inputs"


class OwnModule(OwnFunction):
    """The function that returns the user's module."""

    def build(self, micro_batch: int) -> Any:
        """Return module and inputs on the meta device. Raises CaseError for any other result."""
        with torch.device("meta") as device:
            built = self.call(device, micro_batch)
        if not (
            isinstance(built, (tuple, list)) and len(built) == 2 and isinstance(built[0], torch.nn.Module)
        ):
            raise CaseError(
                "unsupported", "%s returned %s: %s" % (self.target, type(built).__name__, _RETURN)
            )
        module, inputs = built
        values = [*module.parameters(), *module.buffers(), *tree_flatten(inputs)[0]]
        tensors = [value for value in values if isinstance(value, Tensor)]
        elsewhere = next((tensor for tensor in tensors if tensor.device.type != "meta"), None)
        if elsewhere is not None:
            raise CaseError(
                "unsupported",
                "%s built on %s: build the module on the device that the function "
                "receives" % (self.target, elsewhere.device),
            )
        return module, inputs

    def counts(self, micro_batch: int) -> dict[str, float]:
        """Return the counts of one step with `micro_batch` samples."""
        module, inputs = self.build(micro_batch)
        module.train()

        def loss() -> Tensor:
            with torch.device("meta"):
                if isinstance(inputs, dict):
                    out = module(**inputs)
                else:
                    out = module(*inputs) if isinstance(inputs, (tuple, list)) else module(inputs)
            return scalar(out, self.target)

        with users_errors(self.target):
            return count_step(loss, [*module.parameters(), *module.buffers()])


def scalar(out: Any, target: str) -> Tensor:
    """Return the value whose gradients are computed.

    The value is the module's `loss`, else its first differentiable output if that is a scalar, else the sum
    of all differentiable outputs. Raises CaseError if there is no such value.
    """
    loss = out.get("loss") if isinstance(out, dict) else getattr(out, "loss", None)
    if isinstance(loss, Tensor) and loss.requires_grad:
        return loss
    tensors = [leaf for leaf in tree_flatten(out)[0] if isinstance(leaf, Tensor) and leaf.requires_grad]
    if not tensors:
        raise CaseError(
            "unsupported", "the module of %s returned nothing that depends on its parameters" % target
        )
    return tensors[0] if tensors[0].dim() == 0 else sum(tensor.sum() for tensor in tensors)


def figures(own: OwnModule) -> dict[str, Any]:
    """Return parameters by data type, and the counts of one sample and of a step.

    Steps with the default and with twice the default micro-batch are counted; their difference gives the
    counts per sample. If the function takes no micro-batch, its whole step counts as one sample. The counts
    of a step also contain work that does not grow with the micro-batch, such as reads of weights.
    """
    micro_batch = own.default_micro_batch
    each = first = own.counts(micro_batch)
    if own.takes_micro_batch:
        second = own.counts(2 * micro_batch)
        each = {name: (second[name] - first[name]) / micro_batch for name in first}
    module, _ = own.build(micro_batch)
    parameters: dict[str, int] = {}
    for parameter in module.parameters():
        dtype = str(parameter.dtype).replace("torch.", "")
        parameters[dtype] = parameters.get(dtype, 0) + parameter.numel()
    trainable = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
    blocks = [size_of(block) for block in repeated_blocks(module)]
    return {
        "parameters": parameters,
        "trainable_parameters": trainable,
        "block_parameters": max(blocks, default=0),
        "root_parameters": size_of(module) - sum(blocks),
        "micro_batch": micro_batch,
        "takes_micro_batch": own.takes_micro_batch,
        "operators": first["operators"],
        "per_sample": each,
        "step": first,
    }


def size_of(module: torch.nn.Module) -> int:
    """Return the number of the module's parameters, each counted once."""
    return sum(parameter.numel() for parameter in module.parameters())


def repeated_blocks(module: torch.nn.Module) -> list[torch.nn.Module]:
    """Return the members of each outermost list whose members all have the same class: the layers that are
    usually wrapped for FSDP.
    """
    blocks: list[torch.nn.Module] = []
    for child in module.children():
        members = (
            list(child.children()) if isinstance(child, (torch.nn.ModuleList, torch.nn.Sequential)) else []
        )
        alike = len(members) > 1 and len({type(member) for member in members}) == 1
        blocks += members if alike and size_of(members[0]) > 0 else repeated_blocks(child)
    return blocks


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker.count", description="Count the user's own module."
    )
    parser.add_argument("target", help="module:function or path/to/file.py:function")
    parser.add_argument("--out", required=True, help="file for the answer")
    parser.add_argument("--folder", default="", help="working folder, for relative paths and imports")
    options = parser.parse_args()
    die_with_parent()
    out = os.path.abspath(options.out)
    try:
        answer = {"event": "counted", **figures(OwnModule(options.target, options.folder))}
    except (SetupError, CaseError) as error:
        kind = getattr(error, "kind", "unsupported")
        answer = {"event": "failure", "kind": kind, "message": str(error)}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(answer, file)
    return 0 if answer["event"] == "counted" else 1


if __name__ == "__main__":
    run_and_leave(main)
