"""Conditions that rows of causes use if the fields of one event are not enough.

A condition returns the events that support the row, in the order in which they are displayed, or None if it
is not met.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from probes.logs.deducing.common import nodes_of
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
from probes.logs.events.kernel_log_events import (
    KernelFilesystemBack,
    KernelIommuFault,
    KernelLockup,
    KernelXid,
)
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
    RasIncomplete,
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
from probes.logs.logged_events import LoggedEvents

Support = tuple[Event, ...] | None
Condition = Callable[[LoggedEvents], Support]

_EVENTS_OF_CARDS = (
    *("kernel.xid", "kernel.amdgpu", "kernel.nvrm", "kernel.gsp", "kernel.gpu-lost", "kernel.nic-firmware"),
    *("kernel.mlx5", "kernel.nic"),
)
"""Kinds of events whose field `bus` is the address of a GPU or a network card."""
_MOSTLY_UNUSED = 0.5
_NEARLY_FULL_PERCENT = 95
_FILE_ERRORS = re.compile(r"Errno (5|110|112|116)\b|Stale file handle|Input/output error", re.IGNORECASE)


def no_interface_named(logged: LoggedEvents) -> Support:
    return None if _set(logged, "NCCL_SOCKET_IFNAME") else ()


def socket_calls_failed(logged: LoggedEvents) -> Support:
    """Return NCCL's first failed socket call, if no warning gives the reason."""
    if logged.has(NcclWarning, NcclConnectFailed):
        return None
    errors = [
        event for event in logged.of(NcclError) if event.what.code == 2 and _is_of_sockets(event.what.file)
    ]
    return _first_of_each(logged, errors)


def gloo_failed_or_run_stalled(logged: LoggedEvents) -> Support:
    return _first_of_any(
        logged,
        logged.of(GlooConnectFailed, GlooMeshFailed, GlooTimeout, GlooRemoteClosed) + logged.of(GlooError),
        logged.of(TorchException, TorchStoreTimeout, TorchStoreWait, TorchConnectFailed)
        + logged.of(TorchWatchdogTimeout, TorchHeartbeatTimeout),
        [event for event in logged.of(SlurmKilled) if event.what.reason == "time limit"],
    )


def rdma_ports_idle_by_environment(logged: LoggedEvents) -> Support:
    return _first_of_each(logged, logged.of(ComparedSockets), _set(logged, "NCCL_IB_DISABLE", "1"))


def rdma_ports_idle_by_recipe(logged: LoggedEvents) -> Support:
    return _first_of_each(logged, logged.of(ComparedSockets), _recipe_disables_rdma(logged))


def rdma_wanted(logged: LoggedEvents) -> Support:
    return None if _other_networks(logged) or _set(logged, "NCCL_IB_DISABLE", "1") else ()


def rdma_wanted_and_run_failed(logged: LoggedEvents) -> Support:
    return None if logged.has(NcclConnected, NcclInitComplete, "nccl_tests.*") else rdma_wanted(logged)


def rdma_wanted_between_hosts(logged: LoggedEvents) -> Support:
    """Return the support of `rdma_wanted` if several hosts communicate.

    NCCL looks for libibverbs even if all ranks are on one host.
    """
    return rdma_wanted(logged) if several_hosts(logged) is not None else None


def rdma_ports_idle_unasked(logged: LoggedEvents) -> Support:
    return (
        None
        if rdma_wanted(logged) is None or _recipe_disables_rdma(logged)
        else _first_of_each(logged, logged.of(ComparedSockets))
    )


def no_device_and_no_network(logged: LoggedEvents) -> Support:
    missing = [event for event in logged.of(NcclNoIb) if "no device" in event.what.reason]
    return None if _other_networks(logged) else _first_of_each(logged, missing)


def most_ports_unused(logged: LoggedEvents) -> Support:
    return _first_of_each(
        logged, [each for each in logged.of(ComparedNicsUnused) if each.what.share <= _MOSTLY_UNUSED]
    )


def nccl_failed(logged: LoggedEvents) -> Support:
    return _first_of_any(logged, logged.of(NcclError), logged.of(NcclTestsFailure), logged.of(TorchNcclError))


def named_plugin_not_replaced(logged: LoggedEvents) -> Support:
    if any(event.what.name == "IB" for event in logged.of(NcclNetwork)):
        return None
    return _first_of_each(logged, _set(logged, "NCCL_NET_PLUGIN"))


def peer_to_peer_redirected(logged: LoggedEvents) -> Support:
    return _first_of_each(logged, _peer_to_peer(logged), _redirecting_ports(logged))


def ports_redirect_peer_to_peer(logged: LoggedEvents) -> Support:
    return _first_of_each(logged, _redirecting_ports(logged), _peer_to_peer(logged))


def locked_memory_limited(logged: LoggedEvents) -> Support:
    return _first_of_each(logged, [event for event in logged.of(HostMemlock) if not event.what.unlimited])


def shared_memory_full(logged: LoggedEvents) -> Support:
    full = [event for event in logged.of(HostShm) if event.what.used_percent >= _NEARLY_FULL_PERCENT]
    return _first_of_each(logged, full)


def nvlink_between_nodes(logged: LoggedEvents) -> Support:
    across = [event for event in logged.of(NcclChannel) if event.what.how == "MNNVL"]
    return _first_of_any(logged, logged.of(NcclMnnvl), _spanning_communicators(logged), across)


def no_nvlink_between_nodes(logged: LoggedEvents) -> Support:
    return None if logged.has(NcclMnnvl) or _spanning_communicators(logged) else ()


