"""Decisions of a plan: of the user if pinned, else of rigtune."""

from probes.base.record import EvidenceRef
from recipes.job.pins import Pins
from recipes.machine.cluster_records import Basis
from recipes.planning.plan import Choice, Decision


def decision(
    name: str,
    value: str,
    pin: object,
    *,
    basis: Basis,
    because: str,
    alternatives: tuple[str, ...] = (),
    source: str = "",
) -> Decision:
    """Return a decision; a pinned one is the user's."""
    if pin is not None:
        basis, because = "user", f"you fixed it; {because}"
    evidence = (EvidenceRef(source="rule", key=source),) if source else ()
    return Decision(
        name=name, value=value, basis=basis, because=because, alternatives=alternatives, evidence=evidence
    )


def share_decision(chosen: Choice, pins: Pins, basis: Basis) -> tuple[Decision, ...]:
    """Return the decision about the part of the layers that is recomputed; none if it is all of them."""
    if pins.recomputed_share is None and chosen.recomputed_share == 1.0:
        return ()
    because = "the smallest part of the layers with which the layout fits"
    value = f"{chosen.recomputed_share:g}"
    return (decision("recomputed_share", value, pins.recomputed_share, basis=basis, because=because),)
