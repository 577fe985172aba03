"""Do the counters of the ports tell of errors?

They count since the driver was loaded or somebody cleared them, so that numbers alone are history: a port is
only called out, as a warning, beyond a limit that use over a longer time would not reach. Whether a counter
rises now shows by comparing two readings. Source: NVIDIA/NVSentinel, NIC health
(`probes/data/thresholds.toml`, port_counters); NCCL user guide, troubleshooting.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from probes.base.record import Reason, Unknown
from probes.catalogue.thresholds import CounterLimit
from probes.facts import Nic
from probes.facts.named import count_of
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, Judged, judge_each, nics_of, subject_name

LINK_DOWNED = Judge(
    check_id="nic-link-downed",
    why="A link that goes down during a collective ends the job after the retries.",
)
SYMBOL_ERRORS = Judge(
    check_id="nic-symbol-errors", why="Symbol errors are the first sign of a cable or transceiver that fails."
)
RECEIVE_ERRORS = Judge(
    check_id="nic-receive-errors", why="Packets that arrive damaged are sent again, and everybody waits."
)
DISCARDS = Judge(
    check_id="nic-discards",
    why="Packets that are thrown away at a full port are sent again: the fabric is congested.",
)
RETRIES = Judge(
    check_id="nic-retries",
    why="Where retries run out NCCL ends with an error; many of them are seconds lost.",
)
CONGESTION = Judge(
    check_id="roce-congestion",
    why="A sender that starts slowly again after each loss never reaches its rate.",
)


def nic_link_downed(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(LINK_DOWNED, evidence, ("link_downed",), "links went down rarely")


def nic_symbol_errors(evidence: Evidence) -> Iterator[Finding]:
    names = ("symbol_error", "link_error_recovery", "local_link_integrity_errors")
    yield from _judge(SYMBOL_ERRORS, evidence, names, "few symbol errors")


def nic_receive_errors(evidence: Evidence) -> Iterator[Finding]:
    names = ("port_rcv_errors", "excessive_buffer_overrun_errors")
    yield from _judge(RECEIVE_ERRORS, evidence, names, "few receive errors")


def nic_discards(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(DISCARDS, evidence, ("port_xmit_discards",), "few packets were thrown away")


def nic_retries(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(
        RETRIES, evidence, ("rnr_nak_retry_err", "local_ack_timeout_err"), "few retries ran out"
    )


def roce_congestion(evidence: Evidence) -> Iterator[Finding]:
    yield from _judge(
        CONGESTION,
        evidence,
        ("roce_slow_restart",),
        "RoCE traffic is rarely throttled",
        link_layer="Ethernet",
    )


def _judge(
    judge: Judge, evidence: Evidence, names: tuple[str, ...], good: str, link_layer: str | None = None
) -> Iterator[Finding]:
    nics = yield from nics_of(judge, evidence)
    ports = [nic for nic in nics if link_layer is None or nic.link_layer == link_layer]
    if not ports:
        if nics:
            yield judge.skipped(HOST, f"no port is {link_layer}")
        return
    limits = [limit for limit in evidence.thresholds.port_counters if limit.name in names]
    yield from judge_each(
        judge, ports, lambda nic: _judge_port(judge, nic, limits), what="the error counters", good=good
    )


def _judge_port(judge: Judge, nic: Nic, limits: list[CounterLimit]) -> Judged:
    if isinstance(nic.counters, Unknown):
        return nic.counters
    read = [(limit, count) for limit in limits if (count := count_of(nic.counters, limit.name)) is not None]
    if not read:
        return Unknown(
            Reason.NOT_SUPPORTED, f"the port has no counter {' or '.join(limit.name for limit in limits)}"
        )
    beyond = [(limit, count) for limit, count in read if count > limit.value]
    if beyond:
        return judge.warned(
            subject_name(nic),
            "; ".join(f"{limit.name} is high" for limit, _ in beyond),
            expected=", ".join(f"{limit.name} at most {limit.value}" for limit, _ in beyond),
            observed=", ".join(f"{limit.name} {count}" for limit, count in beyond),
            remedy=Remedy(
                text="Read it again under load: if it rises, replace cable and transceiver, and look at the switch port.",
                command=f"perfquery -x -C {shlex.quote(nic.name)} -P {nic.port}",
            ),
            evidence=tuple(limit.ref for limit, _ in beyond),
        )
    seen = [f"{limit.name} {count}" for limit, count in read if count]
    return ", ".join(seen)
