"""States of nodes and parts: suspect, confirmed, quarantined, repaired, on probation; with a brake.

A state follows from observations alone, and the same observation never changes it twice. No function here
acts on a node: commands for the scheduler are printed for a person.
"""

import datetime
from collections.abc import Iterable
from typing import Literal

import msgspec

from probes.base.record import Record
from probes.base.units import plural
from probes.fleet.comparing.limits import limit

Condition = Literal["healthy", "suspect", "confirmed", "quarantined", "repaired", "probation"]
_OUT = ("confirmed", "quarantined")
"""Conditions in which a failure has one effect: if its check led to the state, `passed` becomes 0."""
OUT_OF_SERVICE: tuple[Condition, ...] = ("confirmed", "quarantined", "repaired")
"""Conditions in which jobs should not get the node."""
MOST_FAILURES = 200
"""Maximum number of failed checks, and of subjects of a check, that count in the answer of one node.

It also limits the checks of one subject under suspicion: a check above a lower limit could never confirm.
"""
_MOST_EARLIER = 64
"""Maximum number of counted observations of earlier moments that a state records, for people to read.

All observations of the newest moment are recorded, so that a repeated run counts none of them twice. An older
observation needs no record, because the state ignores it by its time.
"""


class PartState(Record, kw_only=True):
    """The state of a node or of one of its parts."""

    subject: str
    """Name of the node, or id of the part."""
    condition: Condition
    since: datetime.datetime
    check_id: str = ""
    """Check that led to the state; a pass of another check does not end the state."""
    reason: str = ""
    evidence: tuple[str, ...] = ()
    """Ids of the observations that were counted, the newest last; many older ones are dropped."""
    counted_at: datetime.datetime | None = None
    """Moment of the newest counted observation; an older one changes nothing."""
    suspected: dict[str, datetime.datetime] = {}
    """First failure of each check that has failed once and has not passed since."""
    bad_since: datetime.datetime | None = None
    """First failure since the subject was last healthy; measurements after it are not used for comparison."""
    passed: int = 0
    """Number of passes of the check in a row after a repair or a proof, where one pass is not enough."""
    is_proved: bool = False
    """Whether a fact, and not a repeated measurement, confirmed the state."""
    was_quarantined: bool = False
    """True if the node was quarantined since it was last healthy, so that only a repair clears it."""
    expires: datetime.datetime | None = None
    """End of the probation, or of a suspicion if no second failure follows."""
    confirmed_at: tuple[datetime.datetime, ...] = ()
    """Moments of all confirmations, which show parts that fail again and again."""

    @property
    def awaited(self) -> tuple[str, ...]:
        """Checks whose pass may change the state or end a suspicion."""
        if self.condition == "healthy" or (self.condition == "confirmed" and self.was_quarantined):
            return ()
        return tuple(dict.fromkeys((self.check_id, *self.suspected)))


class Observation(Record, kw_only=True):
    """One result of a check for a subject."""

    id: str
    """Id of the run with the check; unique among the observations of one subject."""
    subject: str
    check_id: str
    at: datetime.datetime
    result: Literal["pass", "fail", "unknown"]
    is_fact: bool = False
    """True if one failure is proof (a missing GPU, a failed remapping), not a measurement that may vary."""
    reason: str = ""


def observed(state: PartState | None, observation: Observation) -> PartState:
    """Return the state after an observation.

    An observation that was counted before or is older than the newest counted one, and an unknown result,
    change nothing. A measurement must fail twice, at least `retest_gap_s` and less than `suspect_s` apart; a
    fact confirms at once. After a repair and on probation, one failure of the same check confirms again.
    """
    now = state or PartState(subject=observation.subject, condition="healthy", since=observation.at)
    is_old = now.counted_at is not None and observation.at < now.counted_at
    if observation.result == "unknown" or observation.id in now.evidence or is_old:
        return now
    kept = now.evidence if observation.at == now.counted_at else now.evidence[-_MOST_EARLIER:]
    counted = msgspec.structs.replace(
        lapsed(now, observation.at),
        evidence=(*kept, observation.id),
        counted_at=observation.at,
    )
    return (_failed if observation.result == "fail" else _passed)(counted, observation)


def _failed(state: PartState, observation: Observation) -> PartState:
    if state.condition in _OUT:
        return msgspec.structs.replace(state, passed=0) if observation.check_id == state.check_id else state
    check_id, at = observation.check_id, observation.at
    first = state.suspected.get(check_id)
    is_again = first is not None and (at - first).total_seconds() >= limit("retest_gap_s")
    is_back = state.condition in ("probation", "repaired") and check_id == state.check_id
    state = msgspec.structs.replace(state, bad_since=state.bad_since or at)
    if observation.is_fact or is_again or is_back:
        state = msgspec.structs.replace(state, suspected=_without(state, check_id))
        confirmed_at = (*state.confirmed_at, at)
        proved = observation.is_fact
        return _moved(
            state,
            "confirmed",
            observation,
            confirmed_at=confirmed_at,
            passed=0,
            is_proved=proved,
            expires=None,
        )
    if first is None and len(state.suspected) < MOST_FAILURES:
        state = msgspec.structs.replace(state, suspected={**state.suspected, check_id: at})
    if state.condition != "healthy":
        return state
    return _moved(state, "suspect", observation, expires=_end_of_suspicion(at))


