"""Select the checks of the tier and of the operator's choice, and decide whether each check applies."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, get_args

import msgspec

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Reason, Unknown, quoted
from probes.base.table_rows import CheckRow, Group, Need, Tier
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Evidence
from probes.judging.policies.policy import Policy
from probes.judging.reporting import NO_GPU, has_no_gpu

GROUPS: tuple[str, ...] = get_args(Group)


class Selection(NamedTuple):
    """The checks to run, and the checks that are left out."""

    rows: tuple[CheckRow, ...]
    tier: Tier = "deep"
    deep_only: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()


def select(
    tier: Tier, only: Iterable[str] = (), skip: Iterable[str] = (), rows: Sequence[CheckRow] = CHECKS
) -> Selection:
    """Return the rows of `tier` that `only` names and `skip` does not.

    Both contain ids of checks or names of groups; an empty `only` stands for all checks. Raises UsageError
    for a name that does not exist, for a check in `only` that needs the deep tier, and if no check is left.
    """
    wanted, unwanted = tuple(only), tuple(skip)
    for option, names in (("--only", wanted), ("--skip", unwanted)):
        for name in names:
            _require_known(option, name, rows)
    chosen = [row for row in rows if (not wanted or _is_named(row, wanted)) and not _is_named(row, unwanted)]
    made = tuple(row for row in chosen if tier == "deep" or row.tier == "quick")
    left_out = tuple(row.id for row in chosen if tier == "quick" and row.tier == "deep")
    for check_id in left_out:
        if check_id in wanted:
            raise UsageError(f"the check {check_id} does not run in the tier {tier}", "add --tier deep")
    if not made:
        raise UsageError(
            "no check is left to run",
            "skip fewer checks with --skip, name others with --only, or use --tier deep",
        )
    kept = {row.id for row in chosen}
    return Selection(
        rows=made,
        tier=tier,
        deep_only=left_out,
        deselected=tuple(row.id for row in rows if row.id not in kept),
    )


def under_policy(rows: Sequence[CheckRow], policy: Policy) -> tuple[CheckRow, ...]:
    """Return the rows, with `required` changed as the policy states."""
    required = {
        **dict.fromkeys(policy.checks.required, True),
        **dict.fromkeys(policy.checks.not_required, False),
    }
    return tuple(
        msgspec.structs.replace(row, required=required[row.id])
        if required.get(row.id, row.required) != row.required
        else row
        for row in rows
    )


def _is_named(row: CheckRow, names: tuple[str, ...]) -> bool:
    return row.id in names or row.group in names


def _require_known(option: str, name: str, rows: Sequence[CheckRow]) -> None:
    ids = [row.id for row in rows]
    if name in ids or name in GROUPS:
        return
    rest = f"groups: {', '.join(GROUPS)}; `rigtune list checks` names the checks"
    raise UsageError(
        f"{option}: there is no check or group {quoted(name)}",
        did_you_mean(name, [*ids, *GROUPS]) or rest,
    )


def missing(needs: tuple[Need, ...], evidence: Evidence) -> str | None:
    """Return why a check with these needs does not apply; None if it applies or if this is unknown."""
    for need in needs:
        words, is_missing = _RULES[need]
        if is_missing(evidence):
            return words
    return None


def _nothing_in(field: Callable[[MachineFacts], tuple[object, ...] | Unknown]) -> Callable[[Evidence], bool]:
    """Return a test that is true if a list is empty or was not recorded, but false if reading it failed."""

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
    "policy": ("no policy is given, or it is empty", lambda evidence: evidence.policy == Policy()),
}
