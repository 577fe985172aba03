"""References to questions, in the words in which a recording keeps them."""

from __future__ import annotations

import shlex

from probes.base.record import EvidenceRef


def file_ref(path: str, detail: str = "") -> EvidenceRef:
    """Return the reference to a file or directory of the machine."""
    return EvidenceRef(source="file", key=path, detail=detail)


def command_ref(argv: tuple[str, ...], detail: str = "") -> EvidenceRef:
    """Return the reference to a command line."""
    return EvidenceRef(source="command", key=shlex.join(argv), detail=detail)


def nvml_ref(call: str) -> EvidenceRef:
    """An NVML call, or a pattern of calls on one device: `nvmlDeviceGet*(0)`."""
    return EvidenceRef(source="nvml", key=call)


def environment_ref(name: str) -> EvidenceRef:
    """Return the reference to an environment variable."""
    return EvidenceRef(source="environment", key=name)


def line_ref(number: int) -> EvidenceRef:
    """Return the reference to a line of the text that a parser reads.

    The caller adds the source of the text.
    """
    return EvidenceRef(source="", key="", detail=f"line {number}")
