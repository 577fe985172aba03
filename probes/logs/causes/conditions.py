"""Conditions of rows of causes that need more than the fields of one event.

A condition returns the events that support the row, in the order in which they are shown, or None where it
does not hold.
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


def pod_never_started(seen: Seen) -> Support:
    return _none(seen, K8sStarted)


def connections_failed(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(NcclConnectFailed))


def interface_named(seen: Seen) -> Support:
    return _first_of_each(seen, _set(seen, "NCCL_SOCKET_IFNAME"))


def no_interface_named(seen: Seen) -> Support:
    return None if _set(seen, "NCCL_SOCKET_IFNAME") else ()


def only_calls_failed(seen: Seen) -> Support:
    return _none(seen, NcclWarning, NcclNotice, NcclRemoteClosed, NcclSocketWrongType, NcclAddressInUse)


def socket_calls_failed(seen: Seen) -> Support:
    """Return calls of NCCL's sockets that failed without a warning that says why."""
    if seen.has(NcclWarning, NcclConnectFailed):
        return None
    errors = [
        event for event in seen.of(NcclError) if event.what.code == 2 and _is_of_sockets(event.what.file)
    ]
    return _first_of_each(seen, errors)


def ranks_differ_from_recipe(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedRanks))


def gloo_failed_or_run_stalled(seen: Seen) -> Support:
    return _first_of_any(
        seen,
        seen.of(GlooConnectFailed, GlooMeshFailed, GlooTimeout, GlooRemoteClosed) + seen.of(GlooError),
        seen.of(TorchException, TorchStoreTimeout, TorchStoreWait, TorchConnectFailed)
        + seen.of(TorchWatchdogTimeout, TorchHeartbeatTimeout),
        [event for event in seen.of(SlurmKilled) if event.what.reason == "time limit"],
    )


def rdma_ports_idle(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedSockets))


def rdma_ports_idle_by_environment(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedSockets), _set(seen, "NCCL_IB_DISABLE", "1"))


def rdma_ports_idle_by_recipe(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedSockets), _recipe_disables_rdma(seen))


def recipe_disables_rdma(seen: Seen) -> Support:
    return _first_of_each(seen, _recipe_disables_rdma(seen))


def rdma_wanted(seen: Seen) -> Support:
    return None if _other_networks(seen) or _set(seen, "NCCL_IB_DISABLE", "1") else ()


def rdma_wanted_and_run_failed(seen: Seen) -> Support:
    return None if seen.has(NcclConnected, NcclInitComplete, "nccl_tests.*") else rdma_wanted(seen)


def rdma_ports_idle_unasked(seen: Seen) -> Support:
    return (
        rdma_ports_idle(seen) if rdma_wanted(seen) is not None and not _recipe_disables_rdma(seen) else None
    )


def no_device_and_no_network(seen: Seen) -> Support:
    missing = [event for event in seen.of(NcclNoIb) if "no device" in event.what.reason]
    return None if _other_networks(seen) else _first_of_each(seen, missing)


def most_ports_unused(seen: Seen) -> Support:
    return _first_of_each(
        seen, [each for each in seen.of(ComparedNicsUnused) if each.what.share <= _MOSTLY_UNUSED]
    )


def ports_unused(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedNicsUnused))


def ports_unknown(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedNicsStrange))


def nccl_failed(seen: Seen) -> Support:
    return _first_of_any(seen, seen.of(NcclError), seen.of(NcclTestsFailure), seen.of(TorchNcclError))


def named_plugin_not_replaced(seen: Seen) -> Support:
    if any(event.what.name == "IB" for event in seen.of(NcclNetwork)):
        return None
    return _first_of_each(seen, _set(seen, "NCCL_NET_PLUGIN"))


def gpus_peer_to_peer(seen: Seen) -> Support:
    return _first_of_each(seen, _peer_to_peer(seen))


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


def more_ranks_than_gpus(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedGpus))


def another_nccl_loaded(seen: Seen) -> Support:
    return _first_of_each(seen, seen.of(ComparedNccl))


