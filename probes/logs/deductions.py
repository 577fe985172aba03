"""The ordered table of deductions: facts that several events reveal together."""

from collections.abc import Callable, Iterator

from probes.logs.deducing import bandwidth, course, networks
from probes.logs.deducing import gpu_deductions as gpus
from probes.logs.deducing import meeting_interfaces as interfaces
from probes.logs.deducing import parted_collectives as collectives
from probes.logs.deducing import variables_in_force as variables
from probes.logs.event import Event
from probes.logs.logged_events import LoggedEvents

Deduction = Callable[[LoggedEvents], Iterator[Event]]

DEDUCTIONS: tuple[Deduction, ...] = (
    *interfaces.DEDUCTIONS,
    *networks.DEDUCTIONS,
    *gpus.DEDUCTIONS,
    *collectives.DEDUCTIONS,
    *variables.DEDUCTIONS,
    *bandwidth.DEDUCTIONS,
    *course.DEDUCTIONS,
)
"""All deductions; their events have the order of this table."""


def deduce(logged: LoggedEvents) -> list[Event]:
    """Return all deduced events."""
    return [event for deduction in DEDUCTIONS for event in deduction(logged)]