def gpu_needs_action(logged: LoggedEvents) -> Support:
    needs_none = any("none" in (event.what.action or "").lower() for event in logged.of(KernelXid))
    return None if needs_none else ()


def several_hosts(logged: LoggedEvents) -> Support:
    hosts = {event.host for event in logged.events if event.host}
    return () if len(hosts) > 1 or nodes_of(logged) > 1 else None


def refused_device_trains(logged: LoggedEvents) -> Support:
    """Return the first event of a GPU or network card whose transfer the IOMMU refused."""
    slots = {slot_of(event.what.bus) for event in logged.of(KernelIommuFault)} - {""}
    others = logged.of(*_EVENTS_OF_CARDS)
    return _first_of_each(
        logged, [each for each in others if slot_of(str(each.fields.get("bus", ""))) in slots]
    )


def slot_of(address: str | None) -> str:
    """Return an address without domain and function (`17:00`); empty without an address."""
    return ":".join((address or "").partition(".")[0].split(":")[-2:])


def program_stalled_on_files(logged: LoggedEvents) -> Support:
    if logged.has(KernelFilesystemBack):
        return None
    return _first_of_any(
        logged,
        [event for event in logged.of(TorchException) if _FILE_ERRORS.search(event.what.message or "")],
        logged.of(TorchWatchdogTimeout, TorchHeartbeatTimeout, TorchWatchdogStuck, GlooTimeout),
        [event for event in logged.of(KernelLockup) if "hung task" in event.what.what.lower()],
    )


def _with(record: type[LogRecord]) -> Condition:
    """Return a condition that holds if the logs contain this kind of event."""
    return lambda logged: _first_of_each(logged, logged.of(record))


def _without(*records: type[LogRecord]) -> Condition:
    """Return a condition that holds if the logs contain no event of any of these kinds."""
    return lambda logged: None if logged.has(*records) else ()


def _first_of_each(logged: LoggedEvents, *groups: Sequence[Event]) -> Support:
    """Return the first event of each group; None if a group is empty."""
    return tuple(logged.in_order(events)[0] for events in groups) if all(groups) else None


def _first_of_any(logged: LoggedEvents, *groups: Sequence[Event]) -> Support:
    """Return the first event of the first group that is not empty; None if all are empty."""
    return next(((logged.in_order(events)[0],) for events in groups if events), None)


def _set(logged: LoggedEvents, name: str, value: str | None = None) -> list[Event]:
    """Return the events that set a variable, to the given value if there is one."""
    return [
        event
        for event in logged.of(NcclEnvironment)
        if event.what.name == name and (value is None or str(event.what.value) == value)
    ]


def _recipe_disables_rdma(logged: LoggedEvents) -> list[Event]:
    return [
        each
        for each in logged.of(RecipeVariable)
        if each.what.name == "NCCL_IB_DISABLE" and each.what.value == "1"
    ]


def _other_networks(logged: LoggedEvents) -> list[Event]:
    """Return the events that choose a network other than sockets."""
    return [event for event in logged.of(NcclNetwork) if event.what.name.lower() != "socket"]


def _is_of_sockets(file: str | None) -> bool:
    return file is not None and re.search(r"socket\.(cc|h)", file) is not None


def _peer_to_peer(logged: LoggedEvents) -> list[Event]:
    return [event for event in logged.of(NcclChannel) if event.what.transport == "P2P"]


def _redirecting_ports(logged: LoggedEvents) -> list[Event]:
    return [event for event in logged.of(PciAcs) if event.what.redirect]


def _spanning_communicators(logged: LoggedEvents) -> list[Event]:
    return [event for event in logged.of(NcclCommShape) if event.what.mnnvl]


CONDITIONS: Mapping[str, Condition] = {
    "connections_failed": _with(NcclConnectFailed),
    "interface_named": lambda logged: _first_of_each(logged, _set(logged, "NCCL_SOCKET_IFNAME")),
    "ranks_differ_from_recipe": _with(ComparedRanks),
    "rdma_ports_idle": _with(ComparedSockets),
    "recipe_disables_rdma": lambda logged: _first_of_each(logged, _recipe_disables_rdma(logged)),
    "ports_unused": _with(ComparedNicsUnused),
    "ports_unknown": _with(ComparedNicsStrange),
    "gpus_peer_to_peer": lambda logged: _first_of_each(logged, _peer_to_peer(logged)),
    "more_ranks_than_gpus": _with(ComparedGpus),
    "another_nccl_loaded": _with(ComparedNccl),
    "pod_never_started": _without(K8sStarted),
    "only_calls_failed": _without(
        NcclWarning, NcclNotice, NcclRemoteClosed, NcclSocketWrongType, NcclAddressInUse
    ),
    "ras_reports_error": _with(RasIncomplete),
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
            *(
                several_hosts,
                refused_device_trains,
                no_interface_named,
                socket_calls_failed,
                gloo_failed_or_run_stalled,
            ),
            *(rdma_ports_idle_by_environment, rdma_ports_idle_by_recipe, rdma_wanted),
            *(
                rdma_wanted_and_run_failed,
                rdma_wanted_between_hosts,
                rdma_ports_idle_unasked,
                no_device_and_no_network,
            ),
            *(most_ports_unused, nccl_failed, named_plugin_not_replaced, peer_to_peer_redirected),
            *(ports_redirect_peer_to_peer, locked_memory_limited, shared_memory_full),
            *(nvlink_between_nodes, no_nvlink_between_nodes, gpu_needs_action, program_stalled_on_files),
        )
    },
}
"""The conditions, by the names under which rows of causes refer to them."""
