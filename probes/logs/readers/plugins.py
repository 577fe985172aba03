"""Plugins of NCCL: which were looked for, loaded and given up, and what the networks' own plugins say.

Kinds and fields (a field is absent where the line does not name it): nccl.plugin-loaded{kind, name, version,
path}; nccl.plugin-missing{kind, name}: there is none, which is no fault of its own; nccl.plugin-failed{kind,
name, reason}: there is one, and it does not load or start. `kind` is net, tuner, profiler, collnet, gin or
env. nccl.network-plugin{name, version}: FasTrak (TCPXO), GPUDirectTCPX or gIB speaks. nccl.plugin-error{name,
message}: a warning that is of no failure. Probing for symbols of older interfaces (`Failed to find
ncclNetPlugin_v8 symbol`) is told of by none. Source: NVIDIA/nccl, src/plugin/*.cc, src/net.cc of tags 2.4 to
2.30; Mellanox/nccl-rdma-sharp-plugins; google/nccl-fastsocket and the TCPX and TCPXO guides of Google Cloud.
"""

from __future__ import annotations

from probes.base.patterns import pattern
from probes.logs.event import Event, of_kind
from probes.logs.line import LogLine
from probes.logs.readers.nccl_prefix import is_informative, read_located
from probes.logs.readers.row_readers import row, signs

_KIND = r"(?P<kind>[A-Za-z]{2,10})"
_ROWS = (
    row(
        "nccl.plugin-loaded",
        "/Plugin: Loaded ",
        rf"{_KIND}/Plugin: Loaded \w{{1,10}} plugin (?P<name>\S.{{0,60}}?) \(?(?P<version>v\d{{1,3}})\)?",
    ),
    row(
        "nccl.plugin-loaded",
        "/Plugin: Using ",
        rf"{_KIND}/Plugin: Using (?:\w{{1,10}} plugin )?(?P<name>(?!internal|default)\S.{{0,60}}?)"
        rf"(?: \((?P<version>v\d{{1,3}})\))?\s*$",
    ),
    row(
        "nccl.plugin-loaded",
        "uccessfully loaded external",
        r"loaded external (?P<kind>\w{2,10} )?plugin (?P<path>\S{1,300})",
    ),
    row("nccl.plugin-loaded", "P2P plugin ", r"P2P plugin (?P<version>v\d{1,3} )?(?P<name>\w{2,30})"),
    row("nccl.plugin-loaded", "Plugin Path", r"Plugin Path ?: (?P<path>/\S{1,300})"),
    row(
        "nccl.plugin-missing",
        "/Plugin",
        rf"{_KIND}/Plugin ?: No plugin found(?: \((?P<name>[^)\s]{{1,100}})\))?",
    ),
    row(
        "nccl.plugin-missing",
        "/Plugin: Could not find",
        rf"{_KIND}/Plugin: Could not find: ?(?P<name>\S{{1,200}}?)[. ]*(?:\s|$)",
    ),
    row(
        "nccl.plugin-missing",
        "Plugin load ",
        rf"{_KIND}/Plugin ?: Plugin load (?:\((?P<name>[^)\s]{{1,100}})\) )?returned \d{{1,3}} : "
        rf"(?:\S{{1,200}}: )?cannot open shared object file",
    ),
    row(
        "nccl.plugin-load",
        "Plugin load ",
        rf"{_KIND}/Plugin ?: Plugin load (?:\((?P<name>[^)\s]{{1,100}})\) )?returned \d{{1,3}} : (?P<reason>.{{2,250}})",
    ),
    row(
        "nccl.plugin-load",
        "dlerror=",
        rf"{_KIND}/Plugin ?: dlerror=(?P<reason>.{{2,160}}?) ?(?:No plugin found \((?P<name>[^)\s]{{1,100}})\).{{0,60}})?\s*$",
    ),
    row(
        "nccl.plugin-load",
        "/Plugin: lib",
        rf"{_KIND}/Plugin: (?P<name>lib[\w.+-]{{1,80}}\.so[\w.]{{0,12}}): (?P<reason>.{{2,250}})",
    ),
    row(
        "nccl.plugin-load",
        "/Plugin: /",
        rf"{_KIND}/Plugin: (?P<name>/\S{{1,250}}\.so[\w.]{{0,12}}): (?P<reason>.{{2,250}})",
    ),
    row(
        "nccl.plugin-failed",
        "Failed to initialize ",
        r"Failed to initialize (?P<kind>NET|TUNER|PROFILER|GIN|COLLNET|CollNet|Net) plugin "
        r"(?!IB\b|Socket\b)(?P<name>\S.{0,60}?)\s*$",
    ),
    row(
        "nccl.plugin-failed",
        "/Plugin: ",
        rf"{_KIND}/Plugin: (?P<reason>[Ff]ailed to (?:load|init|open).{{0,200}})",
    ),
    row(
        "nccl.network-plugin", "NET/FasTrak", r"NET/(?P<name>FasTrak) v(?:er)?\.? ?(?P<version>\d[\w.]{0,20})"
    ),
    row("nccl.network-plugin", "NET/FasTrak", r"NET/(?P<name>FasTrak) (?:plugin )?initialized"),
    row(
        "nccl.network-plugin",
        "NET/GPUDirectTCPX",
        r"NET/(?P<name>GPUDirectTCPX\w{0,8}) ver\. ?(?P<version>\d[\w.]{0,30}?)\.?\s*$",
    ),
    row(
        "nccl.network-plugin",
        "NET/gIB",
        r"NET/(?P<name>gIB) ?:? (?:Initializing|Using) gIB(?: v(?:ersion)? ?)?(?P<version>\d[\w.]{0,20})?",
    ),
)
_ERRORS = (
    row(
        "nccl.plugin-failed",
        "Failed to initialize any",
        r"(?P<reason>Failed to initialize any (?P<kind>\w{2,10}) plugin)",
    ),
    row("nccl.plugin-failed", "UCX error", r"(?P<reason>Failed: (?P<name>UCX) error .{2,160})"),
    row(
        "nccl.plugin-error",
        "NET/",
        r"WARN.{0,40}? NET/(?P<name>FasTrak|GPUDirectTCPX\w{0,8}|gIB|UCX|IBext\w{0,8}|FastSocket) ?:? (?P<message>\S.{0,300})",
    ),
    row(
        "nccl.plugin-error",
        "NET/GPUDirectTCPX",
        r"NET/(?P<name>GPUDirectTCPX\w{0,8}) ?: (?P<message>(?:[Uu]nable|[Ff]ailed|[Cc]ould not).{2,200})",
    ),
    row(
        "nccl.plugin-error",
        "NET/FasTrak",
        r"NET/(?P<name>FasTrak)[^:]{0,60}: (?P<message>(?:[Uu]nable|[Ff]ailed|[Cc]ould not).{2,200})",
    ),
)
_FAILURE = pattern(r"(?i)\bfail|unable to|could not|cannot|timed out|refused|not found")
_OF_PLUGINS = "ccl-"
"""In the names of plugins of NCCL and RCCL (`libnccl-net.so`, `librccl-net.so`), and not in those of what
they need.
"""
_ABSENT = "cannot open shared object file"
_OTHER_LIBRARY = pattern(r"\b(lib[\w+-]{1,60}\.so[\w.]{0,16}): cannot open shared object file")

