"""Reader of torch.distributed 1.9 to 2.13: the watchdog of ProcessGroupNCCL, exceptions, stores, rendezvous.

Source: pytorch/pytorch, torch/csrc/distributed/c10d (ProcessGroupNCCL.cpp, TCPStore.cpp, socket.cpp,
NCCLUtils.hpp) and torch/distributed/elastic/rendezvous, tools/flight_recorder (read 2026-11).
"""

from probes.base.patterns import pattern
from probes.logs.event import Event, LogLine, reporting
from probes.logs.events.torch_events import (
    TorchAddressInUse,
    TorchCollectiveMismatch,
    TorchConnectFailed,
    TorchDesyncCall,
    TorchDesyncPlace,
    TorchDesyncRank,
    TorchDeviceGuess,
    TorchDumpSignal,
    TorchException,
    TorchHeartbeatLost,
    TorchHeartbeatTimeout,
    TorchIdExchangeFailed,
    TorchLastError,
    TorchMonitoredBarrier,
    TorchNameUnresolved,
    TorchNcclError,
    TorchNcclResult,
    TorchNoGpu,
    TorchNotDestroyed,
    TorchPeerAborted,
    TorchProcessDown,
    TorchReductionUnfinished,
    TorchrunRendezvousClosed,
    TorchrunRendezvousConnection,
    TorchrunRendezvousState,
    TorchrunRendezvousTimeout,
    TorchSocketWarning,
    TorchStoreClosed,
    TorchStoreRanksMissing,
    TorchStoreTimeout,
    TorchStoreWait,
    TorchStoreWarning,
    TorchTraceCulprit,
    TorchTraceMissing,
    TorchWatchdogException,
    TorchWatchdogStuck,
    TorchWatchdogTimeout,
    TorchWorkStatus,
)
from probes.logs.readers.row_readers import read_rows, row, signs

_WORK = (
    r"Work[A-Z]{2,6}\((?:SeqNum=(?P<seq>\d{1,12}), )?OpType=(?P<op>\w{1,60})"
    r"(?:, TensorShape=\[[^\]]{0,200}\])?(?:, NumelIn=(?P<numel_in>\d{1,18}), NumelOut="
    r"(?P<numel_out>\d{1,18}))?"
    r"(?:, TensorShape=\[[^\]]{0,200}\])?, Timeout\(ms\)=(?P<timeout_ms>\d{1,12})\)"
    r"(?: ran for (?P<ran_ms>\d{1,12}) milliseconds)?"
)
_PLACE = r"(?P<host>[^\s,()\[\]]{1,200}|\[[0-9a-fA-F:.%]{2,60}\]), (?P<port>\d{1,5})\)"

