"""Rows for the reader `nccl_errors`: messages with which NCCL and RCCL report failures.

Source: NVIDIA/nccl, src/misc/{socket,ibvwrap,shmutils,cudawrap}.cc, transport/*.cc, bootstrap.cc, init.cc
of tags 2.4 to 2.30.
"""

from typing import Any

from probes.logs.events.nccl_failure_events import (
    NcclAddressFamily,
    NcclAddressInUse,
    NcclAlgoUnavailable,
    NcclAllocationFailed,
    NcclCollectiveMismatch,
    NcclConnectFailed,
    NcclConnectRetry,
    NcclCudaError,
    NcclDriverOld,
    NcclDuplicateGpu,
    NcclError,
    NcclIbAsync,
    NcclIbCallFailed,
    NcclIbCommunicatorFailed,
    NcclIbCompletionError,
    NcclIbDeviceUnusable,
    NcclIbMixedLinks,
    NcclIbModifyQp,
    NcclIbRegistration,
    NcclImex,
    NcclInterfaceMissing,
    NcclIpcFailed,
    NcclMessageTruncated,
    NcclNameUnresolved,
    NcclNetworkNotFound,
    NcclNranksMismatch,
    NcclNvlsBind,
    NcclProxyFailed,
    NcclRankTwice,
    NcclRasPortInUse,
    NcclRemoteClosed,
    NcclRootMismatch,
    NcclSharpFailed,
    NcclShm,
    NcclSocketWrongMagic,
    NcclSocketWrongType,
    NcclTopologyInvalid,
    NcclVersionMismatch,
)
from probes.logs.readers.row_readers import row

_REASON = r"(?P<reason>[^\n,]{2,160}?)"
_PEER = r"(?P<peer>[0-9A-Fa-f.:%\w-]{1,100}<\d{1,5}>|[\w.:%-]{2,100})"
_GIDS = (
    r"(?:.{0,80}?localGid ?(?P<local_gid>[0-9a-fA-F:.]{2,48}))?(?:.{0,20}?remoteGids? ?"
    r"(?P<remote_gid>[0-9a-fA-F:.]{2,48}))?"
)
_IPC = r"(?P<call>(?:cuda|hip)Ipc\w{3,30}) failed ?: (?P<reason>.{2,80}?)\s*$"

