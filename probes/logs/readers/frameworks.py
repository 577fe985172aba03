"""Ray, Horovod, JAX, Kubernetes and containers: workers that died, ranks that do not come, pods and
containers that do not run.

Kinds: ray.worker-died{exit_type, detail}: one of Ray's processes is gone, mostly without a word of its own;
ray.node-lost{node}. horovod.stall{seconds}: some ranks did not submit a tensor; horovod.stalled{tensor,
state, ranks}: which ranks are `missing`, or `ready`. horovod.mismatch{reason}: ranks submit different
tensors. horovod.shut-down{}: another rank ended first. jax.barrier-timeout{tasks},
jax.rendezvous-timeout{joined, expected}, jax.task-lost{tasks}: of XLA's and JAX's coordination.
k8s.not-running{reason, image}: a pod that could not be placed, pulled or kept on its node; k8s.started{}: one
that was. container.no-gpu{reason}: a container that is not given its GPUs; container.failed{reason}: one that
does not start.

Source: ray-project/ray, src/ray (worker exit types) and python/ray/exceptions.py; horovod/horovod,
common/stall_inspector.cc, controller.cc and operations.cc; openxla/xla, xla/service/rendezvous.cc and tsl
coordination service; Kubernetes documentation, pod lifecycle and node-pressure eviction;
NVIDIA/nvidia-container-toolkit and libnvidia-container; NVIDIA/pyxis (read 2026-11).
"""

from __future__ import annotations

from probes.logs.event import Event
from probes.logs.line import LogLine
from probes.logs.readers.row_readers import read_rows, row, signs

_EXIT = r"(?:.{0,2000}?Worker exit type: (?P<exit_type>[A-Z_]{3,40}))?(?:.{0,200}?Worker exit detail: (?P<detail>[^.]{1,160}))?"
_RANKS = r"(?P<ranks>[\d, ]{1,400})"
_ROWS = (
    row(
        "ray.worker-died",
        "died or was killed while executing a task",
        rf"died or was killed while executing a task{_EXIT}",
    ),
    row(
        "ray.worker-died",
        "actor is dead because its worker process has died",
        rf"worker process has died{_EXIT}",
    ),
    row("ray.worker-died", "The actor died unexpectedly before finishing this task"),
    row("ray.worker-died", "The worker died unexpectedly while executing this task"),
    row(
        "ray.node-lost",
        "has been marked dead because",
        r"node id:? (?P<node>\w{1,64}).{0,200}has been marked dead because",
    ),
    row(
        "horovod.stall",
        "One or more tensors were submitted to be reduced",
        r"for more than (?P<seconds>\d{1,9}) seconds",
    ),
    row(
        "horovod.stalled",
        "[missing ranks: ",
        rf"(?<![\w./-])(?P<tensor>[\w./-]{{1,200}}) \[(?P<state>missing) ranks: {_RANKS}\]",
    ),
    row(
        "horovod.stalled",
        "[ready ranks: ",
        rf"(?<![\w./-])(?P<tensor>[\w./-]{{1,200}}) \[(?P<state>ready) ranks: {_RANKS}\]",
    ),
    row(
        "horovod.mismatch",
        "Mismatched ",
        r"(?P<reason>Mismatched (?:data types|\w{3,20} (?:tensor|root rank|operation)).{0,200})",
    ),
    row("horovod.shut-down", "Horovod has been shut down. "),
    row("jax.barrier-timeout", "Barrier timed out", r"Barrier timed out.{0,400}?(?P<tasks>/job:\S{1,120})?"),
    row(
        "jax.rendezvous-timeout",
        "threads to join the rendezvous",
        r"[Tt]ermination timeout.{0,600}Expected (?P<expected>\d{1,6}) threads to join the rendezvous, but "
        r"(?:only (?P<joined>\d{1,6})|not all)",
    ),
    row(
        "jax.task-lost",
        "stopped sending heartbeats",
        r"stopped sending heartbeats.{0,20}?(?P<tasks>/job:[^\n]{1,160})?",
    ),
    row("k8s.not-running", " nodes are available: ", r"(?P<reason>0/\d{1,6} nodes are available: .{0,160})"),
    row("k8s.not-running", "CrashLoopBackOff", r"(?P<reason>CrashLoopBackOff)"),
    row("k8s.not-running", "PullBackOff", r"(?P<reason>ImagePullBackOff)"),
    row("k8s.not-running", "ErrImage", r"(?P<reason>ErrImage\w{4,12})"),
    row("k8s.not-running", "InvalidImageName", r"(?P<reason>InvalidImageName)"),
    row(
        "k8s.not-running",
        "ailed to pull image ",
        r'ailed to pull image "(?P<image>[^"]{1,200})"(?:: (?P<reason>.{1,200}))?',
    ),
    row("k8s.not-running", "pulling image ", r'Back-off (?P<reason>pulling image) "(?P<image>[^"]{1,200})"'),
    row("k8s.not-running", " is waiting to start: ", r'" is waiting to start: (?P<reason>[\w ,]{3,120})'),
    row("k8s.started", "Started container "),
    row("k8s.started", "Successfully assigned "),
    row(
        "k8s.not-running",
        "The node was low on resource: ",
        r"(?P<reason>The node was low on resource: (?!memory)[\w-]{1,40})",
    ),
    row(
        "container.no-gpu",
        "nvidia-container-cli: ",
        r"nvidia-container-cli: (?P<reason>(?!.{0,80}version mismatch).{1,200})",
    ),
    row(
        "container.no-gpu",
        "could not select device driver",
        r"(?P<reason>could not select device driver.{0,80}gpu.{0,20})",
    ),
    row("container.no-gpu", "unresolvable CDI devices", r"(?P<reason>unresolvable CDI devices.{0,80})"),
    row("container.failed", "OCI runtime create failed", r"OCI runtime create failed: (?P<reason>.{1,200})"),
    row(
        "container.failed",
        "pyxis: container start failed",
        r"pyxis: (?P<reason>container start failed.{0,120})",
    ),
)
SIGNS: tuple[bytes, ...] = signs(_ROWS)


def read(line: LogLine) -> tuple[Event, ...]:
    """The event of one line."""
    return tuple(
        event
        for event in read_rows(_ROWS, line)
        if not str(event.fields.get("exit_type", "")).startswith("INTENDED")
    )
