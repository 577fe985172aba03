"""Fabtests (`fi_rma_bw` ...)."""

from __future__ import annotations


def recognise(text: str) -> bool:
    return False
