"""Explanation of a run: rows of causes with their conditions, and the order of the causes that hold."""

from probes.logs.causes.explaining import evidence_line, explain

__all__ = ["evidence_line", "explain"]
