"""References to what was asked, in the words in which a recording keeps it."""

from __future__ import annotations

import shlex

from probes.base.record import EvidenceRef


def file_ref(path: str, detail: str = "") -> EvidenceRef:
    """A file or directory of the machine."""
    return EvidenceRef(source="file", key=path, detail=detail)


def command_ref(argv: tuple[str, ...], detail: str = "") -> EvidenceRef:
    """A command line."""
    return EvidenceRef(source="command", key=shlex.join(argv), detail=detail)


def nvml_ref(call: str) -> EvidenceRef:
    """An NVML call, or a pattern of calls on one device: `nvmlDeviceGet*(0)`."""
    return EvidenceRef(source="nvml", key=call)


def environment_ref(name: str) -> EvidenceRef:
    """An environment variable."""
    return EvidenceRef(source="environment", key=name)


def line_ref(number: int) -> EvidenceRef:
    """Return a line of the text that a parser reads; `probes/reading/readers/text_reader.py` fills in where
    the text came from.
    """
    return EvidenceRef(source="", key="", detail=f"line {number}")
