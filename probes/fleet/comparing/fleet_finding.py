"""Results of the comparison of nodes."""

from typing import Literal

from probes.base.record import Record

Kind = Literal[
    "slow-part", "suspect-part", "slower-than-before", "bursts", "common-cause", "common-mode", "two-humps",
    "few-peers", "minority", "mixed", "mixed-within-node",
]  # fmt: skip


class FleetFinding(Record, kw_only=True):
    """One result of the comparison, for a part, a node or a group of nodes."""

    kind: Kind
    subject: str
    """`node GPU3`, or `attribute = value` of a common cause or a minority."""
    nodes: tuple[str, ...]
    metric: str = ""
    change: float | None = None
    """Relative difference from the peers or from the past; negative for worse. None for attributes."""
    deviations: float | None = None
    """The same difference in robust standard deviations or standard errors."""
    summary: str
