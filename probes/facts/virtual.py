"""Detect whether the machine is virtual."""

from __future__ import annotations

from probes.facts import MachineFacts


def is_virtual(facts: MachineFacts) -> bool:
    """Return True if a hypervisor is named or the processor reports one; False also if both are unknown."""
    return isinstance(facts.container.virtualization, str) or facts.cpu.virtualization_flag is True
