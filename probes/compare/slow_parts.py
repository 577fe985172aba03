"""Detect what is slow: a layer between ranks; the device, host or pair that explains slow pairs; or large
messages.

Layers are judged by one all-reduce over each layer alone and one over all layers. `nvlink` uses only NVLink,
`host-memory` only the host's memory (for GPUs without NVLink), `nic` only the NICs, and `all` the transports
that NCCL chooses. A layer is slow only in comparison with its own reference, because bandwidths differ.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from probes.base.grouping import largest
from probes.base.record import Record
from probes.base.statistics import outliers, quantile
from probes.compare.reference_rows import load_references

Layer = Literal["all", "nvlink", "host-memory", "nic"]
LAYERS: tuple[Layer, ...] = ("all", "nvlink", "host-memory", "nic")
FAMILIES: dict[Layer, tuple[str, ...]] = {
    "all": ("P2P", "NVLS", "SHM", "NET", "COLLNET"),
    "nvlink": ("P2P", "NVLS"),
    "host-memory": ("SHM",),
    "nic": ("NET",),
}
"""NCCL's transports in each layer, by the first part of their names in NCCL's log."""
_ON_THE_CPU = "NET/Socket"
Pair = frozenset[str]
"""A pair of names, in either order."""

_ENDS = re.compile(r"(.+?)\s*(?:->|<->|→|↔|-)\s*(GPU\d+|rank \d+)")
_ARROW = re.compile(r" - |\s*<?->\s*|\s*[→↔]\s*")
Point = TypeVar("Point")


class LayerVerdict(Record, kw_only=True):
    """The combined verdict over the layers."""

    slow: tuple[Layer, ...] = ()
    shares: dict[str, float] = {}
    """Measured rate divided by reference, for the layers that have both."""
    because: str = ""
    """Explanation in one sentence."""


def slow_layer(
    measured: Mapping[Layer, float], references: Mapping[Layer, float], limit: float = 0.9
) -> LayerVerdict:
    """Return the layers whose share of their reference is below `limit`; bandwidths are in bytes/s.

    If a single layer is slow, it also explains a slow `all`, which is then not returned. If every single
    layer is fast and `all` is slow, the fault is in their combination: NCCL's choice of algorithm, its
    channels, or a setting. A layer without a reference is not judged.
    """
    both = [layer for layer in LAYERS if measured.get(layer, 0.0) > 0 and references.get(layer, 0.0) > 0]
    shares: dict[str, float] = {layer: measured[layer] / references[layer] for layer in both}
    alone = tuple(layer for layer in LAYERS if layer != "all" and shares.get(layer, 1.0) < limit)
    if alone:
        sentence = " and ".join(
            f"{layer} alone reaches {shares[layer]:.0%} of its reference" for layer in alone
        )
        return LayerVerdict(slow=alone, shares=shares, because=sentence)
    if shares.get("all", 1.0) < limit:
        fine = ", ".join(layer for layer in shares if layer != "all")
        sentence = f"all layers together reach {shares['all']:.0%} of their reference"
        why = (
            f", although {fine} alone is fast: NCCL's choice of algorithm or a setting may be the cause"
            if fine
            else ""
        )
        return LayerVerdict(slow=("all",), shares=shares, because=sentence + why)
    judged = ", ".join(shares)
    return LayerVerdict(
        shares=shares, because=f"no layer is slow: {judged}" if judged else "no layer has a reference"
    )


def not_isolated(layer: Layer, transports: tuple[str, ...]) -> str:
    """Return the transports that NCCL used outside the selected layer; empty if there are none.

    NCCL may ignore a setting without a message. TCP sockets do not belong to the layer `nic`.
    """
    others = [name for name in transports if name.split("/")[0] not in FAMILIES[layer]]
    if layer == "nic":
        others += [name for name in transports if name == _ON_THE_CPU]
    return ", ".join(others)


def pair_of(subject: str) -> Pair | None:
    """Return the two ends of a pair such as `GPU0-GPU3`, `rank 0-rank 3` or `GPU0->GPU3`.

    Host names may contain a dash, so that ` - ` or an arrow separates hosts.
    """
    match = _ENDS.fullmatch(subject)
    ends = [match[1], match[2]] if match else _ARROW.split(subject)
    return frozenset(ends) if len(ends) == 2 and len(set(ends)) == 2 else None


def blamed(slow: Collection[Pair], measured: Collection[Pair]) -> tuple[str | Pair, ...]:
    """Return the members whose pairs are all slow, and the slow pairs that no member explains.

    A member needs two pairs or more: a single slow pair does not show which end is bad. If the pairs of all
    members are slow, no member is the cause.
    """
    pairs_of = {name: [pair for pair in measured if name in pair] for name in frozenset().union(*measured)}
    members = sorted(
        name for name, own in pairs_of.items() if len(own) > 1 and all(pair in slow for pair in own)
    )
    if len(members) == len(pairs_of):
        members = []
    return (*members, *sorted((pair for pair in slow if not pair & set(members)), key=sorted))


class SlowPart(NamedTuple):
    """A member of many pairs, or one pair, that is slower than its equals."""

    part: str | Pair
    value: float
    """Rate of the pair, or of the member's best pair."""
    usual: float
    """Median rate of the part's equals."""

    @property
    def share(self) -> float:
        return self.value / self.usual if self.usual else 0.0


