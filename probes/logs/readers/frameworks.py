"""Reader of Gloo, Ray, Horovod, JAX, Kubernetes and containers: dead workers, missing ranks, failed pods.

Source: facebookincubator/gloo, gloo/transport/tcp (pair.cc, device.cc, unbound_buffer.cc); ray-project/ray,
src/ray (worker exit types) and python/ray/exceptions.py; horovod/horovod, common/stall_inspector.cc,
controller.cc and operations.cc; openxla/xla, xla/service/rendezvous.cc and tsl coordination service;
Kubernetes documentation, pod lifecycle and node-pressure eviction;
NVIDIA/nvidia-container-toolkit and libnvidia-container; NVIDIA/pyxis (read 2026-11).
"""

from probes.logs.event import Event, LogLine
from probes.logs.events.framework_events import (
    ContainerFailed,
    ContainerNoGpu,
    GlooConnectFailed,
    GlooError,
    GlooInterfaceMissing,
    GlooLoopback,
    GlooMeshFailed,
    GlooRemoteClosed,
    GlooSizeMismatch,
    GlooTimeout,
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

_PEER = r"\[?(?P<host>[0-9a-fA-F.:]{2,60}?)\]?:(?P<port>\d{1,5})\b"
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
_GLOO = (
    row(GlooLoopback, "Using the loopback address as fallback"),
    row(GlooLoopback, "sing loopback address as fallback"),
    row(GlooMeshFailed, "Gloo connectFullMesh failed", r"connectFullMesh failed with (?P<reason>.{0,200})"),
    row(
        GlooInterfaceMissing,
        "makeDeviceForHostname",
        r"makeDeviceFor(?:Hostname|Interface)\(\): (?P<reason>.{1,160})",
    ),
    row(GlooInterfaceMissing, "makeDeviceForInterface", r"makeDeviceForInterface\(\): (?P<reason>.{1,160})"),
    row(
        GlooInterfaceMissing,
        "Unable to find address for: ",
        r"(?P<reason>Unable to find address for: \S{1,40})",
    ),
    row(GlooRemoteClosed, "Connection closed by peer", rf"[Cc]onnection closed by peer \[?{_PEER}"),
    row(GlooRemoteClosed, "Read error [", rf"Read error {_PEER}\]?: (?P<reason>[\w ]{{1,60}})"),
    row(
        GlooConnectFailed,
        "gloo/transport/tcp",
        rf"connect(?:ing)? (?:to )?\[?{_PEER}\]?: (?P<reason>.{{1,120}})",
    ),
    row(
        GlooTimeout, "ms for send operation", r"Timed out waiting (?P<after_ms>\d{1,12})ms for (?P<what>send)"
    ),
    row(
        GlooTimeout, "ms for recv operation", r"Timed out waiting (?P<after_ms>\d{1,12})ms for (?P<what>recv)"
    ),
    row(GlooTimeout, "Application timeout caused pair closure", r"(?P<what>pair closure)"),
    row(
        GlooSizeMismatch,
        "op.preamble.length <= op.nbytes",
        r"op\.preamble\.length <= op\.nbytes\. (?P<preamble>\d{1,18}) vs (?P<bytes>\d{1,18})",
    ),
    row(
        GlooError,
        "gloo/transport/",
        r"gloo/transport/(?P<file>[\w/]{1,60}\.cc:\d{1,6})\] (?P<reason>.{1,200})",
    ),
)
SIGNS: tuple[bytes, ...] = signs((*_GLOO, *_ROWS))


def read(line: LogLine) -> tuple[Event, ...]:
    """Return the events of one line."""
    return (*read_rows(_GLOO, line), *(event for event in read_rows(_ROWS, line) if not _is_intended(event)))


def _is_intended(event: Event) -> bool:
    match event.what:
        case RayWorkerDied(exit_type=str(exit_type)):
            return exit_type.startswith("INTENDED")
    return False
