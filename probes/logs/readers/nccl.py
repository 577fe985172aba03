"""What a run of NCCL or RCCL tells of itself with NCCL_DEBUG=INFO, versions 2.2 to 2.30: never of a fault.

Kinds and fields (a field is absent where the line does not name it): nccl.version{version, cuda};
nccl.driver{api}: the CUDA version of the driver, 12080 for 12.8. nccl.environment{name, value, by}: in force;
`by` is `environment`, or `plugin` where a plugin sets it. nccl.environment-invalid{name, value, used};
nccl.matrix-forced: NCCL_ALGO or NCCL_PROTO leave combinations out. nccl.bootstrap{interface, address};
nccl.bootstrap-timings{total_s, receive_s}. nccl.network{name}: what carries data between nodes, per process:
IB, Socket, AWS Libfabric, gIB, FasTrak, IBext_v8. nccl.hcas{names, links, count, relaxed_ordering,
interface}: `mlx5_0:1,mlx5_1:1`, `IB,RoCE` (each link layer once). nccl.hca{index, name, port, link, provider,
speed_mbps, pci}; nccl.hca-merged{name, ports, speed_mbps}. nccl.queue-pair{hca, port, mtu, gid_index, lid}.
nccl.no-ib{reason}: `no device`, `no libibverbs`, `not initialized`. nccl.socket-interfaces{names, addresses,
count}; nccl.socket-threads{threads, sockets}. nccl.gdr{enabled, hca, gpu, distance, limit, module, reason},
for adapters of RDMA alone; nccl.dma-buf{gpu}. nccl.channels{coll, collnet, nvls, p2p, p2p_per_peer};
nccl.trees{channels}; nccl.connected{what, pxn, gdr}. nccl.nvls{available, gpu}; nccl.nvls-buffers{heads};
nccl.sharp{what}. nccl.mnnvl{enabled, clique, clique_size, uuid, state, health}. nccl.init-start,
nccl.init-complete{rank, ranks, comm, gpu, bus, parent}; nccl.destroyed, nccl.aborted{rank, ranks, comm}.
nccl.comm-shape{rank, ranks, nodes, local_ranks, mnnvl}; nccl.init-timings{rank, ranks, total_s, kernels_s,
alloc_s, bootstrap_s, allgathers_s, topo_s, graphs_s, connections_s, rest_s}: what there is of them.
nccl.system{max_gbps, total_gbps}, nccl.topology{link, gbps, to}: gigabytes per second; nccl.graph{pattern,
channels, intra, inter}; nccl.topology-loaded{path}; nccl.link-speed-unknown{path}; nccl.virtual-nic{path}.
nccl.tuned{coll, algorithm, protocol}; nccl.ras{address}; nccl.p2p-unavailable{a, b, bus_a, bus_b};
nccl.p2p-disabled{a, b, nvlink}; nccl.net-count-mismatch{least, most}; nccl.cumem-host{};
nccl.shared-memory-exceeded{needed, found}: bytes; the library does not know this GPU, kernels will not start.

Source: NVIDIA/nccl, src/init.cc, bootstrap.cc, transport/net_ib*, net_socket.cc, graph/*.cc, misc/param.cc of
tags 2.4 to 2.30.
"""

from __future__ import annotations

import re

import msgspec

from probes.base.patterns import pattern
from probes.logs.event import Event, Value, event_of
from probes.logs.line import LogLine
from probes.logs.readers.nccl_prefix import located, read_located
from probes.logs.readers.row_readers import row, signs
from probes.logs.readers.whole_text import Once

_HEX = r"(?:0x)?[0-9a-fA-F]{1,18}"
_COMM = (
    rf"comm (?P<comm_address>{_HEX})(?: \w+ {_HEX})? rank (?P<rank>\d{{1,7}}) nranks (?P<ranks>\d{{1,7}})"
    r"(?: cudaDev (?P<gpu>-?\d{1,4}))?(?: nvmlDev -?\d{1,4})?(?: busId (?P<bus>[0-9a-fA-F:.]{1,16}))?(?: localSize \d{1,18})?"
    rf"(?: used \d{{1,18}} bytes.{{0,40}}?)?(?: commId (?P<comm_id>{_HEX}))?"
    rf"(?: parent (?P<parent>{_HEX}) (?:splitCount|childCount) (?P<split>-?\d{{1,9}}) color "
    rf"(?P<color>-?\d{{1,11}})(?: key -?\d{{1,11}})?)?"
)

