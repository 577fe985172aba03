"""`nvidia-smi --query-gpu --format=csv`."""

from __future__ import annotations


def recognise(text: str) -> bool:
    return False
