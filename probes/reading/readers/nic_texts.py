"""Texts that tell something of RDMA ports: the outputs of tools. Each is a row of `READERS`.

A row names a kind (`probes/catalogue/kinds.py`), the commands that write such a text here, and a function of
the kind's parser: `(text: str) -> tuple[Nic, ...]`, one partial record per port with what the text tells and
nothing else. `read` asks for the texts and completes `evidence`: a parser may leave `line_ref(12)`, and
without any the whole text is named. `collect/infiniband.py` puts the records together behind those of sysfs,
in the order of the rows: by name and port, else by PCI address.

A text that knows the PCI device and not the RDMA device's name (lspci) gives `name=""` and `pci_bus_id`: such
a record adds to all ports of that device, and stands alone, named by its address, where nothing else tells of
it. On a live machine only sysfs is asked, and the kinds of `LIVE` by a deep check.
"""

from __future__ import annotations

import importlib
from typing import cast

import msgspec

from probes.base.record import EvidenceRef, Record, Unknown
from probes.facts import Nic, Unread
from probes.reading.outputs import Output, outputs
from probes.sources.base import Source


class NicReader(Record, kw_only=True):
    """One kind of text and the function that finds ports in it."""

    kind: str
    module: str
    function: str = "parse_nics"
    commands: tuple[tuple[str, ...], ...] = ()
    unread: str = ""
    """A second function of the module, for lines that could not be read: `(text: str) -> tuple[Unread, ...]`,
    `source` left empty.
    """

    def read(self, source: Source) -> tuple[tuple[Nic, ...], tuple[Unread, ...]]:
        """The ports that the texts of this kind tell of, and what of the texts could not be read."""
        # A tool may end with an error when one device vanishes, after it has told about the others.
        found = outputs(source, self.kind, *self.commands, even_failed=True)
        if isinstance(found, Unknown):
            return (), ()
        module = importlib.import_module(self.module)
        nics: list[Nic] = []
        unread: list[Unread] = []
        for output in found:
            nics += [
                _placed(nic, output)
                for nic in cast("tuple[Nic, ...]", getattr(module, self.function)(output.text))
            ]
            if self.unread:
                lines = cast("tuple[Unread, ...]", getattr(module, self.unread)(output.text))
                unread += [msgspec.structs.replace(line, source=output.evidence.key) for line in lines]
        return tuple(nics), tuple(unread)


def _row(
    kind: str, module: str, function: str = "parse_nics", *commands: tuple[str, ...], unread: str = ""
) -> NicReader:
    return NicReader(
        kind=kind, module=f"probes.parsers.{module}", function=function, commands=commands, unread=unread
    )


READERS: tuple[NicReader, ...] = (
    _row("ibv-devinfo", "fabric.ibv_devinfo", "parse_nics", ("ibv_devinfo", "-v")),
    _row("ibstatus", "fabric.ibstatus", "parse_nics", ("ibstatus",)),
    _row("ibstat", "fabric.infiniband_files", "parse_ibstat", ("ibstat",), unread="unread_ibstat"),
    _row("mlxlink", "fabric.mlxlink"),
    _row("show-gids", "fabric.show_gids"),
    _row("ibdev2netdev", "fabric.ibdev2netdev", "parse_nics", ("ibdev2netdev",)),
    _row("rdma-link", "fabric.rdma_link", "parse_nics", ("rdma", "link")),
    _row("fi-info", "fabric.fi_info"),
    _row("perfquery", "fabric.perfquery"),
    _row("nccl-topology", "topology.nccl_topology"),
    _row("hwloc", "topology.hwloc_xml"),
    _row("lspci", "topology.lspci"),
)
"""In the order of trust: the first that knows a field has the last word."""

LIVE = frozenset({"ibv-devinfo"})
"""What a deep check asks on a live machine too: it tells the RDMA MTU, which sysfs does not."""


def _placed(nic: Nic, output: Output) -> Nic:
    """`nic` with evidence that leads to the text it was read from."""
    source, key = output.evidence.source, output.evidence.key
    refs = tuple(EvidenceRef(source=source, key=key, detail=ref.detail) for ref in nic.evidence)
    return msgspec.structs.replace(nic, evidence=refs or (output.evidence,))
