"""Conditions of rows of causes that need more than the fields of one event.

A condition returns the events that support the row, in the order of their display, or None if it is not met.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from probes.logs.event import Event
from probes.logs.events.compared_events import (
    ComparedGpus,
    ComparedNccl,
    ComparedNicsStrange,
    ComparedNicsUnused,
    ComparedRanks,
    ComparedSockets,
    RecipeVariable,
)
from probes.logs.events.cuda_events import CudaAssert, CudaError
from probes.logs.events.framework_events import (
    GlooConnectFailed,
    GlooError,
    GlooMeshFailed,
    GlooRemoteClosed,
    GlooTimeout,
    K8sStarted,
)
from probes.logs.events.host_events import HostMemlock, HostShm, PciAcs
from probes.logs.events.kernel_log_events import KernelFilesystemBack, KernelLockup, KernelXid
from probes.logs.events.log_record import LogRecord
from probes.logs.events.measurement_events import NcclTestsFailure
from probes.logs.events.nccl_events import (
    NcclChannel,
    NcclCommShape,
    NcclConnected,
    NcclEnvironment,
    NcclInitComplete,
    NcclMnnvl,
)
from probes.logs.events.nccl_failure_events import (
    NcclAddressInUse,
    NcclConnectFailed,
    NcclError,
    NcclIbCompletionError,
    NcclNotice,
    NcclRemoteClosed,
    NcclSocketWrongType,
    NcclWarning,
)
from probes.logs.events.nccl_network_events import NcclNetwork, NcclNoIb
from probes.logs.events.process_events import MpiAbort, ProcessTerminated, SlurmKilled, SlurmNodeFailure
from probes.logs.events.torch_events import (
    TorchAgentSignal,
    TorchConnectFailed,
    TorchException,
    TorchHeartbeatTimeout,
    TorchNcclError,
    TorchProcessDown,
    TorchStoreTimeout,
    TorchStoreWait,
    TorchWatchdogException,
    TorchWatchdogStuck,
    TorchWatchdogTimeout,
)
from probes.logs.seen import Seen

Support = tuple[Event, ...] | None
Condition = Callable[[Seen], Support]

_MOSTLY_UNUSED = 0.5
_NEARLY_FULL_PERCENT = 95
_FILE_ERRORS = re.compile(r"Errno (5|110|112|116)\b|Stale file handle|Input/output error", re.IGNORECASE)


def no_interface_named(seen: Seen) -> Support:
    return None if _set(seen, "NCCL_SOCKET_IFNAME") else ()


def socket_calls_failed(seen: Seen) -> Support:
    """Return calls of NCCL's sockets that failed, if no warning gives the reason."""
    if seen.has(NcclWarning, NcclConnectFailed):
        return None
    errors = [
        event for event in seen.of(NcclError) if event.what.code == 2 and _is_of_sockets(event.what.file)
    ]
    return _first_of_each(seen, errors)


def gloo_failed_or_run_stalled(seen: Seen) -> Support:
    return _first_of_any(
        seen,
        seen.of(GlooConnectFailed, GlooMeshFailed, GlooTimeout, GlooRemoteClosed) + seen.of(GlooError),
        seen.of(TorchException, TorchStoreTimeout, TorchStoreWait, TorchConnectFailed)
        + seen.of(TorchWatchdogTimeout, TorchHeartbeatTimeout),
        [event for event in seen.of(SlurmKilled) if event.what.reason == "time limit"],
    )


def rdma_ports_idle_by_environment(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedSockets), _set(seen, "NCCL_IB_DISABLE", "1"))


def rdma_ports_idle_by_recipe(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedSockets), _recipe_disables_rdma(seen))


def rdma_wanted(seen: Seen) -> Support:
    return None if _other_networks(seen) or _set(seen, "NCCL_IB_DISABLE", "1") else ()


def rdma_wanted_and_run_failed(seen: Seen) -> Support:
    return None if seen.has(NcclConnected, NcclInitComplete, "nccl_tests.*") else rdma_wanted(seen)


def rdma_ports_idle_unasked(seen: Seen) -> Support:
    return (
        None
        if rdma_wanted(seen) is None or _recipe_disables_rdma(seen)
        else _first_of_each(seen, seen.of(ComparedSockets))
    )


def no_device_and_no_network(seen: Seen) -> Support:
    missing = [event for event in seen.of(NcclNoIb) if "no device" in event.what.reason]
    return None if _other_networks(seen) else _first_of_each(seen, missing)


def most_ports_unused(seen: Seen) -> Support:
    return _first_of_each(
        seen, [each for each in seen.of(ComparedNicsUnused) if each.what.share <= _MOSTLY_UNUSED]
    )


def nccl_failed(seen: Seen) -> Support:
    return _first_of_any(seen, seen.of(NcclError), seen.of(NcclTestsFailure), seen.of(TorchNcclError))


def named_plugin_not_replaced(seen: Seen) -> Support:
    if any(event.what.name == "IB" for event in seen.of(NcclNetwork)):
        return None
    return _first_of_each(seen, _set(seen, "NCCL_NET_PLUGIN"))


def peer_to_peer_redirected(seen: Seen) -> Support:
    return _first_of_each(seen, _peer_to_peer(seen), _redirecting_ports(seen))


def ports_redirect_peer_to_peer(seen: Seen) -> Support:
    return _first_of_each(seen, _redirecting_ports(seen), _peer_to_peer(seen))


def locked_memory_limited(seen: Seen) -> Support:
    return _first_of_each(seen, [event for event in seen.of(HostMemlock) if not event.what.unlimited])


