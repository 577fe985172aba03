"""Records of reports by Ray, Horovod, JAX, Gloo, Kubernetes and containers."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import Complaint, LogRecord


class RayWorkerDied(LogRecord, kw_only=True):
    """A process of Ray is gone."""

    KIND: ClassVar[str] = "ray.worker-died"
    exit_type: str | None = None
    """Ray's word for the end."""
    detail: str | None = None
    """Details in words."""


class RayNodeLost(LogRecord, kw_only=True):
    """A node no longer answers Ray."""

    KIND: ClassVar[str] = "ray.node-lost"
    node: str


class HorovodStall(LogRecord, kw_only=True):
    """Some ranks did not submit a tensor."""

    KIND: ClassVar[str] = "horovod.stall"
    seconds: int | None = None


class HorovodStalled(LogRecord, kw_only=True):
    """The ranks that submitted a tensor, or did not."""

    KIND: ClassVar[str] = "horovod.stalled"
    tensor: str
    state: str
    """`missing` or `ready`."""
    ranks: str
    """Ranks, separated by commas."""


class HorovodMismatch(Complaint, kw_only=True):
    """Ranks submitted different tensors."""

    KIND: ClassVar[str] = "horovod.mismatch"


class HorovodShutDown(LogRecord, kw_only=True):
    """Another rank ended first."""

    KIND: ClassVar[str] = "horovod.shut-down"


class JaxBarrierTimeout(LogRecord, kw_only=True):
    """A barrier of JAX timed out."""

    KIND: ClassVar[str] = "jax.barrier-timeout"
    tasks: str | None = None
    """Numbers of the tasks."""


class JaxRendezvousTimeout(LogRecord, kw_only=True):
    """Not all threads met for a collective of XLA."""

    KIND: ClassVar[str] = "jax.rendezvous-timeout"
    expected: int
    """Expected value."""
    joined: int | None = None


class JaxTaskLost(LogRecord, kw_only=True):
    """A task of JAX no longer answers."""

    KIND: ClassVar[str] = "jax.task-lost"
    tasks: str | None = None
    """Numbers of the tasks."""


class K8sNotRunning(LogRecord, kw_only=True):
    """A pod could not be placed, pulled, started or kept."""

    KIND: ClassVar[str] = "k8s.not-running"
    reason: str | None = None
    image: str | None = None


class K8sStarted(LogRecord, kw_only=True):
    """A pod was placed or started."""

    KIND: ClassVar[str] = "k8s.started"


class ContainerNoGpu(Complaint, kw_only=True):
    """A container is not given its GPUs."""

    KIND: ClassVar[str] = "container.no-gpu"


class ContainerFailed(Complaint, kw_only=True):
    """A container does not start."""

    KIND: ClassVar[str] = "container.failed"


class GlooLoopback(LogRecord, kw_only=True):
    """The host name leads to the loopback address, so that other nodes cannot connect."""

    KIND: ClassVar[str] = "gloo.loopback"


class GlooConnectFailed(Complaint, kw_only=True):
    """A connection of Gloo failed."""

    KIND: ClassVar[str] = "gloo.connect-failed"
    host: str
    port: int


class GlooRemoteClosed(LogRecord, kw_only=True):
    """The other side closed a connection of Gloo."""

    KIND: ClassVar[str] = "gloo.remote-closed"
    host: str
    port: int
    reason: str | None = None


class GlooTimeout(LogRecord, kw_only=True):
    """A Gloo collective timed out."""

    KIND: ClassVar[str] = "gloo.timeout"
    what: str
    """`send`, `recv` or `pair closure`."""
    after_ms: int | None = None
    """Milliseconds after which it gave up."""


class GlooInterfaceMissing(Complaint, kw_only=True):
    """Gloo finds no interface."""

    KIND: ClassVar[str] = "gloo.interface-missing"


class GlooMeshFailed(Complaint, kw_only=True):
    """Not all ranks of Gloo met."""

    KIND: ClassVar[str] = "gloo.mesh-failed"


class GlooSizeMismatch(LogRecord, kw_only=True):
    """Ranks of Gloo disagree on the size of a message."""

    KIND: ClassVar[str] = "gloo.size-mismatch"
    preamble: int
    """Bytes that the peer announced."""
    bytes: int
    """Bytes that were expected."""


class GlooError(Complaint, kw_only=True):
    """Any other complaint of Gloo."""

    KIND: ClassVar[str] = "gloo.error"
    file: str
    """Place in the source code."""
