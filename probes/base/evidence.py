"""Temporary second name of `line_ref` for the parsers; the functions are in `probes/base/record.py`."""

from probes.base.record import line_ref

__all__ = ["line_ref"]
