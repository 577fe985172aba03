"""How NCCL and RCCL say that ranks reach each other: one line per channel and peer, by far the most of a log.

`Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`, `[send] via NET/IB/3(5)/GDRDMA/Shared`, `Ring 00 : 2[3d000]
-> 3[3e000] via direct shared memory` (2.4), `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA`. Kind:
nccl.channel{transport, how, network, gdr, side, pxn, from_rank, to_rank, pairs}. `transport` is P2P, SHM, NET
or COLLNET; `how` the way within it (`CUMEM`, `direct`, `IB`), `network` that of NET and COLLNET, whose `gdr`
is 1 where the NIC reads or writes the GPU's memory. The first line of a way on a host is told at once; where
there were more, the last of them comes at the end, with the `count` of all but the first and the first
`pairs` of ranks that go this way: `0>1,1>2`. nccl.rings{channels}: of a host's lines that list the ranks of a
ring; up to 2.5 they number the rings without their count. Source: NVIDIA/nccl, src/transport/*.cc of tags 2.2
to 2.30.
"""

from __future__ import annotations

import re

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, Value, event_of
from probes.logs.line import LogLine
from probes.logs.readers.nccl_prefix import located
from probes.logs.readers.whole_text import Once

_VIA = pattern(
    r"(P2P|SHM|NET|COLLNET)/([A-Za-z][\w .-]{0,39}?)((?:/[\w().-][\w ().-]{0,39}){0,5})(?: comm \S{1,20} nRanks \d{1,7})?\s*$"
)
_PAIR = pattern(
    r"(?:Channel|Ring|CollNet) \d{1,4}(?:/-?\d{1,4})? : (\d{1,7})(?:\[[0-9a-fA-F]{1,16}\])?"
    r"(?: -> (\d{1,7})(?:\[[0-9a-fA-F]{1,16}\])?)?"
)
_MOST_WAYS = 16_384
_MOST_ENDS = 8192
_MOST_PAIRS = 32

_RING = pattern(r"Channel (?P<ring>\d{1,3})(?:/(?P<channels>\d{1,3}))? :(?: {1,9}\d{1,7})+\s*$")

SIGNS = (
    b"Channel 00/",
    b" INFO Channel 0",
    b" via P2P/",
    b" via SHM/",
    b" via NET/",
    b" via COLLNET/",
    b" via direct shared memory",
)


class Reader:
    """Counts channels by host and way."""

    def __init__(self) -> None:
        self._fields: dict[str, dict[str, Value] | None] = {}
        self._more: dict[tuple[object, ...], tuple[int, LogLine, dict[str, Value]]] = {}
        """By host and way: how many lines followed the first one, and the last of them."""
        self._pairs: dict[tuple[object, ...], dict[str, None]] = {}
        self._rings = Once()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """The way, where this host did not tell of it before."""
        text = line.text
        place = text.rfind(" via ")
        if place < 0:
            return self._ring(line)
        pair = _PAIR.search(text, 0, place)
        if pair is None:
            return ()
        end = text[place + 5 : place + 205]
        side = (
            "send"
            if text.endswith("[send]", 0, place)
            else "receive"
            if text.endswith("[receive]", 0, place)
            else ""
        )
        fields = self._way(end)
        if fields is None:
            return ()
        line = located(line)
        key = (line.host, side, *fields.values())
        if side:
            fields = {**fields, "side": side}
        self._note_pair(key, pair)
        if key in self._more:
            self._more[key] = (self._more[key][0] + 1, line, fields)
            return ()
        if len(self._more) >= _MOST_WAYS:
            return ()
        self._more[key] = (0, line, fields)
        return (_channel(line, fields),)

    def end(self) -> tuple[Event, ...]:
        """The last line of each way that more than one told of, with the count of all but the first."""
        return tuple(
            msgspec.structs.replace(_channel(line, self._with_pairs(key, fields)), count=count)
            for key, (count, line, fields) in self._more.items()
            if count
        )

    def _note_pair(self, key: tuple[object, ...], pair: re.Match[str]) -> None:
        if pair[2] is None or (key not in self._pairs and len(self._pairs) >= _MOST_WAYS):
            return
        pairs = self._pairs.setdefault(key, {})
        if len(pairs) < _MOST_PAIRS:
            pairs[f"{pair[1]}>{pair[2]}"] = None

    def _with_pairs(self, key: tuple[object, ...], fields: dict[str, Value]) -> dict[str, Value]:
        pairs = self._pairs.get(key)
        return {**fields, "pairs": ",".join(pairs)} if pairs else fields

    def _ring(self, line: LogLine) -> tuple[Event, ...]:
        match = _RING.search(line.text)
        if match is None:
            return ()
        line = located(line)
        channels = int(match["channels"]) if match["channels"] is not None else int(match["ring"]) + 1
        return (
            (event_of("nccl.rings", line, {"channels": channels}),)
            if self._rings.is_new((line.host, channels))
            else ()
        )

    def _way(self, end: str) -> dict[str, Value] | None:
        if end not in self._fields:
            if len(self._fields) >= _MOST_ENDS:
                self._fields.clear()
            self._fields[end] = way(end)
        return self._fields[end]


def _channel(line: LogLine, fields: dict[str, Value]) -> Event:
    pair = _PAIR.search(line.text)
    ranks = zip(("from_rank", "to_rank"), pair.groups() if pair else (), strict=False)
    return event_of(
        "nccl.channel", line, {**fields, **{name: int(rank) for name, rank in ranks if rank is not None}}
    )


def way(words: str) -> dict[str, Value] | None:
    """The fields that what stands behind `via` means; None where it is no way."""
    if words.startswith("direct shared memory"):
        return {"transport": "SHM", "how": "direct"}
    match = _VIA.match(words)
    if match is None:
        return None
    transport, how, rest = match[1], match[2].strip(), match[3]
    if transport not in ("NET", "COLLNET"):
        return {"transport": transport, "how": how}
    return {
        "transport": transport,
        "how": how,
        "network": how,
        "gdr": int("/GDRDMA" in rest),
        "pxn": int("(" in rest.split("/GDRDMA")[0]),
    }
