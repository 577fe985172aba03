"""Reader of normal lines of NCCL and RCCL 2.2 to 2.30 with NCCL_DEBUG=INFO; `nccl_errors` reads the faults.

Source: NVIDIA/nccl, src/init.cc, bootstrap.cc, transport/net_ib*, net_socket.cc, graph/*.cc, misc/param.cc
of tags 2.4 to 2.30.
"""

import re

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, event_of, reporting
from probes.logs.events.log_record import LogRecord
from probes.logs.events.nccl_events import (
    NcclBootstrap,
    NcclCommShape,
    NcclConnected,
    NcclEnvironment,
    NcclInitTimings,
    NcclNvls,
    NcclRankOfCommunicator,
    NcclTrees,
)
from probes.logs.events.nccl_network_events import (
    NcclDmaBuf,
    NcclHcas,
    NcclSharp,
    NcclSocketInterfaces,
)
from probes.logs.readers.nccl_prefix import Once, located, read_located
from probes.logs.readers.nccl_rows import ROWS
from probes.logs.readers.row_readers import signs

_ADAPTERS = pattern(
    r"NET/(?!Socket|FastSocket)\w[\w -]{0,24}? ?: Using (?P<list>\[\d{1,4}\][^;]{1,6000})(?P<rest>;.{0,200})?"
)
_ADAPTER = pattern(r"\[\d{1,4}\] ?([\w.-]{1,64}:\d{1,3})/(\w{1,12})((?:/\w{1,12}){0,3})")
_OUT_OF_BAND = pattern(r"OOB ([\w.-]{1,32}):")
_SOCKETS = pattern(r"NET/(?:Socket|FastSocket) ?: Using (?P<list>\[\d{1,4}\].{1,4000})")
_SOCKET = pattern(r"\[\d{1,4}\]([^\s:<>\[\]]{1,32}):([0-9a-fA-F.:]{0,64})(?:%[^\s<>]{1,32})?<\d{1,5}>")
_BOOTSTRAP = pattern(
    r"(?:Bootstrap ?: Using (?:interface )?|NET : Using interface )(?:\[0\])?"
    r"([^\s:<>\[\]]{1,32}):([0-9a-fA-F.:]{0,64})(?:%[^\s<>]{1,32})?<\d{1,5}>"
)
_TREES = pattern(r"Trees((?: \[\d{1,3}\] \S{1,60}){1,64})")

SIGNS = (
    *signs(ROWS),
    b": Using [",
    b"Bootstrap : Using",
    b"Bootstrap: Using",
    b"NET : Using interface",
    b" INFO Trees [",
)
_MOST_NAMES = 256
_FOLDED_END = "across cluster]"
_FOLDED = pattern(r"\s\[repeated (\d{1,7})x across cluster\]$")
"""Mark that Ray appends to a line that replaces many equal lines."""
_EACH = (NcclConnected, NcclRankOfCommunicator, NcclInitTimings)
"""Records that are not omitted if other ranks of the host report the same."""


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of a line; empty if NCCL did not write the line."""
    if line.text.endswith(_FOLDED_END) and (folded := _FOLDED.search(line.text)) is not None:
        events = read(line._replace(text=line.text[: folded.start()]))
        return tuple(msgspec.structs.replace(event, count=1 + int(folded[1])) for event in events)
    lists = _lists(line)
    if lists:
        return lists
    return read_located(ROWS, line)


class Reader:
    """Omits repetitions within a host: 10,000 ranks report the same environment.

    NCCL reports variables that plugins set as variables of the environment. The plugin's own line comes
    earlier and is correct.
    """

    def __init__(self) -> None:
        self._once = Once()
        self._by_plugin: set[str] = set()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """Return those events of a line that are new."""
        return tuple(event for event in map(self._attributed, read(line)) if self._is_new(event))

    def _attributed(self, event: Event) -> Event:
        variable = event.what
        if isinstance(variable, NcclEnvironment):
            if variable.by == "plugin" and len(self._by_plugin) < _MOST_NAMES:
                self._by_plugin.add(variable.name)
            elif variable.name in self._by_plugin:
                return reporting(event, msgspec.structs.replace(variable, by="plugin"))
        return event

    def _is_new(self, event: Event) -> bool:
        return isinstance(event.what, _EACH) or self._once.is_new((event.host, _without_rank(event.what)))


def _without_rank(record: LogRecord) -> LogRecord:
    """Return the record without the number of the rank or GPU, if all ranks of a host report the same."""
    match record:
        case NcclCommShape():
            return msgspec.structs.replace(record, rank=0)
        case NcclNvls() | NcclDmaBuf():
            return msgspec.structs.replace(record, gpu=0)
    return record


def _lists(line: LogLine) -> tuple[Event, ...]:
    """Return the events of lines that contain lists."""
    text = line.text
    if "Using" in text:
        if (match := _BOOTSTRAP.search(text)) is not None:
            return (event_of(NcclBootstrap(interface=match[1], address=match[2]), located(line)),)
        if (match := _SOCKETS.search(text)) is not None:
            return _sockets(match["list"], located(line))
        if (match := _ADAPTERS.search(text)) is not None:
            return _adapters(match, located(line))
    if "Trees [" in text and (match := _TREES.search(text)) is not None:
        return (event_of(NcclTrees(channels=match[1].count("[")), located(line)),)
    return ()


def _sockets(words: str, line: LogLine) -> tuple[Event, ...]:
    interfaces = _SOCKET.findall(words)
    if not interfaces:
        return ()
    names = ",".join(name for name, _ in interfaces)
    addresses = ",".join(address for _, address in interfaces)
    return (event_of(NcclSocketInterfaces(names=names, addresses=addresses, count=len(interfaces)), line),)


def _adapters(match: re.Match[str], line: LogLine) -> tuple[Event, ...]:
    adapters = _ADAPTER.findall(match["list"])
    if not adapters:
        return ()
    links = ",".join(sorted({link for _, link, _ in adapters}))
    names = ",".join(name for name, _, _ in adapters)
    out_of_band = _OUT_OF_BAND.search(match["rest"] or "")
    record = NcclHcas(
        names=names,
        links=links,
        count=len(adapters),
        relaxed_ordering="[RO]" in match["list"],
        interface=None if out_of_band is None else out_of_band[1],
    )
    events: list[Event] = [event_of(record, line)]
    if any("SHARP" in features for _, _, features in adapters):
        events.append(event_of(NcclSharp(what="adapters"), line))
    return tuple(events)