SIGNS = tuple(sign for sign in signs((*_ROWS, *_ERRORS)) if sign not in (b"NET/",))


def read(line: LogLine) -> tuple[Event, ...]:
    """What a plugin says, or NCCL of it."""
    if found := read_located(_ROWS, line):
        return (_judged(found[0], line.text),)
    if is_informative(line.text):
        return ()
    return tuple(_judged(_failed(event), line.text) for event in read_located(_ERRORS, line))


def _failed(event: Event) -> Event:
    """Where a plugin's warning is of a failure, the plugin failed."""
    message = str(event.fields.get("message", ""))
    if event.kind != "nccl.plugin-error" or _FAILURE.search(message) is None:
        return event
    return of_kind(event, "nccl.plugin-failed", {"name": event.fields["name"], "reason": message})


def _judged(event: Event, text: str) -> Event:
    """A plugin that is not there is missing, one that lacks another library or a symbol fails."""
    fields = event.fields
    if event.kind.startswith("nccl.plugin-"):
        kind = str(fields.get("kind", "net")).strip().lower()
        fields["kind"] = "net" if kind == "network" else kind
    for name in ("name", "version", "path"):
        if name in fields:
            fields[name] = str(fields[name]).strip(" .") if name == "version" else str(fields[name]).strip()
    missing = _OTHER_LIBRARY.search(text)
    if (
        event.kind == "nccl.plugin-missing"
        and missing is not None
        and _OF_PLUGINS not in missing[1]
        and "-net" not in missing[1]
    ):
        fields["reason"] = f"{missing[1]} cannot be opened"
        return of_kind(event, "nccl.plugin-failed")
    if event.kind != "nccl.plugin-load":
        return event
    if _is_cut(str(fields.get("reason", ""))):
        return of_kind(event, "nccl.plugin-missing", {"kind": fields["kind"]})
    is_absent = _ABSENT in text and (missing is None or _OF_PLUGINS in missing[1])
    return of_kind(event, "nccl.plugin-missing" if is_absent else "nccl.plugin-failed")


def _is_cut(reason: str) -> bool:
    """Whether the line ends within the words that say that there is no plugin."""
    library, _, words = reason.partition(": ")
    return (
        (_OF_PLUGINS in library or "libnccl-".startswith(library))
        and words != _ABSENT
        and _ABSENT.startswith(words)
    )
