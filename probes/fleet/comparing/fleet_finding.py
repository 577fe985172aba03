"""Results of the comparison of nodes."""

from typing import Literal

from probes.base.record import Record

Kind = Literal[
    "slow-part", "suspect-part", "slower-than-before", "bursts", "common-cause", "common-mode", "two-humps",
    "few-peers", "minority", "mixed", "mixed-within-node",
]  # fmt: skip


"""Kind of a finding.

- `slow-part`, `suspect-part`: a part is slower than its peers, certainly or perhaps;
- `slower-than-before`: a part is slower than in its own earlier runs;
- `bursts`: a part has the usual median, but some slow samples;
- `common-cause`: the nodes with one value of an attribute are slower than the others;
- `common-mode`: the parts of a group became slower together;
- `two-humps`: the values of a group form two separate groups;
- `few-peers`: a group is too small for a comparison;
- `minority`, `mixed`: an attribute differs on a few nodes, or has no majority;
- `mixed-within-node`: the parts of one node differ in an attribute.
"""


class FleetFinding(Record, kw_only=True):
    """One result of the comparison, for a part, a node or a group of nodes."""

    kind: Kind
    subject: str
    """`node GPU3`, `attribute = value` of a common cause or a minority, or the name of a group."""
    nodes: tuple[str, ...]
    metric: str = ""
    change: float | None = None
    """Relative difference from the peers or from the past; negative for worse. None without a rate."""
    deviations: float | None = None
    """The same difference in robust standard deviations or standard errors."""
    summary: str