def gpu_needs_action(seen: Seen) -> Support:
    needs_none = any("none" in (event.what.action or "").lower() for event in seen.of(KernelXid))
    return None if needs_none else ()


def file_server_not_back(seen: Seen) -> Support:
    return _none(seen, KernelFilesystemBack)


def program_stalled_on_files(seen: Seen) -> Support:
    if file_server_not_back(seen) is None:
        return None
    return _first_of_any(
        seen,
        [event for event in seen.of(TorchException) if _FILE_ERRORS.search(event.what.message or "")],
        seen.of(TorchWatchdogTimeout, TorchHeartbeatTimeout, TorchWatchdogStuck, GlooTimeout),
        [event for event in seen.of(KernelLockup) if "hung task" in event.what.what.lower()],
    )


def not_ended_from_outside(seen: Seen) -> Support:
    return _none(seen, SlurmKilled, SlurmNodeFailure, TorchAgentSignal)


def nothing_else_failed(seen: Seen) -> Support:
    return _none(
        seen,
        *(
            ProcessTerminated,
            TorchWatchdogTimeout,
            TorchWatchdogException,
            TorchWatchdogStuck,
            TorchProcessDown,
        ),
        *(TorchHeartbeatTimeout, CudaError, CudaAssert, MpiAbort),
        *(NcclRemoteClosed, NcclConnectFailed, NcclIbCompletionError),
    )


CONDITIONS: Mapping[str, Condition] = {
    condition.__name__: condition
    for condition in (
        *(pod_never_started, connections_failed, interface_named, no_interface_named, only_calls_failed),
        *(socket_calls_failed, ranks_differ_from_recipe, gloo_failed_or_run_stalled, rdma_ports_idle),
        *(rdma_ports_idle_by_environment, rdma_ports_idle_by_recipe, recipe_disables_rdma, rdma_wanted),
        *(rdma_wanted_and_run_failed, rdma_ports_idle_unasked, no_device_and_no_network, most_ports_unused),
        *(ports_unused, ports_unknown, nccl_failed, named_plugin_not_replaced, gpus_peer_to_peer),
        *(peer_to_peer_redirected, ports_redirect_peer_to_peer, locked_memory_limited, shared_memory_full),
        *(nvlink_between_nodes, no_nvlink_between_nodes, more_ranks_than_gpus, another_nccl_loaded),
        *(gpu_needs_action, file_server_not_back, program_stalled_on_files, not_ended_from_outside),
        nothing_else_failed,
    )
}
"""Conditions by the names that rows use."""


def _none(seen: Seen, *records: str | type) -> Support:
    return None if seen.has(*records) else ()


def _first_of_each(seen: Seen, *groups: Sequence[Event]) -> Support:
    """Return the first event of each group; None where a group is empty."""
    return tuple(seen.in_order(events)[0] for events in groups) if all(groups) else None


def _first_of_any(seen: Seen, *groups: Sequence[Event]) -> Support:
    """Return the first event of the first group that has some; None where all are empty."""
    return next(((seen.in_order(events)[0],) for events in groups if events), None)


def _set(seen: Seen, name: str, value: str | None = None) -> list[Event]:
    """Return where a variable is set, to a value where one is named."""
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
    """Return where a network other than sockets is chosen."""
    return [event for event in seen.of(NcclNetwork) if event.what.name.lower() != "socket"]


def _is_of_sockets(file: str | None) -> bool:
    return file is not None and re.search(r"socket\.(cc|h)", file) is not None


def _peer_to_peer(seen: Seen) -> list[Event]:
    return [event for event in seen.of(NcclChannel) if event.what.transport == "P2P"]


def _redirecting_ports(seen: Seen) -> list[Event]:
    return [event for event in seen.of(PciAcs) if event.what.redirect]


def _spanning_communicators(seen: Seen) -> list[Event]:
    return [event for event in seen.of(NcclCommShape) if event.what.mnnvl]