_ERROR = pattern(r"\[E\d{0,4}[ :]|^E\d{4} |\w(?:Error|Exception): ")
"""Marks of a glog error and of an exception. Torch uses the words of some errors in mere warnings too."""
_EARLY = pattern(
    r"[Cc]onnection refused|[Aa]ddress family not supported|[Cc]annot assign requested address|"
    r"[Nn]etwork is unreachable"
)
_ROWS = (
    row(TorchWatchdogTimeout, "ollective operation timeout", rf"[Cc]ollective operation timeout: {_WORK}"),
    row(
        TorchMonitoredBarrier,
        "reached monitoredBarrier, but received errors",
        r"while waiting for send/recv from rank (?P<ranks>\d{1,7})",
    ),
    # A collective that timed out (the first row), if the line was cut or comes from another version.
    row(
        TorchWatchdogTimeout,
        "aught collective operation timeout: Work",
        r"timeout: Work[A-Z]{2,6}\((?:SeqNum=(?P<seq>\d{1,12}), )?(?:OpType=(?P<op>\w{1,60}))?",
    ),
    # Loggers that break long lines put the description of the collective on a separate line.
    row(TorchWatchdogTimeout, "Timeout(ms)=", rf"^\s{{0,8}}{_WORK} ?(?:before timing out|$)"),
    row(
        TorchWorkStatus,
        "last enqueued",
        r"(?:watchdog at work(?: sequence id)?:|NCCL work:) (?P<seq>-?\d{1,12}),? "
        r"(?:PG status: )?last enqueued (?:NCCL )?work:"
        r" (?P<enqueued>-?\d{1,12}), last completed (?:NCCL )?work: (?P<completed>-?\d{1,12})",
    ),
    row(
        TorchDumpSignal,
        "eceived a dump signal",
        r"eceived a dump signal (?:due to a collective timeout )?from\s{1,4}(?:this local rank|rank "
        r"(?P<from_rank>\d{1,7}))"
        r"(?:.{0,80}?ast enqueued \w{1,12} work: (?P<enqueued>-?\d{1,12}), "
        r"last completed \w{1,12} work: (?P<completed>-?\d{1,12}))?",
    ),
    row(TorchDumpSignal, "flight recorder dump signal from another rank"),
    row(
        TorchWatchdogStuck,
        "without making progress in monitoring",
        r"watchdog got stuck for (?P<seconds>\d{1,9}) ?seconds",
    ),
    row(TorchHeartbeatTimeout, "Heartbeat monitor timed out"),
    row(
        TorchWatchdogException,
        "watchdog thread terminated with exception",
        r"with exception: (?P<error>.{0,200})",
    ),
    row(TorchWatchdogException, "watchdog thread is terminating", r"terminating due to (?P<error>.{0,200})"),
    row(TorchProcessDown, "taking the entire process down"),
    row(TorchProcessDown, "we are taking down the"),
    row(
        TorchWatchdogException,
        "NCCL communicator was aborted on rank",
        r"reason for failure was: (?P<error>.{0,200})",
    ),
    row(TorchPeerAborted, "Found key in store: NCCLABORTEDCOMM", r"from rank: (?P<from_rank>\d{1,7})"),
    row(
        TorchIdExchangeFailed,
        "ncclUniqueId from [",
        r"\[(?P<rank>\d{1,7})\] is setting up NCCL communicator.{0,40}?ncclUniqueId from \["
        r"(?P<from_rank>\d{1,7})\].{0,60}?"
        r"by key '(?P<key>[^']{1,80})'.{0,60}?(?:error:|but) ?(?P<reason>.{0,160})",
    ),
    row(
        TorchNcclError,
        "NCCL error in: ",
        r"NCCL error in: (?P<file>[^\s,]{1,160}?:\d{1,6}), (?P<error>[^(,\n]{3,100}?)\s?"
        r"(?:\(run with[^)]{0,60}\)?|(?=,)|$)"
        r"(?:, NCCL version (?P<nccl>\d{1,3}(?:\.\d{1,3}){0,2}|\d{3,6}))?(?:[,\s]|$)",
    ),
    row(TorchNcclError, "NCCL Error ", r"NCCL Error \d{1,2}: (?P<error>[a-z][^\n(,]{3,100})"),
    row(
        TorchNcclError,
        "NCCL operation ",
        r"NCCL operation (?P<operation>nccl\w{3,40}).{0,400}? failed: (?P<error>[a-z][^\n(.]{3,100})",
    ),
    row(
        TorchNcclError,
        "NCCL: ",
        r"NCCL: (?P<error>(?:unhandled|internal|invalid|remote) [^\n(,.]{3,60})",
    ),
    row(TorchNcclError, "NCCL error: ", r"NCCL error: (?P<error>[a-z][^\n(,]{3,100})"),
    row(
        TorchNcclResult,
        "nccl",
        r"^\W{0,4}(?P<code>ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclInvalidArgument|"
        r"ncclInvalidUsage|"
        r"ncclRemoteError|ncclInProgress): ",
    ),
    row(
        TorchStoreTimeout,
        "while trying to connect to (",
        rf"timed out after (?P<after>\d{{1,12}} ?m?s)\b.{{0,40}}?\({_PLACE}",
    ),
    row(
        TorchStoreTimeout,
        "connect() timed out",
        r"connect\(\) timed out\.?(?: Original timeout was (?P<after>\d{1,12} ?ms))?",
    ),
    row(TorchAddressInUse, "EADDRINUSE", r"(?:port: (?P<port>\d{1,5})\b.{0,80})?EADDRINUSE"),
    row(
        TorchAddressInUse,
        "ddress already in use",
        r"(?::(?P<port>\d{1,5})(?!\d)[^\n]{0,40})?[Aa]ddress already in use",
    ),
    row(
        TorchNameUnresolved,
        "network addresses of (",
        rf"The (?P<family>IPv[46](?:/IPv6)?) network addresses of \({_PLACE} cannot be retrieved"
        r"(?: \((?P<reason>[^)]{1,120})\))?",
    ),
    row(
        TorchConnectFailed,
        "client socket has failed to connect to",
        r"client socket has failed to connect to (?:any network address of )?[\[(]?"
        r"(?P<host>[^\s,\]()]{1,200})\]?(?:, |:)"
        r"(?P<port>\d{1,5})\b(?:.{0,40}?errno: \d{1,4} - (?P<reason>[^)]{1,80}))?",
    ),
    row(
        TorchStoreRanksMissing,
        " joined",
        r"[Tt]imed out after (?P<after>\d{1,9}) seconds waiting for (?:clients|workers)\.? "
        r"(?P<joined>\d{1,7})/(?P<expected>\d{1,7}) (?:clients|workers) joined",
    ),
    row(
        TorchStoreWait,
        "Timeout waiting for key: ",
        r"Timeout waiting for key: (?P<keys>\S{1,200})(?: after (?P<timeout_ms>\d{1,12}) ms)?",
    ),
    row(
        TorchStoreRanksMissing,
        "in store based barrier on rank",
        r"Timed out initializing process group in store based barrier on rank:? (?P<rank>\d{1,7}).{0,120}?"
        r"\(world_size=(?P<expected>\d{1,7}), (?:worker_count|num_workers_joined)=(?P<joined>\d{1,7})",
    ),
    row(
        TorchStoreWait,
        "wait timeout after",
        r"wait timeout after (?P<timeout_ms>\d{1,12}) ?ms, keys: (?P<keys>.{1,200})",
    ),
    row(
        TorchStoreClosed,
        "on SocketImpl(",
        r"(?P<reason>(?:sendBytes|recvBytes|recvVector|recvValue|[\w ]{1,30}) failed on SocketImpl)\(",
    ),
    row(TorchStoreClosed, "failed to recv, got 0 bytes", r"(?P<reason>failed to recv, got 0 bytes)"),
    row(
        TorchrunRendezvousConnection,
        "RendezvousConnectionError",
        r"^(?!.*send a keep-alive).{0,200}?RendezvousConnectionError\b(?:: ?(?P<message>[A-Z].{0,200}))?",
    ),
    row(
        TorchHeartbeatLost,
        "failed to send a keep-alive heartbeat",
        r"The node '(?P<node>[^']{1,120})' has failed to send",
    ),
    row(
        TorchrunRendezvousTimeout,
        "RendezvousTimeoutError",
        r"RendezvousTimeoutError(?:: ?(?P<message>[A-Z].{0,200}))?",
    ),
    row(
        TorchrunRendezvousClosed,
        "RendezvousClosedError",
        r"RendezvousClosedError(?:: ?(?P<message>[A-Z].{0,200}))?",
    ),
    row(
        TorchrunRendezvousState,
        "RendezvousStateError",
        r"RendezvousStateError(?:: ?(?P<message>[A-Z].{0,200}))?",
    ),
    row(
        TorchCollectiveMismatch,
        "Detected mismatch between collectives on ranks",
        r"Rank (?P<rank_a>\d{1,7}) is running (?:collective|inconsistent collective): "
        r".{0,3000}?[Rr]ank (?P<rank_b>\d{1,7}) is running",
    ),
    row(TorchCollectiveMismatch, "Detected mismatch between collectives on ranks"),
    row(
        TorchMonitoredBarrier,
        "to pass monitoredBarrier",
        r"(?:Rank |Ranks )(?P<ranks>[\d, ]{1,200}?) failed to pass monitoredBarrier in "
        r"(?P<timeout_ms>\d{1,12}) ms",
    ),
    row(
        TorchDesyncRank,
        "joined but didn't finish collective",
        r"\[(?P<ranks>[\d, ]{1,400})\] joined but didn't finish collective #(?P<seq>\d{1,12})",
        state="joined",
    ),
    row(
        TorchDesyncRank,
        ", but didn't join collective",
        r"\[(?P<ranks>[\d, ]{1,400})\] finished collective #\d{1,12}, but didn't join collective #"
        r"(?P<seq>\d{1,12})",
        state="lag",
    ),
    row(
        TorchDesyncRank,
        "never joined any collectives",
        r"ranks \[(?P<ranks>[\d, ]{1,400})\].{0,80}never joined any collectives",
        state="missing",
    ),
    row(TorchTraceMissing, "missing ranks: {", r"missing ranks: \{(?P<ranks>[\d, ]{1,400})\}"),
    row(TorchTraceCulprit, "Culprit rank ", r"Culprit rank (?P<culprit>\d{1,7}); (?P<reason>.{0,200})"),
    row(TorchDesyncPlace, "ed ranks:", r"^\W{0,40}#(?P<seq>\d{1,12}) (?P<state>started|finished) ranks:"),
    row(
        TorchDesyncCall,
        "] started ",
        r"^\s{0,40}\[(?P<ranks>[\d, ]{1,400})\] (?P<state>started) (?P<op>[A-Z_]{3,40})\s{0,8}$",
    ),
    row(
        TorchDeviceGuess,
        "currently unknown",
        r"(?:\[Rank (?P<rank>\d{1,7})\] +)?[Uu]sing GPU (?P<gpu>\d{1,3}) (?:to perform barrier )?"
        r"as (?:the )?devices? used by this process",
    ),
    row(
        TorchDeviceGuess, "device used by this process is currently unknown", r"[Uu]sing GPU (?P<gpu>\d{1,3})"
    ),
    row(TorchNoGpu, "ProcessGroupNCCL is only supported with GPUs"),
    row(TorchReductionUnfinished, "Expected to have finished reduction in the prior iteration"),
    row(TorchNotDestroyed, "destroy_process_group() was not called before"),
    row(TorchLastError, "Last error:", r"Last error:\s{0,4}(?P<text>\S.{0,300})"),
    row(
        TorchException,
        "torch.distributed.Dist",
        r"torch\.distributed\.(?P<name>Dist(?:Backend|Network|Store|QueueEmpty)?Error)\b(?:: "
        r"(?P<message>.{0,300}))?",
    ),
    row(TorchException, "c10::Dist", r"c10::(?P<name>Dist(?:Backend|Network|Store)?Error)\b"),
)
_RESULT_SIGNS = (
    b"ncclUnhandledCudaError",
    b"ncclSystemError",
    b"ncclInternalError",
    b"ncclInvalidArgument",
    b"ncclInvalidUsage",
    b"ncclRemoteError",
)
SIGNS: tuple[bytes, ...] = (*(sign for sign in signs(_ROWS) if sign != b"nccl"), *_RESULT_SIGNS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return tuple(_weighed(event, line) for event in read_rows(_ROWS, line))


def _weighed(event: Event, line: LogLine) -> Event:
    """Return a warning instead of the event if the reported failure also occurs in healthy jobs.

    Examples are a store that does not listen yet, a host without IPv6, and a RAS port of NCCL that is in use.
    """
    is_error = _ERROR.search(line.text) is not None
    match event.what:
        case TorchStoreClosed(reason=reason) if not is_error:
            return reporting(event, TorchStoreWarning(reason=reason))
        case TorchConnectFailed(host=host, port=port, reason=reason) if _EARLY.search(reason or ""):
            return reporting(event, TorchSocketWarning(host=host, port=port, reason=reason))
        case TorchAddressInUse(port=port) if " ras/" in event.text:
            return reporting(event, TorchSocketWarning(port=port))
        case TorchNameUnresolved(family="IPv6") as name if not is_error:
            warning = TorchSocketWarning(
                host=name.host, port=name.port, family=name.family, reason=name.reason
            )
            return reporting(event, warning)
    return event
