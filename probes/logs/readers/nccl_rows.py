"""Rows that parse the log lines of NCCL about a healthy start and about the network."""

from typing import Any

import msgspec

from probes.base.patterns import pattern
from probes.logs.events.nccl_events import (
    NcclAborted,
    NcclBootstrapTimings,
    NcclChannels,
    NcclCommShape,
    NcclConnected,
    NcclCumemHost,
    NcclDestroyed,
    NcclDriver,
    NcclEnvironment,
    NcclEnvironmentInvalid,
    NcclGraph,
    NcclInitComplete,
    NcclInitStart,
    NcclInitTimings,
    NcclLinkSpeedUnknown,
    NcclMatrixForced,
    NcclMnnvl,
    NcclNvls,
    NcclNvlsBuffers,
    NcclP2pDisabled,
    NcclP2pUnavailable,
    NcclRankOfCommunicator,
    NcclRas,
    NcclSharedMemoryExceeded,
    NcclSystem,
    NcclTopology,
    NcclTopologyLoaded,
    NcclTuned,
    NcclVersion,
    NcclVirtualNic,
)
from probes.logs.events.nccl_network_events import (
    NcclDmaBuf,
    NcclGdr,
    NcclHca,
    NcclHcaMerged,
    NcclNetCountMismatch,
    NcclNetwork,
    NcclNoIb,
    NcclQueuePair,
    NcclSharp,
    NcclSocketThreads,
)
from probes.logs.readers.row_readers import Finish, row

_HEX = r"(?:0x)?[0-9a-fA-F]{1,18}"
_COMM = (
    rf"comm (?P<comm_address>{_HEX})(?: \w+ {_HEX})? rank (?P<rank>\d{{1,7}}) nranks (?P<ranks>\d{{1,7}})"
    r"(?: cudaDev (?P<gpu>-?\d{1,4}))?(?: nvmlDev -?\d{1,4})?(?: busId (?P<bus>[0-9a-fA-F:.]{1,16}))?"
    r"(?: localSize \d{1,18})?"
    rf"(?: used \d{{1,18}} bytes.{{0,40}}?)?(?: commId (?P<comm_id>{_HEX}))?"
    rf"(?: parent (?P<parent>{_HEX}) (?:splitCount|childCount) (?P<split>-?\d{{1,9}}) color "
    rf"(?P<color>-?\d{{1,11}})(?: key -?\d{{1,11}})?)?"
)

_STEP = pattern(r"([a-z]\w{1,20}) (\d{1,8}\.\d{1,8})")
_STEPS = frozenset(field.name for field in msgspec.structs.fields(NcclInitTimings))


def _gdr(fields: dict[str, Any]) -> NcclGdr:
    enabled = fields.pop("enabled").lower().startswith("en")
    reason = None if enabled else "distance" if "distance" in fields else "no module"
    return NcclGdr(**fields, enabled=enabled, reason=reason)


def _p2p_disabled(fields: dict[str, Any]) -> NcclP2pDisabled:
    return NcclP2pDisabled(a=fields["a"], b=fields["b"], nvlink="nvlink" in fields)


def _init_timings(fields: dict[str, Any]) -> NcclInitTimings:
    steps: dict[str, Any] = {
        f"{name}_s": float(seconds) for name, seconds in _STEP.findall(fields.pop("steps", ""))
    }
    return NcclInitTimings(**fields, **{name: seconds for name, seconds in steps.items() if name in _STEPS})


def _version(fields: dict[str, Any]) -> NcclVersion:
    return NcclVersion(**{**fields, "version": fields["version"].rstrip(".")})


def _rank_of(record: type[NcclRankOfCommunicator]) -> Finish:
    """Return a function that makes a record with the communicator's name, if the line has one.

    The name is equal in all processes, while the address of a communicator differs.
    """

    def finish(fields: dict[str, Any]) -> NcclRankOfCommunicator:
        name, parent = fields.get("comm_id"), fields.get("parent")
        if name is None and parent is not None:
            name = f"split {fields.get('split')} color {fields.get('color')}"
        kept = {field: fields[field] for field in ("rank", "ranks", "gpu", "bus") if field in fields}
        return record(**kept, comm="" if name is None else str(name), parent=parent)

    return finish


