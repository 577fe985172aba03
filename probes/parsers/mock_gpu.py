"""A GPU description of go-nvml."""

from __future__ import annotations


def recognise(text: str) -> bool:
    return False