def slow_parts(rates: Mapping[Pair, float], *, least_difference: float) -> tuple[SlowPart, ...]:
    """Return the slow members, then the slow pairs, among pairs that should be equal.

    A member is represented by its best pair: a good member has a fast pair with another good member, a bad
    member has none. This is true even if a bad member slows down most pairs, as one member of three does.
    With only two members, the slow one cannot be identified.
    """
    best = largest((name, rate) for pair, rate in rates.items() for name in pair)
    bad = outliers(best, worse="low", least_difference=least_difference)
    members = {outlier.name for outlier in bad}
    remaining = {"\0".join(sorted(pair)): rate for pair, rate in rates.items() if not pair & members}
    slow = outliers(remaining, worse="low", least_difference=least_difference)
    return (
        *(SlowPart(outlier.name, outlier.value, _median(best)) for outlier in bad),
        *(SlowPart(frozenset(pair.name.split("\0")), pair.value, _median(remaining)) for pair in slow),
    )


def _median(rates: Mapping[str, float]) -> float:
    return quantile(list(rates.values()), 0.5)


def words_of_part(part: str | Pair) -> str:
    """Return `GPU3` for a member, or `GPU0-GPU3` for a pair."""
    return part if isinstance(part, str) else "-".join(sorted(part, key=lambda name: (len(name), name)))


class Collapse(NamedTuple, Generic[Point]):
    """The largest drop in a curve."""

    peak: Point
    low: Point
    share: float
    """Rate at the low point divided by the highest rate before this point."""

    @property
    def fails(self) -> bool:
        return self.share < load_references().collapse.fail_fraction


def collapse_of(points: Sequence[tuple[float, float, Point]]) -> Collapse[Point] | None:
    """Return the message whose rate drops furthest below the rate of a smaller message.

    None if no rate is below the fraction `warn_fraction` of an earlier rate; sizes below `smallest_bytes` are
    ignored. Points are bytes, rate, and the caller's own identification of the point.
    """
    rule = load_references().collapse
    best: tuple[float, Point] | None = None
    worst: Collapse[Point] | None = None
    for size_bytes, rate, point in sorted(points, key=lambda entry: entry[0]):
        if size_bytes < rule.smallest_bytes:
            continue
        if best is None or rate > best[0]:
            best = (rate, point)
        elif best[0] > 0:
            share = rate / best[0]
            if share < rule.warn_fraction and (worst is None or share < worst.share):
                worst = Collapse(best[1], point, share)
    return worst
