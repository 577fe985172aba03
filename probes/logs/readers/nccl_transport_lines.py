"""Reader of transports between ranks. Most lines of a log are of this kind: one for each channel and peer.

`Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read`, `[send] via NET/IB/3(5)/GDRDMA/Shared`, `Ring 00 : 2[3d000]
-> 3[3e000] via direct shared memory` (2.4), `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA`. The
records are `NcclChannel`, `NcclRings` and `NcclPath`.

A *way* is a combination of side, transport and variant. The first line of a way on a host results in an event
at once. If more lines of this way follow, the last of them results in an event at the end, with the `count`
of all lines but the first, and the first `pairs` of ranks that use the way: `0>1,1>2`. Lists of the ranks of
a ring contain the number of rings; up to NCCL 2.5 they contain only the ring's index.

With NCCL_DEBUG_SUBSYS=GRAPH, tables list the distances of a GPU: `GPU/8F000 :GPU/16000 (2/264.000000/NVL)
CPU/1 (3/24.000000/PHB) NET/4 (4/24.000000/PXB)`; from 2.20 on, the number of the host precedes each address
(`GPU/0-8f000`).

Source: NVIDIA/nccl, src/transport/*.cc of tags 2.2 to 2.30; src/graph/paths.cc, printNodePaths, and topo.h,
PATH_*, of tags 2.6 to 2.30.
"""

import re
from collections.abc import Iterable

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of
from probes.logs.events.nccl_events import NcclChannel, NcclPath, NcclRings
from probes.logs.readers.nccl_prefix import Once, located

_VIA = pattern(
    r"(P2P|SHM|NET|COLLNET)/([A-Za-z][\w .-]{0,39}?)((?:/[\w().-][\w ().-]{0,39}){0,5})"
    r"(?: comm \S{1,20} nRanks \d{1,7})?\s*$"
)
_PAIR = pattern(
    r"(?:Channel|Ring|CollNet) \d{1,4}(?:/-?\d{1,4})? : (\d{1,7})(?:\[[0-9a-fA-F]{1,16}\])?"
    r"(?: -> (\d{1,7})(?:\[[0-9a-fA-F]{1,16}\])?)?"
)
_MOST_WAYS = 16_384
_MOST_ENDS = 8192
_MOST_PAIRS = 32

_RING = pattern(r"Channel (?P<ring>\d{1,3})(?:/(?P<channels>\d{1,3}))? :(?: {1,9}\d{1,7})+\s*$")
_HEAD = pattern(r"\bGPU/(?P<gpu>[0-9A-Fa-f-]{1,24}) :GPU/")
_WAY = pattern(r"(GPU|NET)/[0-9A-Fa-f-]{1,24} \(\d{1,3}/[\d.]{1,16}/([A-Z0-9]{3})\)")
_NEAREST_FIRST = ("LOC", "NVL", "NVB", "C2C", "PIX", "PXB", "P2C", "PXN", "PHB", "SYS", "NET", "DIS")


SIGNS = (
    b"Channel 00/",
    b" INFO Channel 0",
    b" via P2P/",
    b" via SHM/",
    b" via NET/",
    b" via COLLNET/",
    b" via direct shared memory",
    b" :GPU/",
)


_Key = tuple[str | None, str, NcclChannel]
"""Host, side and way of a channel."""