def _passed(state: PartState, observation: Observation) -> PartState:
    state = msgspec.structs.replace(state, suspected=_without(state, observation.check_id))
    if observation.check_id != state.check_id:
        return state
    if state.condition == "suspect":
        return _cleared(state, observation.at)
    if state.condition == "confirmed" and not state.was_quarantined and not state.is_proved:
        return _cleared(state, observation.at)
    if state.condition == "probation" and state.expires is not None and observation.at >= state.expires:
        return _cleared(state, observation.at)
    if state.condition == "repaired" or (state.condition == "confirmed" and not state.was_quarantined):
        passed = state.passed + 1
        if passed < limit("passes_after_repair"):
            return msgspec.structs.replace(state, passed=passed)
        end = observation.at + datetime.timedelta(seconds=limit("probation_s"))
        return _moved(state, "probation", observation, passed=passed, expires=end)
    return state


def _without(state: PartState, check_id: str) -> dict[str, datetime.datetime]:
    return {name: at for name, at in state.suspected.items() if name != check_id}


def _cleared(state: PartState, at: datetime.datetime) -> PartState:
    """Return a healthy state, or a suspect one if another check failed and has not passed since."""
    state = msgspec.structs.replace(
        state, since=at, condition="healthy", expires=None, reason="", was_quarantined=False, is_proved=False
    )
    if not state.suspected:
        return msgspec.structs.replace(state, bad_since=None)
    check_id, since = next(iter(state.suspected.items()))
    return msgspec.structs.replace(
        state, condition="suspect", check_id=check_id, bad_since=since, expires=_end_of_suspicion(since)
    )


def lapsed(state: PartState, now: datetime.datetime) -> PartState:
    """Return the state without the suspicions that have expired."""
    kept = {name: first for name, first in state.suspected.items() if now < _end_of_suspicion(first)}
    if len(kept) == len(state.suspected):
        return state
    state = msgspec.structs.replace(state, suspected=kept)
    return _cleared(state, now) if state.condition == "suspect" and state.check_id not in kept else state


def _end_of_suspicion(first: datetime.datetime) -> datetime.datetime:
    return first + datetime.timedelta(seconds=limit("suspect_s"))


def _moved(state: PartState, condition: Condition, observation: Observation, **changes: object) -> PartState:
    values: dict[str, object] = {
        "condition": condition,
        "since": observation.at,
        "check_id": observation.check_id,
        "reason": observation.reason,
        **changes,
    }
    return msgspec.structs.replace(state, **values)


def quarantined(state: PartState, at: datetime.datetime) -> PartState:
    """Return the state after the node was taken out of service."""
    return msgspec.structs.replace(state, condition="quarantined", since=at, was_quarantined=True)


def repaired(state: PartState, at: datetime.datetime) -> PartState:
    """Return the state after a person has repaired the part; its check must pass before it trains again."""
    return msgspec.structs.replace(
        state, condition="repaired", since=at, counted_at=at, passed=0, suspected={}
    )


def is_lemon(state: PartState, now: datetime.datetime) -> bool:
    """Return whether the part failed so often that chance does not explain it."""
    window = datetime.timedelta(seconds=limit("lemon_window_s"))
    return sum(now - moment <= window for moment in state.confirmed_at) >= limit("lemon_failures")


def brake_reason(new: int, states: Iterable[PartState], size: int, now: datetime.datetime) -> str:
    """Return why `new` nodes must not be quarantined now in a site of `size` nodes; empty if they may be.

    The limits are `breaker_hour_share` of the site per hour (at least `breaker_hour_least` nodes) and
    `breaker_share` in all (at least one node), because more at once indicates a common cause or a broken
    check. `states` are those of the whole site, so that many small runs cannot drain more than one large run.
    """
    out = [state for state in states if state.condition == "quarantined"]
    recent = sum(now - state.since < datetime.timedelta(hours=1) for state in out)
    per_hour = max(int(limit("breaker_hour_least")), int(limit("breaker_hour_share") * size)) - recent
    in_all = max(1, int(limit("breaker_share") * size)) - len(out)
    if new <= max(0, min(per_hour, in_all)):
        return ""
    before = f"{recent} in the last hour" if per_hour <= in_all else f"{len(out)} of {size}"
    return (
        f"{plural(new, 'node')} held back; quarantined before: {before}. So many nodes indicate a common "
        "cause or a broken check; look at what they share before you drain them"
    )