FAILURES = (
    row(
        NcclIbCompletionError,
        "Got completion ",
        rf"Got completion (?:from peer {_PEER} )?with (?:status=|error )(?:\w{{1,40}}\()?"
        rf"(?P<status>\d{{1,3}})\)?,?"
        r"(?: opcode[ =](?P<opcode>\w{1,40}))?.{0,60}?vendor[_ ]err[ =](?P<vendor>\d{1,10})"
        r"(?: (?:\(|req_type=)(?P<side>\w{1,12})\)?)?"
        rf"{_GIDS}(?:.{{0,20}}? hca (?P<hca>\S{{1,40}}))?",
    ),
    row(
        NcclIbModifyQp,
        "ibv_modify_qp ",
        r"ibv_modify_qp (?:failed|timed out)(?: with)?(?: error)?:?(?: (?P<errno>\d{1,4}))? "
        r"(?P<reason>[A-Z][\w ./-]{2,80}?)"
        r"(?=,|\s*$)(?:, on dev (?P<hca>\S{1,40}?),)?(?:.{0,20}?curr state (?P<state>\w{1,8}))?"
        r"(?:.{0,60}?GID index (?P<gid_index>-?\d{1,4}))?"
        r"(?:.{0,20}?local GID ?(?P<local_gid>[0-9a-fA-F:.]{2,48}))?(?:.{0,20}?remote GID ?"
        r"(?P<remote_gid>[0-9a-fA-F:.]{2,48}))?",
    ),
    row(
        NcclIbRegistration,
        "Call to ibv_",
        rf"Call to (?P<call>ibv_(?:reg_\w{{1,24}}|create_\w{{1,16}}|alloc_\w{{1,16}})) failed(?: with)?"
        rf"(?: error)?:? ?(?:\d{{1,4}} )?{_REASON}?(?: errno \d{{1,4}})?(?:,|\s*$)",
    ),
    row(
        NcclIbCallFailed,
        "Call to ibv_",
        rf"Call to (?P<call>ibv_(?!query_port_speed|query_ece|set_ece)\w{{1,40}}) failed(?: with)?"
        rf"(?: error)?:? ?"
        rf"(?:\d{{1,4}} )?{_REASON}?(?: errno \d{{1,4}})?(?:,|\s*$)",
    ),
    row(
        NcclIbAsync,
        "async fatal event",
        r"NET/IB ?: (?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) async fatal event"
        r"(?: on \w{1,8}[^:]{0,40})?: (?P<event>.{2,120}?)\s*$",
        fatal=True,
    ),
    row(
        NcclIbAsync,
        " event",
        r"NET/IB ?: (?:(?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) )?(?:Got|unknown)[\w -]{0,20} event ?"
        r"(?:type)?[: (]{1,3}(?P<event>[^()]{2,120}?) ?(?:\(\d{1,4}\)|\))?\s*$",
        fatal=False,
    ),
    row(
        NcclIbAsync,
        "GID table changed",
        r"NET/IB ?: (?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) (?P<event>GID table changed)",
        fatal=False,
    ),
    row(
        NcclIbCallFailed,
        "ncclIbRoceGetVersionNum",
        r"(?P<reason>read failed in ncclIbRoceGetVersionNum.{0,80}?)\s*$",
        call="query_gid_type",
    ),
    row(
        NcclIbCommunicatorFailed,
        "communicator encountered a fatal error",
        r"\(detected in (?P<function>\w{1,40})\)",
    ),
    row(NcclIbMixedLinks, "incompatible devices"),
    row(NcclIbMixedLinks, "device is incompatible with the local"),
    row(
        NcclIbDeviceUnusable,
        "NET/IB : Unable to ",
        r"Unable to \w{1,12} (?:port_num|(?:device|port)?.{0,40}?(?P<hca>[a-z]\w{2,40})\s*$)",
    ),
    row(
        NcclAddressFamily,
        "neither AF_INET",
        r"(?P<reason>(?:\w{1,30} ?: )?[Cc]onnect.{0,120}?neither AF_INET)",
    ),
    row(
        NcclInterfaceMissing,
        "ocket interface found",
        r"(?P<reason>[\w/]{1,30} ?: [Nn]o socket interface found)",
    ),
    row(
        NcclInterfaceMissing,
        "interface",
        r"(?P<reason>No usable listening interface found|NET/Socket ?: [Nn]o interfaces? found|"
        r"No IP interface found)",
    ),
    row(NcclInterfaceMissing, "interface", r"(?P<reason>[Nn]o interface found in the same subnet.{0,100})"),
    row(
        NcclConnectFailed,
        "onnect to ",
        rf"[Cc]onnect to {_PEER} (?:failed|returned|timed out) ?:?(?: ?(?P<errno>\d{{1,4}}))? ?\(?"
        rf"(?P<reason>[A-Z][\w ./-]{{2,80}}?)(?=[),:]| errno|\s*$)"
        r"(?:.{0,20}?errno \d{1,4}\([^)]{0,60}\))?(?:.{0,20}? (?:after|exceeded) (?P<tries>\d{1,6}) )?",
    ),
    row(
        NcclConnectFailed,
        "Call to connect",
        rf"Call to connect (?:to {_PEER} )?(?:failed|returned|timed out|timeout) ?:? ?"
        r"(?P<reason>[A-Z]?[\w ./-]{2,80}?)(?=,|\s*$)",
    ),
    row(NcclConnectFailed, "ocketPollConnect", r"ocketPollConnect:? (?P<reason>poll\(\).{2,100}?)\s*$"),
    row(
        NcclConnectFailed,
        "Connect: exceeded ",
        r"socket\w{1,20}: (?P<reason>exceeded (?:retries|timeouts).{0,60}?)\s*$",
    ),
    row(NcclNameUnresolved, "getting address info", r"address info ?: (?P<reason>.{2,100}?)\s*$"),
    row(
        NcclSocketWrongType,
        "wrong type ",
        r"(?P<reason>wrong type (?P<actual>\d{1,10}) != (?P<expected>\d{1,10}))",
    ),
    row(NcclSocketWrongMagic, "wrong magic", r"(?P<reason>wrong magic .{0,60})"),
    row(
        NcclRasPortInUse,
        "Call to bind failed",
        r"ras/\S{1,40} .{0,40}Call to bind failed.{0,10}Address already in use",
    ),
    row(NcclAddressInUse, "Call to bind", r"Call to bind.{0,60}Address already in use"),
    row(NcclRemoteClosed, "losed by remote peer", rf"[Cc]losed by remote peer(?: {_PEER})?"),
    row(
        NcclRemoteClosed,
        "Call to ",
        rf"Call to (?:recv|send) (?:from|to) {_PEER} failed ?: ?(?P<reason>[A-Z][\w ]{{2,60}}?)\s*$",
    ),
    row(NcclRemoteClosed, "Socket recv failed"),
    row(NcclRemoteClosed, "Could not receive type from", r"from (?:localRank|rank) (?P<peer>\d{1,7})"),
    row(
        NcclNranksMismatch,
        "Bootstrap Root",
        r"mismatch in (?:info|rank count) from procs,? ?(?:nranks )?(?P<expected>\d{1,7}) ?(?:vs|:) ?"
        r"(?!(?P=expected)\b)(?P<actual>\d{1,7})",
    ),
    row(NcclRootMismatch, "Bootstrap Root", r"(?P<reason>mismatch in .{2,200})"),
    row(
        NcclRankTwice,
        "already checked in",
        r"rank (?P<rank>\d{1,7}) of (?P<ranks>\d{1,7}) (?:ranks )?has already checked in",
    ),
    row(
        NcclVersionMismatch,
        "Mismatched NCCL version",
        r"rank (?P<rank_a>\d{1,7}) version (?P<version_a>\d{3,7}) rank (?P<rank_b>\d{1,7}) version "
        r"(?P<version_b>\d{3,7})",
    ),
    row(
        NcclMessageTruncated,
        "essage truncated",
        r"truncated ?: receiv(?:ed|ing) (?P<received>\d{1,18}) bytes instead of (?P<expected>\d{1,18})",
    ),
    row(
        NcclMessageTruncated,
        "collective mismatch error",
        r"error,? local size (?P<expected>\d{1,18}) remote size (?P<received>\d{1,18})",
    ),
    row(NcclMessageTruncated, "mismatch in collective sizes"),
    row(NcclCollectiveMismatch, "collective mismatch around rank", r"around rank (?P<rank>\d{1,7})"),
    row(NcclIpcFailed, "IpcGetMemHandle", _IPC),
    row(NcclIpcFailed, "IpcOpenMemHandle", _IPC),
    row(
        NcclProxyFailed,
        "Error encountered progressing operation",
        r"operation=(?P<operation>\w{1,24}), res=(?P<code>\d)",
    ),
    row(
        NcclAlgoUnavailable,
        "no algorithm/protocol available",
        r"available(?: for function (?P<function>\w{1,30}))?(?:.{0,80}?NCCL_ALGO was set to "
        r"(?P<algorithm>[^\s,]{1,80}?)\.?(?:\s|$))?"
        r"(?:.{0,40}?NCCL_PROTO was set to (?P<protocol>[^\s,]{1,80}?)\.?(?:\s|$))?",
    ),
    row(NcclAlgoUnavailable, "o algorithm/protocol supplied"),
    row(NcclNetworkNotFound, "Error: network ", r"Error: network (?P<name>\S.{0,60}?) not found"),
    row(
        NcclShm,
        "failed to extend ",
        r"failed to (?P<step>extend) (?P<path>\S{1,120}) to (?P<bytes>\d{1,18}) bytes(?:, error: "
        r"(?P<reason>.{2,80}?)\s*$)?",
    ),
    row(
        NcclShm,
        "shared memory segment",
        r"while (?P<step>creating|attaching)(?: to)? shared memory segment (?P<path>\S{1,120}) \(size "
        r"(?P<bytes>\d{1,18})\)"
        r"(?:, error: (?P<reason>.{2,80}?)\s*$)?",
    ),
    row(NcclShm, "posix_fallocate", r"Call to (?P<step>posix_fallocate) failed ?: (?P<reason>.{2,80}?)\s*$"),
    row(
        NcclShm,
        "shmutils.cc:",
        r"shmutils\.cc:\d{1,6} .{0,60}?Call to (?P<step>\w{2,20}) failed ?: "
        r"(?P<reason>.{2,80}?)\s*$",
    ),
    row(NcclShm, "shm_open", r"Call to (?P<step>shm_open) failed ?: (?P<reason>.{2,80}?)\s*$"),
    row(
        NcclNvlsBind,
        "Failed to bind NVLink SHARP",
        r"Multicast memory(?: of size (?P<bytes>\d{1,18}))?(?: ?:? CUDA error (?P<error>\d{1,5}) '"
        r"(?P<text>[^'\n]{1,160}))?",
    ),
    row(
        NcclNvlsBind,
        "nvls.cc:",
        r"nvls\.cc:\d{1,6} .{0,60}?WARN Cuda failure (?P<error>\d{1,5}) '(?P<text>[^'\n]{1,160})",
    ),
    row(NcclImex, "is available but not working", r"MNNVL \(cliqueSize (?P<clique_size>\d{1,6})\)"),
    row(
        NcclSharpFailed,
        "SHARP",
        r"(?P<reason>SHARP (?:group create|init|coll init|comm create|job).{0,60}?(?:fail|lock).{0,60})",
    ),
    row(NcclSharpFailed, "Begin job", r"(?P<reason>Begin job .{0,60}?No resource.{0,20})"),
    row(NcclSharpFailed, "Tree lock failed", r"(?P<reason>\w{0,12} ?Tree lock failed.{0,40})"),
    row(
        NcclDriverOld,
        "not supported in the installed CUDA driver",
        r"(?P<text>API call is not supported in the installed CUDA driver)",
    ),
    row(
        NcclDriverOld,
        "insufficient for CUDA runtime",
        r"(?P<text>CUDA driver version is insufficient for CUDA runtime version)",
    ),
    row(
        NcclAllocationFailed,
        "Failed to CUDA",
        r"Failed to CUDA (?:host )?\w{0,8}alloc(?: async)? (?P<bytes>\d{1,18}) bytes",
    ),
    row(NcclAllocationFailed, "Allocation failed (segment", r"Allocation failed"),
    row(
        NcclCudaError,
        "uda failure",
        r"(?P<file>[^\s:]{1,120}\.(?:cc|cu|h):\d{1,6}) .{0,60}?Cuda failure(?: (?P<code>\d{1,5}))? '"
        r"(?P<text>[^'\n]{1,200})",
    ),
    row(
        NcclCudaError,
        "uda failure",
        r"Cuda failure(?: (?P<file>\S{1,120}:\d{1,6}))?(?: (?P<code>\d{1,5}))? '(?P<text>[^'\n]{1,200})",
    ),
    row(
        NcclCudaError,
        "CUDA failure",
        r"CUDA failure (?P<file>\S{1,120}:\d{1,6})(?: (?P<code>\d{1,5}))? '(?P<text>[^'\n]{1,200})",
    ),
    row(
        NcclCudaError,
        "Call to cu",
        r"Call to (?P<file>cu\w{1,60}) failed ?:? ?(?:with (?:error )?)?(?P<code>\d{1,5})? ?'?"
        r"(?P<text>[^'\n]{0,160})",
    ),
    row(
        NcclProxyFailed,
        "Failed to execute operation",
        r"execute operation (?P<operation>\w{1,24}) from (?:local)?[rR]ank "
        r"(?P<from_rank>\d{1,7})(?:.{0,40}?retcode (?P<code>\d))?",
    ),
    row(NcclTopologyInvalid, "XML ", r"(?P<reason>XML (?:Parse|Import|parse|import).{2,160})"),
    row(NcclTopologyInvalid, " of node ", r"(?P<reason>Attribute \w{1,30} of node \w{1,30} not found)"),
    row(NcclTopologyInvalid, "Could not open XML", r"(?P<reason>Could not open XML.{2,200})"),
)
"""Failures in lines above level INFO; at INFO, NCCL reports attempts that may fail without harm."""

