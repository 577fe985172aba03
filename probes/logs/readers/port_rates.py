"""Read the rates of network ports from whole files of `ibstat` or `ibstatus` output.

Such output often accompanies a network test.

Source: linux-rdma/rdma-core, infiniband-diags/ibstat.c and scripts/ibstatus (read 2026-11).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from probes.base.patterns import pattern
from probes.logs.event import Event, event_of
from probes.logs.events.host_events import HostPortRate
from probes.logs.readers.whole_files import Document

DOCUMENT_SIGNS: tuple[bytes, ...] = (b"CA type: ", b"Infiniband device '")
_CARD = pattern(
    r"^\s{0,8}(?:CA '(?P<card>[\w.-]{1,40})'|Infiniband device '(?P<device>[\w.-]{1,40})' port "
    r"(?P<port>\d{1,3}) status:)"
)
_PORT = pattern(r"^\s{0,16}Port (\d{1,3}):\s{0,4}$")
_STATE = pattern(r"^\s{0,24}(?:State: |state:\s{1,8}(?:\d: )?)([A-Za-z]{2,16})\s{0,4}$")
_RATE = pattern(
    r"^\s{0,24}(?:Rate: (\d{1,5}(?:\.\d)?)|rate:\s{1,8}(\d{1,5}(?:\.\d)?) Gb/sec \(.{1,20}\))\s{0,4}$"
)
_MOST = 1024


def read_document(name: str, data: bytes) -> tuple[Event, ...]:
    """Return the rate of each port whose card and state precede the rate."""
    return tuple(itertools.islice(_rates(Document(name, data)), _MOST))


def _rates(document: Document) -> Iterator[Event]:
    device, port, is_active = "", 0, False
    for number, text in enumerate(document.text.split("\n"), 1):
        if (card := _CARD.match(text)) is not None:
            device, port, is_active = card["card"] or card["device"], int(card["port"] or 0), False
        elif (numbered := _PORT.match(text)) is not None:
            port, is_active = int(numbered[1]), False
        elif (state := _STATE.match(text)) is not None:
            is_active = state[1].lower() == "active"
        elif device and is_active and (rate := _RATE.match(text)) is not None:
            port_rate = HostPortRate(device=device, port=port, gbit_per_s=float(rate[1] or rate[2]))
            yield event_of(port_rate, document.line(number))
