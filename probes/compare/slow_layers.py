"""Which layer between the ranks is slow, from an all-reduce over each of them alone and over all together.
Pure.

`nvlink` is NVLink alone, `host-memory` the host's memory (where GPUs have no NVLink), `nic` the NICs alone,
`all` what NCCL takes by itself. Each is a bus bandwidth and compares with its own reference: a layer is only
slow beside what it should reach.
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
"""NCCL's transports that belong to a layer, by the first part of their names in its log."""
_ON_THE_CPU = "NET/Socket"


class LayerVerdict(Record, kw_only=True):
    """What the bandwidths of the layers say together."""

    slow: tuple[Layer, ...] = ()
    shares: dict[str, float] = {}
    """Measured over reference, of the layers that have both."""
    because: str = ""
    """One sentence for people."""


def slow_layer(
    measured: Mapping[Layer, float], references: Mapping[Layer, float], limit: float = 0.9
) -> LayerVerdict:
    """Layers whose share of their reference is below `limit`; bandwidths in bytes/s.

    Where one layer alone is slow, a slow `all` follows from it and is not named. Where every single layer is
    fine and `all` is not, the fault is in what joins them: the algorithm that NCCL chose, its channels, or a
    setting. Without a reference a layer is not judged.
    """
    both = [layer for layer in LAYERS if measured.get(layer, 0.0) > 0 and references.get(layer, 0.0) > 0]
    shares: dict[str, float] = {layer: measured[layer] / references[layer] for layer in both}
    alone = tuple(layer for layer in LAYERS if layer != "all" and shares.get(layer, 1.0) < limit)
    if alone:
        told = " and ".join(f"{layer} alone reaches {shares[layer]:.0%} of what it should" for layer in alone)
        return LayerVerdict(slow=alone, shares=shares, because=told)
    if shares.get("all", 1.0) < limit:
        fine = ", ".join(layer for layer in shares if layer != "all")
        told = f"all layers together reach {shares['all']:.0%} of what they should"
        why = (
            f", though {fine} alone is fine: NCCL's choice of algorithm or a setting is the suspect"
            if fine
            else ""
        )
        return LayerVerdict(slow=("all",), shares=shares, because=told + why)
    judged = ", ".join(shares)
    return LayerVerdict(
        shares=shares, because=f"no layer is slow: {judged}" if judged else "no layer has a reference"
    )


def not_isolated(layer: Layer, transports: tuple[str, ...]) -> str:
    """What NCCL used beside the layer it was confined to; empty where it did as told. A switch can be ignored
    in silence.
    """
    others = [name for name in transports if name.split("/")[0] not in FAMILIES[layer]]
    if layer == "nic":
        others += [name for name in transports if name == _ON_THE_CPU]
    return ", ".join(others)