ALSO_INFORMATIVE = (
    row(
        NcclConnectFailed,
        " returned ",
        rf"[Cc]onnect (?:to {_PEER} )?returned (?P<reason>\w[\w ]{{2,40}}), retrying "
        rf"\((?P<tries>\d{{1,6}})/(?P=tries)\)",
    ),
    row(
        NcclConnectRetry,
        "onnect to ",
        rf"[Cc]onnect to {_PEER} returned "
        rf"(?P<reason>Connection refused|No route to host|Connection timed out|Network is unreachable),? "
        rf"(?:retrying|exceeded).{{0,12}}?(?P<tries>\d{{1,6}})",
    ),
    row(
        NcclError,
        " -> ",
        r"INFO (?P<file>\S{1,300}?\.(?:cc|cpp|cu|h):\d{1,6}) -> (?P<code>[1-6])(?: \[|\s*$)",
    ),
    row(
        NcclDriverOld,
        "CUDA Driver version found",
        r"version found is (?P<actual>\d{1,6})\. Minimum requirement is (?P<needed>\d{1,6})",
    ),
    row(
        NcclRasPortInUse,
        "RAS failed to establish a client",
        r"RAS failed to establish a client listening socket",
    ),
)
"""Failures that NCCL reports at level INFO too."""
_CODES = {
    "ncclUnhandledCudaError": 1,
    "unhandled cuda error": 1,
    "ncclSystemError": 2,
    "unhandled system error": 2,
    "ncclInternalError": 3,
    "internal error": 3,
    "ncclInvalidArgument": 4,
    "invalid argument": 4,
    "ncclInvalidUsage": 5,
    "invalid usage": 5,
    "ncclRemoteError": 6,
    "remote process exited or there was a network error": 6,
}


def _result(fields: dict[str, Any]) -> NcclError:
    return NcclError(**fields, code=_CODES.get(fields["name"]))


RESULTS = (
    row(
        NcclError,
        "nccl",
        r"\b(?P<name>nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument|"
        r"RemoteError))\b",
        finish=_result,
    ),
    row(
        NcclError,
        "failure ",
        r"NCCL failure \S{1,100}:\d{1,6} '(?P<name>[^'\n/(]{3,60}?) ?(?:\(|/|')",
        finish=_result,
    ),
)
"""Lines in which a program reports an error result of NCCL."""
DUPLICATE_GPU = (
    row(
        NcclDuplicateGpu,
        "Duplicate GPU detected",
        r"rank (?P<rank_a>\d{1,7}) and rank (?P<rank_b>\d{1,7}) both on CUDA device "
        r"(?P<bus>[0-9a-fA-F:.]{1,16})",
    ),
    row(
        NcclDuplicateGpu,
        "using the same GPU",
        r"using the same GPU(?:.{0,200}?[rR]anks? (?P<rank_a>\d{1,7}) and (?:rank )?(?P<rank_b>\d{1,7}))?",
    ),
)