def shared_memory_full(seen: Seen) -> Support:
    full = [event for event in seen.of(HostShm) if event.what.used_percent >= _NEARLY_FULL_PERCENT]
    return _first_of_each(seen, full)


def nvlink_between_nodes(seen: Seen) -> Support:
    across = [event for event in seen.of(NcclChannel) if event.what.how == "MNNVL"]
    return _first_of_any(seen, seen.of(NcclMnnvl), _spanning_communicators(seen), across)


def no_nvlink_between_nodes(seen: Seen) -> Support:
    return None if seen.has(NcclMnnvl) or _spanning_communicators(seen) else ()


def gpu_needs_action(seen: Seen) -> Support:
    needs_none = any("none" in (event.what.action or "").lower() for event in seen.of(KernelXid))
    return None if needs_none else ()


def program_stalled_on_files(seen: Seen) -> Support:
    if seen.has(KernelFilesystemBack):
        return None
    return _first_of_any(
        seen,
        [event for event in seen.of(TorchException) if _FILE_ERRORS.search(event.what.message or "")],
        seen.of(TorchWatchdogTimeout, TorchHeartbeatTimeout, TorchWatchdogStuck, GlooTimeout),
        [event for event in seen.of(KernelLockup) if "hung task" in event.what.what.lower()],
    )


def _with(record: type[LogRecord]) -> Condition:
    """Return the condition that a kind of event was seen."""
    return lambda seen: _first_of_each(seen, seen.of(record))


def _without(*records: type[LogRecord]) -> Condition:
    """Return the condition that no event of some kinds was seen."""
    return lambda seen: None if seen.has(*records) else ()


def _first_of_each(seen: Seen, *groups: Sequence[Event]) -> Support:
    """Return the first event of each group; None if a group is empty."""
    return tuple(seen.in_order(events)[0] for events in groups) if all(groups) else None


def _first_of_any(seen: Seen, *groups: Sequence[Event]) -> Support:
    """Return the first event of the first group that is not empty; None if all are empty."""
    return next(((seen.in_order(events)[0],) for events in groups if events), None)


def _set(seen: Seen, name: str, value: str | None = None) -> list[Event]:
    """Return the events that set a variable, perhaps to a given value."""
    return [
        event
        for event in seen.of(NcclEnvironment)
        if event.what.name == name and (value is None or str(event.what.value) == value)
    ]


def _recipe_disables_rdma(seen: Seen) -> list[Event]:
    return [
        each
        for each in seen.of(RecipeVariable)
        if each.what.name == "NCCL_IB_DISABLE" and each.what.value == "1"
    ]


def _other_networks(seen: Seen) -> list[Event]:
    """Return the events that choose a network other than sockets."""
    return [event for event in seen.of(NcclNetwork) if event.what.name.lower() != "socket"]


def _is_of_sockets(file: str | None) -> bool:
    return file is not None and re.search(r"socket\.(cc|h)", file) is not None


def _peer_to_peer(seen: Seen) -> list[Event]:
    return [event for event in seen.of(NcclChannel) if event.what.transport == "P2P"]


def _redirecting_ports(seen: Seen) -> list[Event]:
    return [event for event in seen.of(PciAcs) if event.what.redirect]


def _spanning_communicators(seen: Seen) -> list[Event]:
    return [event for event in seen.of(NcclCommShape) if event.what.mnnvl]


CONDITIONS: Mapping[str, Condition] = {
    "connections_failed": _with(NcclConnectFailed),
    "interface_named": lambda seen: _first_of_each(seen, _set(seen, "NCCL_SOCKET_IFNAME")),
    "ranks_differ_from_recipe": _with(ComparedRanks),
    "rdma_ports_idle": _with(ComparedSockets),
    "recipe_disables_rdma": lambda seen: _first_of_each(seen, _recipe_disables_rdma(seen)),
    "ports_unused": _with(ComparedNicsUnused),
    "ports_unknown": _with(ComparedNicsStrange),
    "gpus_peer_to_peer": lambda seen: _first_of_each(seen, _peer_to_peer(seen)),
    "more_ranks_than_gpus": _with(ComparedGpus),
    "another_nccl_loaded": _with(ComparedNccl),
    "pod_never_started": _without(K8sStarted),
    "only_calls_failed": _without(
        NcclWarning, NcclNotice, NcclRemoteClosed, NcclSocketWrongType, NcclAddressInUse
    ),
    "file_server_not_back": _without(KernelFilesystemBack),
    "not_ended_from_outside": _without(SlurmKilled, SlurmNodeFailure, TorchAgentSignal),
    "nothing_else_failed": _without(
        *(ProcessTerminated, TorchWatchdogTimeout, TorchWatchdogException, TorchWatchdogStuck),
        *(TorchProcessDown, TorchHeartbeatTimeout, CudaError, CudaAssert, MpiAbort),
        *(NcclRemoteClosed, NcclConnectFailed, NcclIbCompletionError),
    ),
    **{
        condition.__name__: condition
        for condition in (
            *(no_interface_named, socket_calls_failed, gloo_failed_or_run_stalled),
            *(rdma_ports_idle_by_environment, rdma_ports_idle_by_recipe, rdma_wanted),
            *(rdma_wanted_and_run_failed, rdma_ports_idle_unasked, no_device_and_no_network),
            *(most_ports_unused, nccl_failed, named_plugin_not_replaced, peer_to_peer_redirected),
            *(ports_redirect_peer_to_peer, locked_memory_limited, shared_memory_full),
            *(nvlink_between_nodes, no_nvlink_between_nodes, gpu_needs_action, program_stalled_on_files),
        )
    },
}
"""Conditions by the names that rows use."""
