"""Does the kernel log say that a network card failed?

A driver that gives a card up leaves the node without it until a reset; one whose queue hangs mends itself or
goes on to hang. Source: Linux, drivers/net/ethernet/mellanox/mlx5/core/health.c; NVIDIA/NVSentinel, NIC
health.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST, events_of
from probes.reading.pci.paths import names_of

JUDGE = Judge(
    check_id="nic-driver",
    why="A card that its driver has given up takes its rail, and every job on it, down.",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    events = yield from events_of(JUDGE, evidence)
    if events is None:
        return
    names = {address.partition(".")[0]: name for address, name in names_of(evidence.facts).items()}
    found = [event for event in events if event.kind == "nic-fault" and not event.settled]
    for event in found:
        subject = HOST if event.device is None else names.get(event.device, event.device)
        times = f"{event.count} times: " if event.count > 1 else ""
        say = JUDGE.failed if event.fatal is True else JUDGE.warned
        yield say(
            subject,
            "the driver has given the card up"
            if event.fatal is True
            else "a queue or command of the card hung",
            expected="no such message",
            observed=times + event.message,
            remedy=Remedy(
                text="Drain the node and reset the card or reboot; update its firmware and driver if it comes back."
                if event.fatal is True
                else "Look whether traffic goes on; compare firmware and driver with the vendor's notes if it comes back."
            ),
            evidence=event.evidence,
        )
    if not found:
        yield JUDGE.passed(HOST, "no driver complains of its card")