_ROWS = (
    row("nccl.init-start", "- Init START", rf"{_COMM}.{{0,80}}?- Init START"),
    row("nccl.init-complete", "- Init COMPLETE", rf"{_COMM}.{{0,80}}?- Init COMPLETE"),
    row("nccl.init-start", " INFO comm 0x", rf"{_COMM}$"),
    row("nccl.destroyed", "- Destroy COMPLETE", _COMM),
    row("nccl.aborted", "- Abort COMPLETE", _COMM),
    row(
        "nccl.comm-shape",
        " nNodes ",
        r"rank (?P<rank>\d{1,7}) nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,7})"
        r"(?: localRanks (?P<local_ranks>\d{1,7}) localRank \d{1,7}(?: MNNVL (?P<mnnvl>\d))?)?",
    ),
    row(
        "nccl.init-timings",
        "Init timings",
        r"rank (?P<rank>\d{1,7}) nranks (?P<ranks>\d{1,7}) total (?P<total_s>[\d.]{1,12})(?: \((?P<steps>[\w ,.]{1,300}))?",
    ),
    row(
        "nccl.bootstrap-timings",
        "Bootstrap timings",
        r"timings total (?P<total_s>[\d.]{1,12})(?: \(.{0,80}?recv (?P<receive_s>[\d.]{1,12}))?",
    ),
    row(
        "nccl.version",
        "NCCL version ",
        r"\bNCCL version (?P<version>\d{1,2}\.\d{1,3}\.\d{1,3}[\w.-]{0,20})"
        r"(?:\+cuda(?P<cuda>\d{1,2}\.\d{1,2}))?(?=[\s.,)]|$)(?! or)",
    ),
    row("nccl.driver", "cudaDriverVersion ", r"cudaDriverVersion (?P<api>\d{4,6})"),
    row(
        "nccl.environment",
        " set by environment to ",
        r"\b(?P<name>(?:R?NCCL|NCCLX|OFI)_\w{1,60}) set by environment to (?P<value>.{0,300}?)\.?\s*$",
        by="environment",
    ),
    row(
        "nccl.environment",
        " set to ",
        r" INFO (?P<name>NCCL_\w{1,60}) set to (?P<value>.{1,300}?)\s*$",
        by="environment",
    ),
    row(
        "nccl.environment",
        "Setting ",
        r"Setting (?P<name>(?:NCCL|FI|OFI_NCCL|RDMAV)_\w{1,60})(?: environment variable)? to \"?"
        r"(?P<value>[^\"\n]{0,300}?)\"?\.?\s*$",
        by="plugin",
    ),
    row(
        "nccl.environment",
        " to environment",
        r"Adding (?P<name>[A-Z]\w{1,60})=(?P<value>.{0,300}?) to environment",
        by="plugin",
    ),
    row(
        "nccl.environment-invalid",
        ", using default ",
        r"Invalid value (?P<value>.{0,100}?) for (?P<name>\w{1,60}), using default (?P<used>-?\d{1,18})",
    ),
    row("nccl.matrix-forced", "Func/Proto/Algo Matrix"),
    row(
        "nccl.network", "Using network ", r"Using network (?P<name>[A-Za-z][\w .-]{0,60}?)\s*(?:[^\w\s.-]|$)"
    ),
    row("nccl.network", " network plugin result", r"Using network plugin result (?P<name>\S{1,60})"),
    row("nccl.network", "Using internal Network ", r"Using internal Network (?P<name>\w{1,40})"),
    row("nccl.network", "Using internal network ", r"Using internal network (?P<name>IB|Socket)\b"),
    row("nccl.network", "Assigned NET plugin ", r"Assigned NET plugin (?P<name>\S.{0,60}?) to comm"),
    row(
        "nccl.hca",
        " provider=",
        r"NET/IB ?: \[(?P<index>\d{1,4})\] ?(?P<name>[\w-]{1,64}):[\w-]{1,64}:(?P<port>\d{1,3})/(?P<link>\w{1,12})"
        r" provider=(?P<provider>\w{1,32}) speed=(?P<speed_mbps>\d{1,9})"
        r"(?:.{0,40}? pciPath=(?:\S{0,300}/)?(?P<pci>[0-9a-f:.]{7,16}))?",
    ),
    row(
        "nccl.hca-merged",
        "Made virtual device",
        r"virtual device \[\d{1,4}\] name=(?P<name>\S{1,200}) speed=(?P<speed_mbps>\d{1,9}) ndevs=(?P<ports>\d{1,3})",
    ),
    row(
        "nccl.queue-pair",
        " qpn ",
        r"(?:Ib)?Dev (?P<hca>\S{1,40}) Port (?P<port>\d{1,3}) qpn \d{1,10} mtu (?P<mtu>\d{1,4})"
        r"(?: LID (?P<lid>\d{1,6}))?(?: GID (?P<gid_index>-?\d{1,4}))?",
    ),
    row("nccl.no-ib", "NET/IB : No device found", reason="no device"),
    row("nccl.no-ib", "NET/IB: No device found", reason="no device"),
    row(
        "nccl.no-ib",
        "open libibverbs.so",
        r"(?:Failed|Could not|Count not|Couldn't) (?:to )?open libibverbs\.so",
        reason="no libibverbs",
    ),
    row(
        "nccl.no-ib",
        "Failed to initialize NET plugin IB",
        r"NET plugin IB\b(?!ext)",
        reason="not initialized",
    ),
    row(
        "nccl.socket-threads",
        "sockets per thread",
        r"Using (?P<threads>\d{1,4}) threads and (?P<sockets>\d{1,4}) sockets per thread",
    ),
    row(
        "nccl.channels",
        "coll channels, ",
        r"(?P<coll>\d{1,4}) coll channels,(?: (?P<collnet>\d{1,4}) collnet channels,)?(?: (?P<nvls>\d{1,4}) nvls channels,)?"
        r" (?P<p2p>\d{1,4}) p2p channels(?:, (?P<p2p_per_peer>\d{1,4}) p2p channels per peer)?",
    ),
    row(
        "nccl.connected",
        "Connected all rings",
        r"(?P<what>rings)(?:, use ring PXN (?P<pxn>\d) GDR (?P<gdr>\d))?",
    ),
    row("nccl.connected", "Connected all trees", what="trees"),
    row("nccl.connected", "Connected binomial trees", what="binomial trees"),
    row("nccl.connected", "Connected NVLS tree", what="NVLS"),
    row("nccl.sharp", "Connected Collnet", r"Connected (?P<what>Collnet \w{1,20})"),
    row("nccl.sharp", "SHARP coll initialized", what="initialized"),
    row(
        "nccl.nvls",
        "NVLS multicast support is not available",
        r"not available on dev (?P<gpu>\d{1,4})",
        available=0,
    ),
    row(
        "nccl.nvls", "NVLS multicast support is available", r"available on dev (?P<gpu>\d{1,4})", available=1
    ),
    row(
        "nccl.nvls-buffers", "NVLS comm ", r"NVLS comm \S{1,20} headRank -?\d{1,4} nHeads (?P<heads>\d{1,4})"
    ),
    row(
        "nccl.mnnvl",
        "MNNVL busId",
        rf"fabric UUID (?P<uuid>[0-9a-fA-F]{{1,16}}\.[0-9a-fA-F]{{1,16}}) cliqueId (?P<clique>{_HEX})"
        rf" state (?P<state>\d{{1,3}}) healthMask (?P<health>{_HEX})",
    ),
    row(
        "nccl.mnnvl",
        "cliqueSize ",
        rf"MNNVL (?P<enabled>\d) .{{0,60}}?cliqueId (?P<clique>{_HEX}) cliqueSize (?P<clique_size>\d{{1,6}})"
        rf"(?:.{{0,80}}?healthMask (?P<health>{_HEX}))?",
    ),
    row(
        "nccl.gdr",
        "GPU Direct RDMA ",
        r"NET/(?!Socket|FastSocket)\w[\w .-]{0,40}? ?: GPU Direct RDMA (?:\((?P<module>[\w -]{1,30})\) )?"
        r"(?P<enabled>[EeDd]\w{6,8}) for (?:GPU (?P<gpu>\S{1,40}) / )?"
        r"HCA (?P<hca>\d{1,4}(?: '[^']{1,64}'?)?|\S{1,40})(?: \(distance (?P<distance>\d{1,3}) \S{1,2} (?P<limit>\d{1,3})\))?",
    ),
    row(
        "nccl.gdr",
        "GPU Direct RDMA ",
        r" INFO GPU Direct RDMA (?P<enabled>[ED]\w{6,7}) for GPU (?P<gpu>\S{1,40}) / HCA (?P<hca>\S{1,40})"
        r" \(distance (?P<distance>\d{1,3}) \S{1,2} (?P<limit>\d{1,3})\)",
    ),
    row("nccl.dma-buf", "DMA-BUF is available", r"on GPU device (?P<gpu>\d{1,4})"),
    row(
        "nccl.system",
        "=== System : maxBw",
        r"maxBw (?P<max_gbps>[\d.]{1,10}) totalBw "
        r"(?P<total_gbps>[\d.]{1,10})",
    ),
    row(
        "nccl.system",
        "=== System : maxWidth",
        r"maxWidth (?P<max_gbps>[\d.]{1,10}) totalWidth "
        r"(?P<total_gbps>[\d.]{1,10})",
    ),
    row("nccl.topology", "+ NVL[", r"\+ (?P<link>NVL)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>GPU|NVS)/"),
    row("nccl.topology", "+ NET[", r"\+ (?P<link>NET)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>NET)/"),
    row("nccl.topology", "] - GPU/", r"\+ (?P<link>PCI|C2C)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>GPU)/"),
    row(
        "nccl.graph",
        ", crossNic ",
        r"Pattern (?P<pattern>\d{1,2}), crossNic \d{1,2}, nChannels (?P<channels>\d{1,4}), "
        r"(?:bw|speed) (?P<gbps>[\d./]{1,30}),"
        r"(?: nvlink \d,)? type (?P<intra>\w{2,4})(?:/(?P<inter>\w{2,4}))?",
    ),
    row("nccl.topology-loaded", "Loading topology file ", r"topology file (?P<path>\S{1,300})"),
    row(
        "nccl.link-speed-unknown",
        "Topology detection",
        r"detection ?: could not read (?P<path>\S{1,300}link_\w{5}),",
    ),
    row("nccl.virtual-nic", "Topology detection", r"network path (?P<path>\S{1,300}) is not a PCI device"),
    row(
        "nccl.tuned",
        "-> Algo",
        r"(?P<coll>\w{1,30}): \d{1,18} Bytes -> Algo (?P<algorithm>\w{1,20}) proto (?P<protocol>\w{1,12})",
    ),
    row("nccl.ras", "RAS client listening socket", r"socket at (?P<address>\S{1,100})"),
    row(
        "nccl.p2p-unavailable",
        "Could not enable P2P between dev",
        r"dev (?P<a>\d{1,4})\(=(?P<bus_a>[0-9a-f]{1,12})\) and dev (?P<b>\d{1,4})\(=(?P<bus_b>[0-9a-f]{1,12})\)",
    ),
    row(
        "nccl.p2p-disabled",
        "P2P is disabled between",
        r"between (?P<nvlink>NVLINK )?connected GPUs (?P<a>\d{1,4}) and (?P<b>\d{1,4})",
    ),
    row(
        "nccl.net-count-mismatch",
        "mixed local Net device counts",
        r"min (?P<least>\d{1,4}), max (?P<most>\d{1,4})",
    ),
    row(
        "nccl.shared-memory-exceeded",
        "ncclMaxSharedMem",
        r"ncclMaxSharedMem (?P<needed>\d{1,9}) exceeds device/fn maxSharedMem (?P<found>\d{1,9})",
    ),
    row("nccl.cumem-host", "cuMem host allocations do not appear"),
)

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
    *signs(_ROWS),
    b": Using [",
    b"Bootstrap : Using",
    b"Bootstrap: Using",
    b"NET : Using interface",
    b" INFO Trees [",
)
_MOST_NAMES = 256
_FOLDED_END = "across cluster]"
_FOLDED = pattern(r"\s\[repeated (\d{1,7})x across cluster\]$")
"""How Ray shows one line for many that are alike."""
_STEP = pattern(r"([a-z]\w{1,20}) (\d{1,8}\.\d{1,8})")
_EACH = frozenset(
    (
        "nccl.connected",
        "nccl.init-start",
        "nccl.init-complete",
        "nccl.init-timings",
        "nccl.destroyed",
        "nccl.aborted",
    )
)


