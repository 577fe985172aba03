"""Whether the machine is a virtual one, by all that says so."""

from __future__ import annotations

from probes.facts import MachineFacts


def is_virtual(facts: MachineFacts) -> bool:
    """True where the hypervisor is named or the processor has its bit set; False also where nobody could
    tell.
    """
    return isinstance(facts.container.virtualization, str) or facts.cpu.virtualization_flag is True
