"""Messages of NCCL and RCCL that tell of a failure, as rows for `nccl_errors`, which says what their kinds
are.

Source: NVIDIA/nccl, src/misc/{socket,ibvwrap,shmutils,cudawrap}.cc, transport/*.cc, bootstrap.cc, init.cc of
tags 2.4 to 2.30.
"""

from __future__ import annotations

from probes.logs.readers.row_readers import row

_REASON = r"(?P<reason>[^\n,]{2,160}?)"
_PEER = r"(?P<peer>[0-9A-Fa-f.:%\w-]{1,100}<\d{1,5}>|[\w.:%-]{2,100})"
_GIDS = r"(?:.{0,80}?localGid ?(?P<local_gid>[0-9a-fA-F:.]{2,48}))?(?:.{0,20}?remoteGids? ?(?P<remote_gid>[0-9a-fA-F:.]{2,48}))?"
_IPC = r"(?P<call>(?:cuda|hip)Ipc\w{3,30}) failed ?: (?P<reason>.{2,80}?)\s*$"

FAILURES = (
    row(
        "nccl.ib.completion-error",
        "Got completion ",
        rf"Got completion (?:from peer {_PEER} )?with (?:status=|error )(?:\w{{1,40}}\()?(?P<status>\d{{1,3}})\)?,?"
        r"(?: opcode[ =](?P<opcode>\w{1,40}))?.{0,60}?vendor[_ ]err[ =](?P<vendor>\d{1,10})"
        r"(?: (?:\(|req_type=)(?P<side>\w{1,12})\)?)?"
        rf"{_GIDS}(?:.{{0,20}}? hca (?P<hca>\S{{1,40}}))?",
    ),
    row(
        "nccl.ib.modify-qp",
        "ibv_modify_qp ",
        r"ibv_modify_qp (?:failed|timed out)(?: with)?(?: error)?:?(?: (?P<errno>\d{1,4}))? (?P<reason>[A-Z][\w ./-]{2,80}?)"
        r"(?=,|\s*$)(?:, on dev (?P<hca>\S{1,40}?),)?(?:.{0,20}?curr state (?P<state>\w{1,8}))?"
        r"(?:.{0,60}?GID index (?P<gid_index>-?\d{1,4}))?"
        r"(?:.{0,20}?local GID ?(?P<local_gid>[0-9a-fA-F:.]{2,48}))?(?:.{0,20}?remote GID ?(?P<remote_gid>[0-9a-fA-F:.]{2,48}))?",
    ),
    row(
        "nccl.ib.registration",
        "Call to ibv_",
        rf"Call to (?P<call>ibv_(?:reg_\w{{1,24}}|create_\w{{1,16}}|alloc_\w{{1,16}})) failed(?: with)?"
        rf"(?: error)?:? ?(?:\d{{1,4}} )?{_REASON}?(?: errno \d{{1,4}})?(?:,|\s*$)",
    ),
    row(
        "nccl.ib.call-failed",
        "Call to ibv_",
        rf"Call to (?P<call>ibv_(?!query_port_speed|query_ece|set_ece)\w{{1,40}}) failed(?: with)?(?: error)?:? ?"
        rf"(?:\d{{1,4}} )?{_REASON}?(?: errno \d{{1,4}})?(?:,|\s*$)",
    ),
    row(
        "nccl.ib.async",
        "async fatal event",
        r"NET/IB ?: (?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) async fatal event"
        r"(?: on \w{1,8}[^:]{0,40})?: (?P<event>.{2,120}?)\s*$",
        fatal=1,
    ),
    row(
        "nccl.ib.async",
        " event",
        r"NET/IB ?: (?:(?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) )?(?:Got|unknown)[\w -]{0,20} event ?"
        r"(?:type)?[: (]{1,3}(?P<event>[^()]{2,120}?) ?(?:\(\d{1,4}\)|\))?\s*$",
        fatal=0,
    ),
    row(
        "nccl.ib.async",
        "GID table changed",
        r"NET/IB ?: (?P<hca>[\w.-]{1,40}):(?P<port>\d{1,3}) (?P<event>GID table changed)",
        fatal=0,
    ),
    row(
        "nccl.ib.call-failed",
        "ncclIbRoceGetVersionNum",
        r"(?P<reason>read failed in ncclIbRoceGetVersionNum.{0,80}?)\s*$",
        call="query_gid_type",
    ),
    row(
        "nccl.ib.communicator-failed",
        "communicator encountered a fatal error",
        r"\(detected in (?P<function>\w{1,40})\)",
    ),
    row("nccl.ib.mixed-links", "incompatible devices"),
    row("nccl.ib.mixed-links", "device is incompatible with the local"),
    row(
        "nccl.ib.device-unusable",
        "NET/IB : Unable to ",
        r"Unable to \w{1,12} (?:port_num|(?:device|port)?.{0,40}?(?P<hca>[a-z]\w{2,40})\s*$)",
    ),
    row(
        "nccl.address-family",
        "neither AF_INET",
        r"(?P<reason>(?:\w{1,30} ?: )?[Cc]onnect.{0,120}?neither AF_INET)",
    ),
    row(
        "nccl.interface-missing",
        "ocket interface found",
        r"(?P<reason>[\w/]{1,30} ?: [Nn]o socket interface found)",
    ),
    row(
        "nccl.interface-missing",
        "interface",
        r"(?P<reason>No usable listening interface found|NET/Socket ?: [Nn]o interfaces? found|No IP interface found)",
    ),
    row(
        "nccl.interface-missing", "interface", r"(?P<reason>[Nn]o interface found in the same subnet.{0,100})"
    ),
    row(
        "nccl.connect-failed",
        "onnect to ",
        rf"[Cc]onnect to {_PEER} (?:failed|returned|timed out) ?:?(?: ?(?P<errno>\d{{1,4}}))? ?\(?"
        rf"(?P<reason>[A-Z][\w ./-]{{2,80}}?)(?=[),:]| errno|\s*$)"
        r"(?:.{0,20}?errno \d{1,4}\([^)]{0,60}\))?(?:.{0,20}? (?:after|exceeded) (?P<tries>\d{1,6}) )?",
    ),
    row(
        "nccl.connect-failed",
        "Call to connect",
        rf"Call to connect (?:to {_PEER} )?(?:failed|returned|timed out|timeout) ?:? ?"
        r"(?P<reason>[A-Z]?[\w ./-]{2,80}?)(?=,|\s*$)",
    ),
    row("nccl.connect-failed", "ocketPollConnect", r"ocketPollConnect:? (?P<reason>poll\(\).{2,100}?)\s*$"),
    row(
        "nccl.connect-failed",
        "Connect: exceeded ",
        r"socket\w{1,20}: (?P<reason>exceeded (?:retries|timeouts).{0,60}?)\s*$",
    ),
    row("nccl.name-unresolved", "getting address info", r"address info ?: (?P<reason>.{2,100}?)\s*$"),
    row(
        "nccl.socket-wrong-type",
        "wrong type ",
        r"(?P<reason>wrong type (?P<found>\d{1,10}) != (?P<expected>\d{1,10}))",
    ),
    row("nccl.socket-wrong-magic", "wrong magic", r"(?P<reason>wrong magic .{0,60})"),
    row(
        "nccl.ras-port-in-use",
        "Call to bind failed",
        r"ras/\S{1,40} .{0,40}Call to bind failed.{0,10}Address already in use",
    ),
    row("nccl.address-in-use", "Call to bind", r"Call to bind.{0,60}Address already in use"),
    row("nccl.remote-closed", "losed by remote peer", rf"[Cc]losed by remote peer(?: {_PEER})?"),
    row(
        "nccl.remote-closed",
        "Call to ",
        rf"Call to (?:recv|send) (?:from|to) {_PEER} failed ?: ?(?P<reason>[A-Z][\w ]{{2,60}}?)\s*$",
    ),
    row("nccl.remote-closed", "Socket recv failed"),
    row("nccl.remote-closed", "Could not receive type from", r"from (?:localRank|rank) (?P<peer>\d{1,7})"),
    row(
        "nccl.nranks-mismatch",
        "Bootstrap Root",
        r"mismatch in (?:info|rank count) from procs,? ?(?:nranks )?(?P<expected>\d{1,7}) ?(?:vs|:) ?"
        r"(?!(?P=expected)\b)(?P<found>\d{1,7})",
    ),
    row("nccl.root-mismatch", "Bootstrap Root", r"(?P<reason>mismatch in .{2,200})"),
    row(
        "nccl.rank-twice",
        "already checked in",
        r"rank (?P<rank>\d{1,7}) of (?P<ranks>\d{1,7}) (?:ranks )?has already checked in",
    ),
    row(
        "nccl.version-mismatch",
        "Mismatched NCCL version",
        r"rank (?P<rank_a>\d{1,7}) version (?P<version_a>\d{3,7}) rank (?P<rank_b>\d{1,7}) version (?P<version_b>\d{3,7})",
    ),
    row(
        "nccl.message-truncated",
        "essage truncated",
        r"truncated ?: receiv(?:ed|ing) (?P<received>\d{1,18}) bytes instead of (?P<expected>\d{1,18})",
    ),
    row(
        "nccl.message-truncated",
        "collective mismatch error",
        r"error,? local size (?P<expected>\d{1,18}) remote size (?P<received>\d{1,18})",
    ),
    row("nccl.message-truncated", "mismatch in collective sizes"),
    row("nccl.collective-mismatch", "collective mismatch around rank", r"around rank (?P<rank>\d{1,7})"),
    row("nccl.ipc-failed", "IpcGetMemHandle", _IPC),
    row("nccl.ipc-failed", "IpcOpenMemHandle", _IPC),
    row(
        "nccl.proxy-failed",
        "Error encountered progressing operation",
        r"operation=(?P<operation>\w{1,24}), res=(?P<code>\d)",
    ),
    row(
        "nccl.algo-unavailable",
        "no algorithm/protocol available",
        r"available(?: for function (?P<function>\w{1,30}))?(?:.{0,80}?NCCL_ALGO was set to "
        r"(?P<algorithm>[^\s,]{1,80}?)\.?(?:\s|$))?"
        r"(?:.{0,40}?NCCL_PROTO was set to (?P<protocol>[^\s,]{1,80}?)\.?(?:\s|$))?",
    ),
    row("nccl.algo-unavailable", "o algorithm/protocol supplied"),
    row("nccl.network-not-found", "Error: network ", r"Error: network (?P<name>\S.{0,60}?) not found"),
    row(
        "nccl.shm",
        "failed to extend ",
        r"failed to (?P<step>extend) (?P<path>\S{1,120}) to (?P<bytes>\d{1,18}) bytes(?:, error: (?P<reason>.{2,80}?)\s*$)?",
    ),
    row(
        "nccl.shm",
        "shared memory segment",
        r"while (?P<step>creating|attaching)(?: to)? shared memory segment (?P<path>\S{1,120}) \(size (?P<bytes>\d{1,18})\)"
        r"(?:, error: (?P<reason>.{2,80}?)\s*$)?",
    ),
    row(
        "nccl.shm", "posix_fallocate", r"Call to (?P<step>posix_fallocate) failed ?: (?P<reason>.{2,80}?)\s*$"
    ),
    row(
        "nccl.shm",
        "shmutils.cc:",
        r"shmutils\.cc:\d{1,6} .{0,60}?Call to (?P<step>\w{2,20}) failed ?: "
        r"(?P<reason>.{2,80}?)\s*$",
    ),
    row("nccl.shm", "shm_open", r"Call to (?P<step>shm_open) failed ?: (?P<reason>.{2,80}?)\s*$"),
    row(
        "nccl.nvls-bind",
        "Failed to bind NVLink SHARP",
        r"Multicast memory(?: of size (?P<bytes>\d{1,18}))?(?: ?:? CUDA error (?P<error>\d{1,5}) '(?P<text>[^'\n]{1,160}))?",
    ),
    row(
        "nccl.nvls-bind",
        "nvls.cc:",
        r"nvls\.cc:\d{1,6} .{0,60}?WARN Cuda failure (?P<error>\d{1,5}) '(?P<text>[^'\n]{1,160})",
    ),
    row("nccl.imex", "is available but not working", r"MNNVL \(cliqueSize (?P<clique_size>\d{1,6})\)"),
    row(
        "nccl.sharp-failed",
        "SHARP",
        r"(?P<reason>SHARP (?:group create|init|coll init|comm create|job).{0,60}?(?:fail|lock).{0,60})",
    ),
    row("nccl.sharp-failed", "Begin job", r"(?P<reason>Begin job .{0,60}?No resource.{0,20})"),
    row("nccl.sharp-failed", "Tree lock failed", r"(?P<reason>\w{0,12} ?Tree lock failed.{0,40})"),
    row(
        "nccl.driver-old",
        "not supported in the installed CUDA driver",
        r"(?P<text>API call is not supported in the installed CUDA driver)",
    ),
    row(
        "nccl.driver-old",
        "insufficient for CUDA runtime",
        r"(?P<text>CUDA driver version is insufficient for CUDA runtime version)",
    ),
    row(
        "nccl.allocation-failed",
        "Failed to CUDA",
        r"Failed to CUDA (?:host )?\w{0,8}alloc(?: async)? (?P<bytes>\d{1,18}) bytes",
    ),
    row("nccl.allocation-failed", "Allocation failed (segment", r"Allocation failed"),
    row(
        "nccl.cuda-error",
        "uda failure",
        r"(?P<file>[^\s:]{1,120}\.(?:cc|cu|h):\d{1,6}) .{0,60}?Cuda failure(?: (?P<code>\d{1,5}))? '(?P<text>[^'\n]{1,200})",
    ),
    row(
        "nccl.cuda-error",
        "uda failure",
        r"Cuda failure(?: (?P<file>\S{1,120}:\d{1,6}))?(?: (?P<code>\d{1,5}))? '(?P<text>[^'\n]{1,200})",
    ),
    row(
        "nccl.cuda-error",
        "CUDA failure",
        r"CUDA failure (?P<file>\S{1,120}:\d{1,6})(?: (?P<code>\d{1,5}))? '(?P<text>[^'\n]{1,200})",
    ),
    row(
        "nccl.cuda-error",
        "Call to cu",
        r"Call to (?P<file>cu\w{1,60}) failed ?:? ?(?:with (?:error )?)?(?P<code>\d{1,5})? ?'?(?P<text>[^'\n]{0,160})",
    ),
    row(
        "nccl.proxy-failed",
        "Failed to execute operation",
        r"execute operation (?P<operation>\w{1,24}) from (?:local)?[rR]ank "
        r"(?P<from_rank>\d{1,7})(?:.{0,40}?retcode (?P<code>\d))?",
    ),
    row("nccl.topology-invalid", "XML ", r"(?P<reason>XML (?:Parse|Import|parse|import).{2,160})"),
    row("nccl.topology-invalid", " of node ", r"(?P<reason>Attribute \w{1,30} of node \w{1,30} not found)"),
    row("nccl.topology-invalid", "Could not open XML", r"(?P<reason>Could not open XML.{2,200})"),
)
"""Failures where the line is not of level INFO, at which NCCL tells of attempts that it repeats or does
without.
"""

