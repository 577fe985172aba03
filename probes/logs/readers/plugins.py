"""Reader of NCCL's plugins: plugins that were searched, loaded or rejected, and the lines of network plugins.

Lines about symbols of older interfaces (`Failed to find ncclNetPlugin_v8 symbol`) report no event.
Source: NVIDIA/nccl, src/plugin/*.cc, src/net.cc of tags 2.4 to 2.30; Mellanox/nccl-rdma-sharp-plugins;
google/nccl-fastsocket and the TCPX and TCPXO guides of Google Cloud.
"""

from typing import Any

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, reporting
from probes.logs.events.log_record import LogRecord
from probes.logs.events.nccl_network_events import (
    NcclNetworkPlugin,
    NcclPluginError,
    NcclPluginFailed,
    NcclPluginLoaded,
    NcclPluginMissing,
)
from probes.logs.readers.nccl_prefix import is_informative, read_located
from probes.logs.readers.row_readers import Finish, row, signs


class _PluginLoad(NcclPluginFailed, kw_only=True, tag="nccl.plugin-load"):
    """The dynamic loader's error for a plugin, which may be missing or broken."""


def _plugin(record: type[LogRecord]) -> Finish:
    """Return a function that makes a record of a plugin.

    The names of kinds differ between versions of NCCL.
    """

    def finish(fields: dict[str, Any]) -> LogRecord:
        kind = str(fields.get("kind", "net")).strip().lower()
        if "version" in fields:
            fields["version"] = fields["version"].strip(" .")
        return record(**{**fields, "kind": "net" if kind == "network" else kind})

    return finish


_KIND = r"(?P<kind>[A-Za-z]{2,10})"
_ROWS = (
    row(
        NcclPluginLoaded,
        "/Plugin: Loaded ",
        rf"{_KIND}/Plugin: Loaded \w{{1,10}} plugin (?P<name>\S.{{0,60}}?) \(?(?P<version>v\d{{1,3}})\)?",
        finish=_plugin(NcclPluginLoaded),
    ),
    row(
        NcclPluginLoaded,
        "/Plugin: Using ",
        rf"{_KIND}/Plugin: Using (?:\w{{1,10}} plugin )?(?P<name>(?!internal|default)\S.{{0,60}}?)"
        rf"(?: \((?P<version>v\d{{1,3}})\))?\s*$",
        finish=_plugin(NcclPluginLoaded),
    ),
    row(
        NcclPluginLoaded,
        "uccessfully loaded external",
        r"loaded external (?P<kind>\w{2,10} )?plugin (?P<path>\S{1,300})",
        finish=_plugin(NcclPluginLoaded),
    ),
    row(
        NcclPluginLoaded,
        "P2P plugin ",
        r"P2P plugin (?P<version>v\d{1,3} )?(?P<name>\w{2,30})",
        finish=_plugin(NcclPluginLoaded),
    ),
    row(
        NcclPluginLoaded,
        "Plugin Path",
        r"Plugin Path ?: (?P<path>/\S{1,300})",
        finish=_plugin(NcclPluginLoaded),
    ),
    row(
        NcclPluginMissing,
        "/Plugin",
        rf"{_KIND}/Plugin ?: No plugin found(?: \((?P<name>[^)\s]{{1,100}})\))?",
        finish=_plugin(NcclPluginMissing),
    ),
    row(
        NcclPluginMissing,
        "/Plugin: Could not find",
        rf"{_KIND}/Plugin: Could not find: ?(?P<name>\S{{1,200}}?)[. ]*(?:\s|$)",
        finish=_plugin(NcclPluginMissing),
    ),
    row(
        NcclPluginMissing,
        "Plugin load ",
        rf"{_KIND}/Plugin ?: Plugin load (?:\((?P<name>[^)\s]{{1,100}})\) )?returned \d{{1,3}} : "
        rf"(?:\S{{1,200}}: )?cannot open shared object file",
        finish=_plugin(NcclPluginMissing),
    ),
    row(
        _PluginLoad,
        "Plugin load ",
        rf"{_KIND}/Plugin ?: Plugin load (?:\((?P<name>[^)\s]{{1,100}})\) )?returned \d{{1,3}} : "
        rf"(?P<reason>.{{2,250}})",
        finish=_plugin(_PluginLoad),
    ),
    row(
        _PluginLoad,
        "dlerror=",
        rf"{_KIND}/Plugin ?: dlerror=(?P<reason>.{{2,160}}?) ?"
        rf"(?:No plugin found \((?P<name>[^)\s]{{1,100}})\).{{0,60}})?\s*$",
        finish=_plugin(_PluginLoad),
    ),
    row(
        _PluginLoad,
        "/Plugin: lib",
        rf"{_KIND}/Plugin: (?P<name>lib[\w.+-]{{1,80}}\.so[\w.]{{0,12}}): (?P<reason>.{{2,250}})",
        finish=_plugin(_PluginLoad),
    ),
    row(
        _PluginLoad,
        "/Plugin: /",
        rf"{_KIND}/Plugin: (?P<name>/\S{{1,250}}\.so[\w.]{{0,12}}): (?P<reason>.{{2,250}})",
        finish=_plugin(_PluginLoad),
    ),
    row(
        NcclPluginFailed,
        "Failed to initialize ",
        r"Failed to initialize (?P<kind>NET|TUNER|PROFILER|GIN|COLLNET|CollNet|Net) plugin "
        r"(?!IB\b|Socket\b)(?P<name>\S.{0,60}?)\s*$",
        finish=_plugin(NcclPluginFailed),
    ),
    row(
        NcclPluginFailed,
        "/Plugin: ",
        rf"{_KIND}/Plugin: (?P<reason>[Ff]ailed to (?:load|init|open).{{0,200}})",
        finish=_plugin(NcclPluginFailed),
    ),
    row(NcclNetworkPlugin, "NET/FasTrak", r"NET/(?P<name>FasTrak) v(?:er)?\.? ?(?P<version>\d[\w.]{0,20})"),
    row(NcclNetworkPlugin, "NET/FasTrak", r"NET/(?P<name>FasTrak) (?:plugin )?initialized"),
    row(
        NcclNetworkPlugin,
        "NET/GPUDirectTCPX",
        r"NET/(?P<name>GPUDirectTCPX\w{0,8}) ver\. ?(?P<version>\d[\w.]{0,30}?)\.?\s*$",
    ),
    row(
        NcclNetworkPlugin,
        "NET/gIB",
        r"NET/(?P<name>gIB) ?:? (?:Initializing|Using) gIB(?: v(?:ersion)? ?)?(?P<version>\d[\w.]{0,20})?",
    ),
)
_ERRORS = (
    row(
        NcclPluginFailed,
        "Failed to initialize any",
        r"(?P<reason>Failed to initialize any (?P<kind>\w{2,10}) plugin)",
        finish=_plugin(NcclPluginFailed),
    ),
    row(
        NcclPluginFailed,
        "UCX error",
        r"(?P<reason>Failed: (?P<name>UCX) error .{2,160})",
        finish=_plugin(NcclPluginFailed),
    ),
    row(
        NcclPluginError,
        "NET/",
        r"WARN.{0,40}? NET/(?P<name>FasTrak|GPUDirectTCPX\w{0,8}|gIB|UCX|IBext\w{0,8}|FastSocket) ?:? "
        r"(?P<message>\S.{0,300})",
        finish=_plugin(NcclPluginError),
    ),
    row(
        NcclPluginError,
        "NET/GPUDirectTCPX",
        r"NET/(?P<name>GPUDirectTCPX\w{0,8}) ?: (?P<message>(?:[Uu]nable|[Ff]ailed|[Cc]ould not).{2,200})",
        finish=_plugin(NcclPluginError),
    ),
    row(
        NcclPluginError,
        "NET/FasTrak",
        r"NET/(?P<name>FasTrak)[^:]{0,60}: (?P<message>(?:[Uu]nable|[Ff]ailed|[Cc]ould not).{2,200})",
        finish=_plugin(NcclPluginError),
    ),
)
_FAILURE = pattern(r"(?i)\bfail|unable to|could not|cannot|timed out|refused|not found")
_OF_PLUGINS = "ccl-"
"""Part of file names that only plugins of NCCL and RCCL have (`libnccl-net.so`)."""
_ABSENT = "cannot open shared object file"
_OTHER_LIBRARY = pattern(r"\b(lib[\w+-]{1,60}\.so[\w.]{0,16}): cannot open shared object file")

