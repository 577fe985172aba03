"""Parse /proc/driver/nvidia/gpus/*/numa_status: the NUMA node of a GPU's memory (POWER9, Grace)."""

from __future__ import annotations


def numa_status_node(text: str) -> int | None:
    """Return the NUMA node of the GPU's memory; None if the memory is no NUMA node."""
    for line in text.splitlines()[:20]:
        name, _, value = line.partition(":")
        if name.strip() == "Node" and value.strip().isdecimal() and len(value) < 12:
            return int(value)
    return None
