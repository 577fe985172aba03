"""Detect the slow layer between ranks, from an all-reduce over each layer alone and over all together. Pure.

`nvlink` is NVLink alone, `host-memory` the host's memory (for GPUs without NVLink), `nic` the NICs alone,
`all` the transports that NCCL chooses. Each has a bus bandwidth and its own reference: a layer is slow only
in comparison with its reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from probes.base.record import Record

Layer = Literal["all", "nvlink", "host-memory", "nic"]
LAYERS: tuple[Layer, ...] = ("all", "nvlink", "host-memory", "nic")
FAMILIES: dict[Layer, tuple[str, ...]] = {
    "all": ("P2P", "NVLS", "SHM", "NET", "COLLNET"),
    "nvlink": ("P2P", "NVLS"),
    "host-memory": ("SHM",),
    "nic": ("NET",),
}
"""NCCL's transports in each layer, by the first part of their names in its log."""
_ON_THE_CPU = "NET/Socket"


class LayerVerdict(Record, kw_only=True):
    """The combined verdict over the layers."""

    slow: tuple[Layer, ...] = ()
    shares: dict[str, float] = {}
    """Measured over reference, for the layers that have both."""
    because: str = ""
    """Explanation in one sentence."""


def slow_layer(
    measured: Mapping[Layer, float], references: Mapping[Layer, float], limit: float = 0.9
) -> LayerVerdict:
    """Return the layers whose share of their reference is below `limit`; bandwidths are in bytes/s.

    If a single layer is slow, a slow `all` follows from it and is not named. If every single layer is fast
    and `all` is slow, the fault is in their combination: NCCL's choice of algorithm, its channels, or a
    setting. A layer without a reference is not judged.
    """
    both = [layer for layer in LAYERS if measured.get(layer, 0.0) > 0 and references.get(layer, 0.0) > 0]
    shares: dict[str, float] = {layer: measured[layer] / references[layer] for layer in both}
    alone = tuple(layer for layer in LAYERS if layer != "all" and shares.get(layer, 1.0) < limit)
    if alone:
        sentence = " and ".join(
            f"{layer} alone reaches {shares[layer]:.0%} of what it should" for layer in alone
        )
        return LayerVerdict(slow=alone, shares=shares, because=sentence)
    if shares.get("all", 1.0) < limit:
        fine = ", ".join(layer for layer in shares if layer != "all")
        sentence = f"all layers together reach {shares['all']:.0%} of what they should"
        why = (
            f", though {fine} alone is fine: NCCL's choice of algorithm or a setting is the suspect"
            if fine
            else ""
        )
        return LayerVerdict(slow=("all",), shares=shares, because=sentence + why)
    judged = ", ".join(shares)
    return LayerVerdict(
        shares=shares, because=f"no layer is slow: {judged}" if judged else "no layer has a reference"
    )


def not_isolated(layer: Layer, transports: tuple[str, ...]) -> str:
    """Return the transports that NCCL used outside the selected layer; empty if it used none.

    NCCL may ignore a setting without a message.
    """
    others = [name for name in transports if name.split("/")[0] not in FAMILIES[layer]]
    if layer == "nic":
        others += [name for name in transports if name == _ON_THE_CPU]
    return ", ".join(others)
