"""Texts that tell how devices reach each other: matrices of tools, and descriptions of machines. Each is a
row of `READERS`.

A row names a kind (`probes/catalogue/kinds.py`), the commands that write such a text here, and a function of
the kind's parser: `(text: str) -> tuple[Link, ...]`, the pairs that the text tells of and no others. Devices
bear the names of the other facts: `GPU0` by NVML's index, NICs by their RDMA device (`mlx5_0`), and NICs
without one by what the text calls them (`NIC3`). `read` asks for the texts and completes `evidence`: a parser
may leave `line_ref(12)`, and without any the whole text is named. `collect/topology.py` puts the links
together behind those of NVML and sysfs, in the order of the rows.
"""

from __future__ import annotations

import importlib
from typing import cast

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Link, Unread
from probes.reading.nvidia import SMI_TIMEOUT_S, SMI_TOPOLOGY
from probes.reading.outputs import Output, outputs
from probes.sources.base import Source


class ToldLinks(Record, kw_only=True):
    """What one text says."""

    links: tuple[Link, ...] = ()
    unread: tuple[Unread, ...] = ()


class LinkReader(Record, kw_only=True):
    """One kind of text and the function that finds links in it."""

    kind: str
    module: str
    function: str = "parse_links"
    commands: tuple[tuple[str, ...], ...] = ()
    unread: str = ""
    """A second function of the module, for lines that could not be read: `(text: str) -> tuple[Unread, ...]`,
    `source` left empty. Only where no other collector reports the same lines.
    """

    def read(self, source: Source) -> tuple[ToldLinks, ...] | Unknown:
        """What each text of this kind tells; Unknown where there is none, with the reason of the command."""
        found = outputs(source, self.kind, *self.commands, timeout_s=SMI_TIMEOUT_S)
        if isinstance(found, Unknown):
            return found
        module = importlib.import_module(self.module)
        return tuple(self._told(module, output) for output in found)

    def _told(self, module: object, output: Output) -> ToldLinks:
        links = cast("tuple[Link, ...]", getattr(module, self.function)(output.text))
        unread = cast("tuple[Unread, ...]", getattr(module, self.unread)(output.text)) if self.unread else ()
        return ToldLinks(
            links=tuple(_placed(link, output) for link in links),
            unread=tuple(msgspec.structs.replace(line, source=output.evidence.key) for line in unread),
        )


def _row(
    kind: str, module: str, *commands: tuple[str, ...], function: str = "parse_links", unread: str = ""
) -> LinkReader:
    return LinkReader(
        kind=kind, module=f"probes.parsers.{module}", function=function, commands=commands, unread=unread
    )


READERS: tuple[LinkReader, ...] = (
    _row("topology", "topology.topo_matrix", SMI_TOPOLOGY, unread="unread"),
    _row("rocm-topology", "topology.rocm_topology", unread="unread"),
    _row("nccl-topology", "topology.nccl_topology"),
    _row("hwloc", "topology.hwloc_xml"),
    _row("lspci", "topology.lspci"),
)
"""In the order of trust: the first that knows a pair has the last word."""


def _placed(link: Link, output: Output) -> Link:
    """`link` with evidence that leads to the text it was read from."""
    source, key = output.evidence.source, output.evidence.key
    refs = tuple(EvidenceRef(source=source, key=key, detail=ref.detail) for ref in link.evidence)
    return msgspec.structs.replace(link, evidence=refs or (output.evidence,))