def read(line: LogLine) -> tuple[Event, ...]:
    """What the line tells; nothing where it is none of NCCL's."""
    if line.text.endswith(_FOLDED_END) and (folded := _FOLDED.search(line.text)) is not None:
        events = read(line._replace(text=line.text[: folded.start()]))
        return tuple(msgspec.structs.replace(event, count=1 + int(folded[1])) for event in events)
    lists = _lists(line)
    if lists:
        return lists
    events = read_located(_ROWS, line)
    return tuple(_completed(event) for event in events)


class Reader:
    """Leaves out what a host has said before: 10 000 ranks tell the same of the same environment.

    NCCL says of a variable that a plugin set that the environment did; the plugin's own word comes first and
    counts.
    """

    def __init__(self) -> None:
        self._once = Once()
        self._by_plugin: set[Value] = set()

    def read(self, line: LogLine) -> tuple[Event, ...]:
        """What the line tells that is new."""
        return tuple(event for event in read(line) if self._is_new(self._attributed(event)))

    def end(self) -> tuple[Event, ...]:
        return ()

    def _attributed(self, event: Event) -> Event:
        if event.kind == "nccl.environment":
            if event.fields["by"] == "plugin" and len(self._by_plugin) < _MOST_NAMES:
                self._by_plugin.add(event.fields["name"])
            elif event.fields["name"] in self._by_plugin:
                event.fields["by"] = "plugin"
        return event

    def _is_new(self, event: Event) -> bool:
        if event.kind in _EACH:
            return True
        varying = ("rank", "gpu") if event.kind in ("nccl.comm-shape", "nccl.nvls", "nccl.dma-buf") else ()
        return self._once.is_new(
            (
                event.kind,
                event.host,
                *((name, value) for name, value in event.fields.items() if name not in varying),
            )
        )


