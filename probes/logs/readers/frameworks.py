"""Reader of Ray, Horovod, JAX, Kubernetes and containers: dead workers, missing ranks, pods that do not run.

Source: ray-project/ray, src/ray (worker exit types) and python/ray/exceptions.py; horovod/horovod,
common/stall_inspector.cc, controller.cc and operations.cc; openxla/xla, xla/service/rendezvous.cc and tsl
coordination service; Kubernetes documentation, pod lifecycle and node-pressure eviction;
NVIDIA/nvidia-container-toolkit and libnvidia-container; NVIDIA/pyxis (read 2026-11).
"""

from __future__ import annotations

from probes.logs.event import Event, LogLine
from probes.logs.events.framework_events import (
    ContainerFailed,
    ContainerNoGpu,
    HorovodMismatch,
    HorovodShutDown,
    HorovodStall,
    HorovodStalled,
    JaxBarrierTimeout,
    JaxRendezvousTimeout,
    JaxTaskLost,
    K8sNotRunning,
    K8sStarted,
    RayNodeLost,
    RayWorkerDied,
)
from probes.logs.readers.row_readers import read_rows, row, signs

_EXIT = (
    r"(?:.{0,2000}?Worker exit type: (?P<exit_type>[A-Z_]{3,40}))?(?:.{0,200}?Worker exit detail: "
    r"(?P<detail>[^.]{1,160}))?"
)
_RANKS = r"(?P<ranks>[\d, ]{1,400})"
_ROWS = (
    row(
        RayWorkerDied,
        "died or was killed while executing a task",
        rf"died or was killed while executing a task{_EXIT}",
    ),
    row(
        RayWorkerDied, "actor is dead because its worker process has died", rf"worker process has died{_EXIT}"
    ),
    row(RayWorkerDied, "The actor died unexpectedly before finishing this task"),
    row(RayWorkerDied, "The worker died unexpectedly while executing this task"),
    row(
        RayNodeLost,
        "has been marked dead because",
        r"node id:? (?P<node>\w{1,64}).{0,200}has been marked dead because",
    ),
    row(
        HorovodStall,
        "One or more tensors were submitted to be reduced",
        r"for more than (?P<seconds>\d{1,9}) seconds",
    ),
    row(
        HorovodStalled,
        "[missing ranks: ",
        rf"(?<![\w./-])(?P<tensor>[\w./-]{{1,200}}) \[(?P<state>missing) ranks: {_RANKS}\]",
    ),
    row(
        HorovodStalled,
        "[ready ranks: ",
        rf"(?<![\w./-])(?P<tensor>[\w./-]{{1,200}}) \[(?P<state>ready) ranks: {_RANKS}\]",
    ),
    row(
        HorovodMismatch,
        "Mismatched ",
        r"(?P<reason>Mismatched (?:data types|\w{3,20} (?:tensor|root rank|operation)).{0,200})",
    ),
    row(HorovodShutDown, "Horovod has been shut down. "),
    row(JaxBarrierTimeout, "Barrier timed out", r"Barrier timed out.{0,400}?(?P<tasks>/job:\S{1,120})?"),
    row(
        JaxRendezvousTimeout,
        "threads to join the rendezvous",
        r"[Tt]ermination timeout.{0,600}Expected (?P<expected>\d{1,6}) threads to join the rendezvous, but "
        r"(?:only (?P<joined>\d{1,6})|not all)",
    ),
    row(
        JaxTaskLost,
        "stopped sending heartbeats",
        r"stopped sending heartbeats.{0,20}?(?P<tasks>/job:[^\n]{1,160})?",
    ),
    row(K8sNotRunning, " nodes are available: ", r"(?P<reason>0/\d{1,6} nodes are available: .{0,160})"),
    row(K8sNotRunning, "CrashLoopBackOff", r"(?P<reason>CrashLoopBackOff)"),
    row(K8sNotRunning, "PullBackOff", r"(?P<reason>ImagePullBackOff)"),
    row(K8sNotRunning, "ErrImage", r"(?P<reason>ErrImage\w{4,12})"),
    row(K8sNotRunning, "InvalidImageName", r"(?P<reason>InvalidImageName)"),
    row(
        K8sNotRunning,
        "ailed to pull image ",
        r'ailed to pull image "(?P<image>[^"]{1,200})"(?:: (?P<reason>.{1,200}))?',
    ),
    row(K8sNotRunning, "pulling image ", r'Back-off (?P<reason>pulling image) "(?P<image>[^"]{1,200})"'),
    row(K8sNotRunning, " is waiting to start: ", r'" is waiting to start: (?P<reason>[\w ,]{3,120})'),
    row(K8sStarted, "Started container "),
    row(K8sStarted, "Successfully assigned "),
    row(
        K8sNotRunning,
        "The node was low on resource: ",
        r"(?P<reason>The node was low on resource: (?!memory)[\w-]{1,40})",
    ),
    row(
        ContainerNoGpu,
        "nvidia-container-cli: ",
        r"nvidia-container-cli: (?P<reason>(?!.{0,80}version mismatch).{1,200})",
    ),
    row(
        ContainerNoGpu,
        "could not select device driver",
        r"(?P<reason>could not select device driver.{0,80}gpu.{0,20})",
    ),
    row(ContainerNoGpu, "unresolvable CDI devices", r"(?P<reason>unresolvable CDI devices.{0,80})"),
    row(ContainerFailed, "OCI runtime create failed", r"OCI runtime create failed: (?P<reason>.{1,200})"),
    row(
        ContainerFailed, "pyxis: container start failed", r"pyxis: (?P<reason>container start failed.{0,120})"
    ),
)
SIGNS: tuple[bytes, ...] = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the event of one line."""
    return tuple(event for event in read_rows(_ROWS, line) if not _is_intended(event))


def _is_intended(event: Event) -> bool:
    match event.what:
        case RayWorkerDied(exit_type=str(exit_type)):
            return exit_type.startswith("INTENDED")
    return False
