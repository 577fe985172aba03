"""Decide whether a machine has the parts that a check is about. If not, the check does not apply."""

from __future__ import annotations

from collections.abc import Callable

from probes.base.record import Reason, Unknown
from probes.base.table_rows import Need
from probes.facts import MachineFacts
from probes.judging.findings import Evidence
from probes.judging.policies.policy import Policy
from probes.judging.reporting import NO_GPU, has_no_gpu


def missing(needs: tuple[Need, ...], evidence: Evidence) -> str | None:
    """Return why a check with these needs does not apply; None if it does or if this is unknown."""
    for need in needs:
        words, is_missing = _RULES[need]
        if is_missing(evidence):
            return words
    return None


def _nothing_in(field: Callable[[MachineFacts], tuple[object, ...] | Unknown]) -> Callable[[Evidence], bool]:
    """Return a test that is true if nobody looked or there is nothing. A lack of permission is not true."""

    def is_missing(evidence: Evidence) -> bool:
        value = field(evidence.facts)
        return value.reason is Reason.NOT_RECORDED if isinstance(value, Unknown) else not value

    return is_missing


def _is_unlogged(evidence: Evidence) -> bool:
    events = evidence.facts.events
    return isinstance(events, Unknown) and events.reason is Reason.NOT_RECORDED


_RULES: dict[Need, tuple[str, Callable[[Evidence], bool]]] = {
    "gpus": (NO_GPU, lambda evidence: has_no_gpu(evidence.facts)),
    "nics": ("this machine has no RDMA port", lambda evidence: evidence.facts.nics == ()),
    "logs": ("no log was read", _is_unlogged),
    "diagnoses": ("no diagnosis of another tool was given", _nothing_in(lambda facts: facts.diagnoses)),
    "tools": ("no measurement of another tool was given", _nothing_in(lambda facts: facts.tool_results)),
    "fabric-discovery": (
        "no discovery of the fabric was given",
        _nothing_in(lambda facts: facts.fabric_ports),
    ),
    "switches": ("no state of a switch was given", _nothing_in(lambda facts: facts.fabric_switches)),
    "container": (
        "this machine is not a container",
        lambda evidence: evidence.facts.container.runtime is None,
    ),
    "measurements": (
        "nothing was measured",
        lambda evidence: not evidence.measurements and not evidence.bench_failures,
    ),
    "baselines": ("no earlier run is known", lambda evidence: not evidence.baselines),
    "policy": ("no policy is given", lambda evidence: evidence.policy == Policy()),
}
