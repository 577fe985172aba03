"""Why a run failed: rows of causes with the conditions that they name, and how the causes that hold are
ranked.
"""

from probes.logs.causes.explaining import evidence_line, explain

__all__ = ["evidence_line", "explain"]
