"""Texts in which other tools measured or diagnosed something. Each is a row: a kind
(`probes/catalogue/kinds.py`) and a function of its parser, `(text: str) -> tuple[ToolResult, ...]` or
`tuple[Diagnosis, ...]`. A parser may leave `line_ref(12)` as evidence.
"""

from __future__ import annotations

import importlib
from typing import TypeVar, cast

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Diagnosis, ToolResult, Unread
from probes.reading.outputs import outputs
from probes.sources.base import Source

R = TypeVar("R", ToolResult, Diagnosis)


class ToolReader(Record, kw_only=True):
    """One kind of text and the functions that read it."""

    kind: str
    module: str
    function: str = "parse_results"
    unread: str = ""
    """A second function of the module: `(text: str) -> tuple[Unread, ...]`, `source` left empty."""

    def read(self, source: Source, _: type[R]) -> tuple[tuple[R, ...], tuple[Unread, ...]] | Unknown:
        """What the texts of this kind tell, and what of them could not be read; Unknown where there is
        none.
        """
        found = outputs(source, self.kind)
        if isinstance(found, Unknown):
            return found
        module = importlib.import_module(f"probes.parsers.{self.module}")
        results: list[R] = []
        unread: list[Unread] = []
        for output in found:
            origin = output.evidence
            for result in cast("tuple[R, ...]", getattr(module, self.function)(output.text)):
                refs = tuple(
                    EvidenceRef(source=origin.source, key=origin.key, detail=ref.detail)
                    for ref in result.evidence
                )
                results.append(msgspec.structs.replace(result, evidence=refs or (origin,)))
            if self.unread:
                lines = cast("tuple[Unread, ...]", getattr(module, self.unread)(output.text))
                unread += [msgspec.structs.replace(line, source=origin.key) for line in lines]
        return tuple(results), tuple(unread)


MEASUREMENTS: tuple[ToolReader, ...] = (
    ToolReader(kind="nvbandwidth", module="tools.nvbandwidth", unread="parse_unread"),
    ToolReader(kind="cuda-bandwidth", module="tools.cuda_bandwidth"),
    ToolReader(kind="nccl-tests", module="tools.nccl_tests"),
    ToolReader(kind="perftest", module="tools.perftest"),
    ToolReader(kind="fabtests", module="tools.fabtests"),
    ToolReader(kind="gpcnet", module="tools.gpcnet"),
)

DIAGNOSES: tuple[ToolReader, ...] = (
    ToolReader(
        kind="dcgm-diagnostic",
        module="tools.dcgm_diagnostic",
        function="parse_diagnoses",
        unread="parse_unread",
    ),
    ToolReader(kind="dcgm-health", module="tools.dcgm_health", function="parse_diagnoses"),
)