SIGNS = tuple(sign for sign in signs((*_ROWS, *_ERRORS)) if sign not in (b"NET/",))


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of a line that a plugin wrote, or that NCCL wrote about a plugin."""
    if located_events := read_located(_ROWS, line):
        return (_judged(located_events[0], line.text),)
    if is_informative(line.text):
        return ()
    return tuple(_judged(_failed(event), line.text) for event in read_located(_ERRORS, line))


def _failed(event: Event) -> Event:
    """Return a failure if a plugin's warning reports a failure, otherwise the event unchanged."""
    match event.what:
        case NcclPluginError(name=name, message=message) if _FAILURE.search(message) is not None:
            return reporting(event, NcclPluginFailed(kind="net", name=name, reason=message))
    return event


def _judged(event: Event, text: str) -> Event:
    """Turn the event of an unloaded plugin into a missing or a failed one, and leave any other unchanged.

    A plugin that exists but needs a missing library or symbol has failed.
    """
    missing = _OTHER_LIBRARY.search(text)
    match event.what:
        case NcclPluginMissing(kind=kind, name=name):
            if missing is None or _OF_PLUGINS in missing[1] or "-net" in missing[1]:
                return event
            return reporting(
                event, NcclPluginFailed(kind=kind, name=name, reason=f"{missing[1]} cannot be opened")
            )
        case _PluginLoad(kind=kind, name=name, reason=reason):
            if _is_cut(reason or ""):
                return reporting(event, NcclPluginMissing(kind=kind))
            if _ABSENT in text and (missing is None or _OF_PLUGINS in missing[1]):
                return reporting(event, NcclPluginMissing(kind=kind, name=name, reason=reason))
            return reporting(event, NcclPluginFailed(kind=kind, name=name, reason=reason))
    return event


def _is_cut(reason: str) -> bool:
    """Return whether the line was cut within the words that report a missing plugin."""
    library, _, words = reason.partition(": ")
    return (
        (_OF_PLUGINS in library or "libnccl-".startswith(library))
        and words != _ABSENT
        and _ABSENT.startswith(words)
    )