def _completed(event: Event) -> Event:
    """With the words of the line made into what they mean."""
    fields = event.fields
    match event.kind:
        case "nccl.gdr":
            fields["enabled"] = int(str(fields.get("enabled", "")).lower().startswith("en"))
            if not fields["enabled"]:
                fields["reason"] = "distance" if "distance" in fields else "no module"
        case "nccl.p2p-disabled":
            fields["nvlink"] = int("nvlink" in fields)
        case "nccl.p2p-unavailable":
            fields |= {"bus_a": str(fields["bus_a"]), "bus_b": str(fields["bus_b"])}
        case "nccl.init-timings":
            fields |= {f"{name}_s": seconds for name, seconds in _STEP.findall(str(fields.pop("steps", "")))}
        case "nccl.version":
            fields["version"] = str(fields["version"]).rstrip(".")
        case "nccl.init-start" | "nccl.init-complete" | "nccl.destroyed" | "nccl.aborted":
            fields["comm"] = _communicator(fields)
            if "bus" in fields:  # hexadecimal, also where it has digits alone
                fields["bus"] = str(fields["bus"])
            for name in ("comm_address", "comm_id", "split", "color"):
                fields.pop(name, None)
    return event


def _communicator(fields: dict[str, Value]) -> str:
    """One name for all ranks of a communicator where the line has one; its address is another in each
    process.
    """
    if "comm_id" in fields:
        return str(fields["comm_id"])
    if "parent" in fields:
        return f"split {fields.get('split')} color {fields.get('color')}"
    return ""


