"""Check that the host's name resolves to an address that other nodes can reach.

Launchers put the name of the first node into MASTER_ADDR, and Gloo takes the address of its own name. Debian
writes the name with 127.0.1.1 into /etc/hosts. Source: vllm-project/vllm#7074; sgl-project/sglang#3226;
Debian reference, the hostname resolution.
"""

from __future__ import annotations

import shlex

from probes.base.record import Unknown, known, value_or
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="hostname-address",
    why="A node whose name leads to a loopback address offers other nodes an address that leads to "
    "themselves.",
)


def hostname_address(evidence: Evidence) -> Finding:
    naming = evidence.facts.naming
    name = value_or(evidence.facts.hostname, "the host's name")
    if isinstance(naming.addresses, Unknown):
        return JUDGE.undetermined(
            HOST, naming.addresses, what="the address of the host's name", evidence=naming.evidence
        )
    reachable = [address for address in naming.addresses if not _is_loopback(address)]
    if reachable:
        return JUDGE.passed(
            HOST,
            "the host's name leads to an address",
            observed=", ".join(reachable),
            evidence=naming.evidence,
        )
    remedy = Remedy(
        text="For several nodes put an address of the network beside the name in /etc/hosts, or give the "
        "launcher an address.",
        command=f"getent ahosts {shlex.quote(name)}" if known(evidence.facts.hostname) else "",
    )
    return JUDGE.warned(
        HOST,
        "the host's name leads to itself" if naming.addresses else "the host's name does not resolve",
        expected=f"an address of the network for {name}",
        observed=", ".join(naming.addresses) or "none",
        remedy=remedy,
        evidence=naming.evidence,
    )


def _is_loopback(address: str) -> bool:
    return address.startswith(("127.", "fe80:")) or address == "::1"