ALSO_INFORMATIVE = (
    row(
        "nccl.connect-failed",
        " returned ",
        rf"[Cc]onnect (?:to {_PEER} )?returned (?P<reason>\w[\w ]{{2,40}}), retrying \((?P<tries>\d{{1,6}})/(?P=tries)\)",
    ),
    row(
        "nccl.connect-retry",
        "onnect to ",
        rf"[Cc]onnect to {_PEER} returned "
        rf"(?P<reason>Connection refused|No route to host|Connection timed out|Network is unreachable),? "
        rf"(?:retrying|exceeded).{{0,12}}?(?P<tries>\d{{1,6}})",
    ),
    row(
        "nccl.error",
        " -> ",
        r"INFO (?P<file>\S{1,300}?\.(?:cc|cpp|cu|h):\d{1,6}) -> (?P<code>[1-6])(?: \[|\s*$)",
    ),
    row(
        "nccl.driver-old",
        "CUDA Driver version found",
        r"version found is (?P<found>\d{1,6})\. Minimum requirement is (?P<needed>\d{1,6})",
    ),
    row(
        "nccl.ras-port-in-use",
        "RAS failed to establish a client",
        r"RAS failed to establish a client listening socket",
    ),
)
"""Told at level INFO too."""
RESULTS = (
    row(
        "nccl.error",
        "nccl",
        r"\b(?P<name>nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument|RemoteError))\b",
    ),
    row("nccl.error", "failure ", r"NCCL failure \S{1,100}:\d{1,6} '(?P<name>[^'\n/(]{3,60}?) ?(?:\(|/|')"),
)
"""Where a program names what NCCL returned."""
DUPLICATE_GPU = (
    row(
        "nccl.duplicate-gpu",
        "Duplicate GPU detected",
        r"rank (?P<rank_a>\d{1,7}) and rank (?P<rank_b>\d{1,7}) both on CUDA device (?P<bus>[0-9a-fA-F:.]{1,16})",
    ),
    row(
        "nccl.duplicate-gpu",
        "using the same GPU",
        r"using the same GPU(?:.{0,200}?[rR]anks? (?P<rank_a>\d{1,7}) and (?:rank )?(?P<rank_b>\d{1,7}))?",
    ),
)
