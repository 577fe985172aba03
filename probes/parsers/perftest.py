"""Perftest (`ib_write_bw`, `ib_write_lat` ...)."""

from __future__ import annotations


def recognise(text: str) -> bool:
    return False