def _lists(line: LogLine) -> tuple[Event, ...]:
    """Lines that list things."""
    text = line.text
    if "Using" in text:
        if (match := _BOOTSTRAP.search(text)) is not None:
            return (event_of("nccl.bootstrap", located(line), {"interface": match[1], "address": match[2]}),)
        if (match := _SOCKETS.search(text)) is not None:
            return _sockets(match["list"], located(line))
        if (match := _ADAPTERS.search(text)) is not None:
            return _adapters(match, located(line))
    if "Trees [" in text and (match := _TREES.search(text)) is not None:
        return (event_of("nccl.trees", located(line), {"channels": match[1].count("[")}),)
    return ()


def _sockets(words: str, line: LogLine) -> tuple[Event, ...]:
    found = _SOCKET.findall(words)
    if not found:
        return ()
    names = ",".join(name for name, _ in found)
    addresses = ",".join(address for _, address in found)
    return (
        event_of(
            "nccl.socket-interfaces", line, {"names": names, "addresses": addresses, "count": len(found)}
        ),
    )


def _adapters(match: re.Match[str], line: LogLine) -> tuple[Event, ...]:
    found = _ADAPTER.findall(match["list"])
    if not found:
        return ()
    links = ",".join(sorted({link for _, link, _ in found}))
    names = ",".join(name for name, _, _ in found)
    fields: dict[str, Value] = {
        "names": names,
        "links": links,
        "count": len(found),
        "relaxed_ordering": int("[RO]" in match["list"]),
    }
    if (interface := _OUT_OF_BAND.search(match["rest"] or "")) is not None:
        fields["interface"] = interface[1]
    events = [event_of("nccl.hcas", line, fields)]
    if any("SHARP" in features for _, _, features in found):
        events.append(event_of("nccl.sharp", line, {"what": "adapters"}))
    return tuple(events)