ROWS = (
    row(NcclInitStart, "- Init START", rf"{_COMM}.{{0,80}}?- Init START", finish=_rank_of(NcclInitStart)),
    row(
        NcclInitComplete,
        "- Init COMPLETE",
        rf"{_COMM}.{{0,80}}?- Init COMPLETE",
        finish=_rank_of(NcclInitComplete),
    ),
    row(NcclInitStart, " INFO comm 0x", rf"{_COMM}$", finish=_rank_of(NcclInitStart)),
    row(NcclDestroyed, "- Destroy COMPLETE", _COMM, finish=_rank_of(NcclDestroyed)),
    row(NcclAborted, "- Abort COMPLETE", _COMM, finish=_rank_of(NcclAborted)),
    row(
        NcclCommShape,
        " nNodes ",
        r"rank (?P<rank>\d{1,7}) nRanks (?P<ranks>\d{1,7}) nNodes (?P<nodes>\d{1,7})"
        r"(?: localRanks (?P<local_ranks>\d{1,7}) localRank \d{1,7}(?: MNNVL (?P<mnnvl>\d))?)?",
    ),
    row(
        NcclInitTimings,
        "Init timings",
        r"rank (?P<rank>\d{1,7}) nranks (?P<ranks>\d{1,7}) total (?P<total_s>[\d.]{1,12})"
        r"(?: \((?P<steps>[\w ,.]{1,300}))?",
        finish=_init_timings,
    ),
    row(
        NcclBootstrapTimings,
        "Bootstrap timings",
        r"timings total (?P<total_s>[\d.]{1,12})(?: \(.{0,80}?recv (?P<receive_s>[\d.]{1,12}))?",
    ),
    row(
        NcclVersion,
        "NCCL version ",
        r"\bNCCL version (?P<version>\d{1,2}\.\d{1,3}\.\d{1,3}[\w.-]{0,20})"
        r"(?:\+cuda(?P<cuda>\d{1,2}\.\d{1,2}))?(?=[\s.,)]|$)(?! or)",
        finish=_version,
    ),
    row(NcclDriver, "cudaDriverVersion ", r"cudaDriverVersion (?P<api>\d{4,6})"),
    row(
        NcclEnvironment,
        " set by environment to ",
        r"\b(?P<name>(?:R?NCCL|NCCLX|OFI)_\w{1,60}) set by environment to (?P<value>.{0,300}?)\.?\s*$",
        by="environment",
    ),
    row(
        NcclEnvironment,
        " set to ",
        r" INFO (?P<name>NCCL_\w{1,60}) set to (?P<value>.{1,300}?)\s*$",
        by="environment",
    ),
    row(
        NcclEnvironment,
        "Setting ",
        r"Setting (?P<name>(?:NCCL|FI|OFI_NCCL|RDMAV)_\w{1,60})(?: environment variable)? to \"?"
        r"(?P<value>[^\"\n]{0,300}?)\"?\.?\s*$",
        by="plugin",
    ),
    row(
        NcclEnvironment,
        " to environment",
        r"Adding (?P<name>[A-Z]\w{1,60})=(?P<value>.{0,300}?) to environment",
        by="plugin",
    ),
    row(
        NcclEnvironmentInvalid,
        ", using default ",
        r"Invalid value (?P<value>.{0,100}?) for (?P<name>\w{1,60}), using default (?P<used>-?\d{1,18})",
    ),
    row(NcclMatrixForced, "Func/Proto/Algo Matrix"),
    row(NcclNetwork, "Using network ", r"Using network (?P<name>[A-Za-z][\w .-]{0,60}?)\s*(?:[^\w\s.-]|$)"),
    row(NcclNetwork, " network plugin result", r"Using network plugin result (?P<name>\S{1,60})"),
    row(NcclNetwork, "Using internal Network ", r"Using internal Network (?P<name>\w{1,40})"),
    row(NcclNetwork, "Using internal network ", r"Using internal network (?P<name>IB|Socket)\b"),
    row(NcclNetwork, "Assigned NET plugin ", r"Assigned NET plugin (?P<name>\S.{0,60}?) to comm"),
    row(
        NcclHca,
        " provider=",
        r"NET/IB ?: \[(?P<index>\d{1,4})\] ?(?P<name>[\w-]{1,64}):[\w-]{1,64}:(?P<port>\d{1,3})/"
        r"(?P<link>\w{1,12})"
        r" provider=(?P<provider>\w{1,32}) speed=(?P<speed_mbps>\d{1,9})"
        r"(?:.{0,40}? pciPath=(?:\S{0,300}/)?(?P<pci>[0-9a-f:.]{7,16}))?",
    ),
    row(
        NcclHcaMerged,
        "Made virtual device",
        r"virtual device \[\d{1,4}\] name=(?P<name>\S{1,200}) speed=(?P<speed_mbps>\d{1,9}) ndevs="
        r"(?P<ports>\d{1,3})",
    ),
    row(
        NcclQueuePair,
        " qpn ",
        r"(?:Ib)?Dev (?P<hca>\S{1,40}) Port (?P<port>\d{1,3}) qpn \d{1,10} mtu (?P<mtu>\d{1,4})"
        r"(?: LID (?P<lid>\d{1,6}))?(?: GID (?P<gid_index>-?\d{1,4}))?",
    ),
    row(NcclNoIb, "NET/IB : No device found", reason="no device"),
    row(NcclNoIb, "NET/IB: No device found", reason="no device"),
    row(
        NcclNoIb,
        "open libibverbs.so",
        r"(?:Failed|Could not|Count not|Couldn't) (?:to )?open libibverbs\.so",
        reason="no libibverbs",
    ),
    row(NcclNoIb, "Failed to initialize NET plugin IB", r"NET plugin IB\b(?!ext)", reason="not initialized"),
    row(
        NcclSocketThreads,
        "sockets per thread",
        r"Using (?P<threads>\d{1,4}) threads and (?P<sockets>\d{1,4}) sockets per thread",
    ),
    row(
        NcclChannels,
        "coll channels, ",
        r"(?P<coll>\d{1,4}) coll channels,(?: (?P<collnet>\d{1,4}) collnet channels,)?(?: "
        r"(?P<nvls>\d{1,4}) nvls channels,)?"
        r" (?P<p2p>\d{1,4}) p2p channels(?:, (?P<p2p_per_peer>\d{1,4}) p2p channels per peer)?",
    ),
    row(
        NcclConnected,
        "Connected all rings",
        r"(?P<what>rings)(?:, use ring PXN (?P<pxn>\d) GDR (?P<gdr>\d))?",
    ),
    row(NcclConnected, "Connected all trees", what="trees"),
    row(NcclConnected, "Connected binomial trees", what="binomial trees"),
    row(NcclConnected, "Connected NVLS tree", what="NVLS"),
    row(NcclSharp, "Connected Collnet", r"Connected (?P<what>Collnet \w{1,20})"),
    row(NcclSharp, "SHARP coll initialized", what="initialized"),
    row(
        NcclNvls,
        "NVLS multicast support is not available",
        r"not available on dev (?P<gpu>\d{1,4})",
        available=False,
    ),
    row(
        NcclNvls, "NVLS multicast support is available", r"available on dev (?P<gpu>\d{1,4})", available=True
    ),
    row(NcclNvlsBuffers, "NVLS comm ", r"NVLS comm \S{1,20} headRank -?\d{1,4} nHeads (?P<heads>\d{1,4})"),
    row(
        NcclMnnvl,
        "MNNVL busId",
        rf"fabric UUID (?P<uuid>[0-9a-fA-F]{{1,16}}\.[0-9a-fA-F]{{1,16}}) cliqueId (?P<clique>{_HEX})"
        rf" state (?P<state>\d{{1,3}}) healthMask (?P<health>{_HEX})",
    ),
    row(
        NcclMnnvl,
        "cliqueSize ",
        rf"MNNVL (?P<enabled>\d) .{{0,60}}?cliqueId (?P<clique>{_HEX}) cliqueSize (?P<clique_size>\d{{1,6}})"
        rf"(?:.{{0,80}}?healthMask (?P<health>{_HEX}))?",
    ),
    row(
        NcclGdr,
        "GPU Direct RDMA ",
        r"NET/(?!Socket|FastSocket)\w[\w .-]{0,40}? ?: GPU Direct RDMA (?:\((?P<module>[\w -]{1,30})\) )?"
        r"(?P<enabled>[EeDd]\w{6,8}) for (?:GPU (?P<gpu>\S{1,40}) / )?"
        r"HCA (?P<hca>\d{1,4}(?: '[^']{1,64}'?)?|\S{1,40})(?: \(distance (?P<distance>\d{1,3}) \S{1,2} "
        r"(?P<limit>\d{1,3})\))?",
        finish=_gdr,
    ),
    row(
        NcclGdr,
        "GPU Direct RDMA ",
        r" INFO GPU Direct RDMA (?P<enabled>[ED]\w{6,7}) for GPU (?P<gpu>\S{1,40}) / HCA (?P<hca>\S{1,40})"
        r" \(distance (?P<distance>\d{1,3}) \S{1,2} (?P<limit>\d{1,3})\)",
        finish=_gdr,
    ),
    row(NcclDmaBuf, "DMA-BUF is available", r"on GPU device (?P<gpu>\d{1,4})"),
    row(
        NcclSystem,
        "=== System : maxBw",
        r"maxBw (?P<max_gbps>[\d.]{1,10}) totalBw "
        r"(?P<total_gbps>[\d.]{1,10})",
    ),
    row(
        NcclSystem,
        "=== System : maxWidth",
        r"maxWidth (?P<max_gbps>[\d.]{1,10}) totalWidth "
        r"(?P<total_gbps>[\d.]{1,10})",
    ),
    row(NcclTopology, "+ NVL[", r"\+ (?P<link>NVL)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>GPU|NVS)/"),
    row(NcclTopology, "+ NET[", r"\+ (?P<link>NET)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>NET)/"),
    row(NcclTopology, "] - GPU/", r"\+ (?P<link>PCI|C2C)\[(?P<gbps>[\d.]{1,10})\] - (?P<to>GPU)/"),
    row(
        NcclGraph,
        ", crossNic ",
        r"Pattern (?P<pattern>\d{1,2}), crossNic \d{1,2}, nChannels (?P<channels>\d{1,4}), "
        r"(?:bw|speed) (?P<gbps>[\d./]{1,30}),"
        r"(?: nvlink \d,)? type (?P<intra>\w{2,4})(?:/(?P<inter>\w{2,4}))?",
    ),
    row(NcclTopologyLoaded, "Loading topology file ", r"topology file (?P<path>\S{1,300})"),
    row(
        NcclLinkSpeedUnknown,
        "Topology detection",
        r"detection ?: could not read (?P<path>\S{1,300}link_\w{5}),",
    ),
    row(NcclVirtualNic, "Topology detection", r"network path (?P<path>\S{1,300}) is not a PCI device"),
    row(
        NcclTuned,
        "-> Algo",
        r"(?P<coll>\w{1,30}): \d{1,18} Bytes -> Algo (?P<algorithm>\w{1,20}) proto (?P<protocol>\w{1,12})",
    ),
    row(NcclRas, "RAS client listening socket", r"socket at (?P<address>\S{1,100})"),
    row(
        NcclP2pUnavailable,
        "Could not enable P2P between dev",
        r"dev (?P<a>\d{1,4})\(=(?P<bus_a>[0-9a-f]{1,12})\) and dev (?P<b>\d{1,4})\(="
        r"(?P<bus_b>[0-9a-f]{1,12})\)",
    ),
    row(
        NcclP2pDisabled,
        "P2P is disabled between",
        r"between (?P<nvlink>NVLINK )?connected GPUs (?P<a>\d{1,4}) and (?P<b>\d{1,4})",
        finish=_p2p_disabled,
    ),
    row(
        NcclNetCountMismatch,
        "mixed local Net device counts",
        r"min (?P<least>\d{1,4}), max (?P<most>\d{1,4})",
    ),
    row(
        NcclSharedMemoryExceeded,
        "ncclMaxSharedMem",
        r"ncclMaxSharedMem (?P<needed>\d{1,9}) exceeds device/fn maxSharedMem (?P<actual>\d{1,9})",
    ),
    row(NcclCumemHost, "cuMem host allocations do not appear"),
)