class Reader:
    """Counts channels by host and way."""

    def __init__(self) -> None:
        self._ways: dict[str, NcclChannel | None] = {}
        """Channels, with the words after `via` as the key."""
        self._more: dict[_Key, tuple[int, LogLine]] = {}
        """Number of lines after the first, and the last line, by host and way."""
        self._pairs: dict[_Key, dict[str, None]] = {}
        self._rings = Once()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return the event of a line, if the host did not report the same way or number of rings before."""
        text = line.text
        place = text.rfind(" via ")
        if place < 0:
            return _path(line) if " :GPU/" in text else self._ring(line)
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
        channel = self._way(end)
        if channel is None:
            return ()
        line = located(line)
        key = (line.host, side, channel)
        self._note_pair(key, pair)
        if key in self._more:
            self._more[key] = (self._more[key][0] + 1, line)
            return ()
        if len(self._more) >= _MOST_WAYS:
            return ()
        self._more[key] = (0, line)
        return (_event(line, key),)

    def end(self) -> tuple[Event, ...]:
        """Return the last event of each repeated way, with the number of lines except the first."""
        return tuple(
            msgspec.structs.replace(_event(line, key, self._pairs.get(key)), count=count)
            for key, (count, line) in self._more.items()
            if count
        )

    def _note_pair(self, key: _Key, pair: re.Match[str]) -> None:
        if pair[2] is None or (key not in self._pairs and len(self._pairs) >= _MOST_WAYS):
            return
        pairs = self._pairs.setdefault(key, {})
        if len(pairs) < _MOST_PAIRS:
            pairs[f"{pair[1]}>{pair[2]}"] = None

    def _ring(self, line: LogLine) -> tuple[Event, ...]:
        match = _RING.search(line.text)
        if match is None:
            return ()
        line = located(line)
        channels = int(match["channels"]) if match["channels"] is not None else int(match["ring"]) + 1
        return (
            (event_of(NcclRings(channels=channels), line),)
            if self._rings.is_new((line.host, channels))
            else ()
        )

    def _way(self, end: str) -> NcclChannel | None:
        if end not in self._ways:
            if len(self._ways) >= _MOST_ENDS:
                self._ways.clear()
            self._ways[end] = way(end)
        return self._ways[end]


def _event(line: LogLine, key: _Key, pairs: Iterable[str] | None = None) -> Event:
    _, side, channel = key
    match = _PAIR.search(line.text)
    ranks = [None if rank is None else int(rank) for rank in match.groups()] if match else [None, None]
    record = msgspec.structs.replace(
        channel,
        side=side or None,
        from_rank=ranks[0],
        to_rank=ranks[1],
        pairs=",".join(pairs) if pairs else None,
    )
    return event_of(record, line)


def way(words: str) -> NcclChannel | None:
    """Return the channel that the words after `via` describe, without its ranks; None for other words."""
    if words.startswith("direct shared memory"):
        return NcclChannel(transport="SHM", how="direct")
    match = _VIA.match(words)
    if match is None:
        return None
    transport, how, rest = match[1], match[2].strip(), match[3]
    if transport not in ("NET", "COLLNET"):
        return NcclChannel(transport=transport, how=how)
    return NcclChannel(
        transport=transport,
        how=how,
        network=how,
        gdr="/GDRDMA" in rest,
        pxn="(" in rest.split("/GDRDMA")[0],
    )


def transport_names(ends: str) -> tuple[str, ...]:
    """Return the transports in lines that begin with `via`, sorted: `NET/IB/GDRDMA`, `NVLS`, `P2P/CUMEM`.

    The lines are the ends of lines of NCCL's log, as a worker of rigtune collects them.
    """
    names = set()
    for line in ends.splitlines():
        channel = way(line.rpartition("via ")[2]) if "via " in line else None
        if channel is not None:
            names.add(f"{channel.transport}/{channel.how}" + "/GDRDMA" * bool(channel.gdr))
        elif "NVLS" in line:
            names.add("NVLS")
    return tuple(sorted(names))


def _path(line: LogLine) -> tuple[Event, ...]:
    """Return the distances of one GPU."""
    head = _HEAD.search(line.text)
    if head is None:
        return ()
    ways = [
        (match[1], match[2])
        for match in _WAY.finditer(line.text, head.end() - len("GPU/"))
        if match[2] in _NEAREST_FIRST
    ]
    to_nic = [way for to, way in ways if to == "NET"]
    to_gpu = [way for to, way in ways if to == "GPU" and way != "LOC"]
    if not to_nic and not to_gpu:
        return ()
    path = NcclPath(
        gpu=head["gpu"],
        to_nic=min(to_nic, key=_NEAREST_FIRST.index, default=None),
        to_gpu=max(to_gpu, key=_NEAREST_FIRST.index, default=None),
    )
    return (event_of(path, located(line)),)
