"""Records of reports by Ray, Horovod, JAX, Gloo, Kubernetes and containers."""

from probes.logs.events.log_record import Complaint, LogRecord


class RayWorkerDied(LogRecord, kw_only=True, tag="ray.worker-died"):
    """A process of Ray has ended."""

    exit_type: str | None = None
    """Ray's name for the way in which the process ended."""
    detail: str | None = None
    """Ray's details about the end."""


class RayNodeLost(LogRecord, kw_only=True, tag="ray.node-lost"):
    """A node no longer answers Ray."""

    node: str


class HorovodStall(LogRecord, kw_only=True, tag="horovod.stall"):
    """Some ranks did not submit a tensor."""

    seconds: int | None = None


class HorovodStalled(LogRecord, kw_only=True, tag="horovod.stalled"):
    """The ranks that submitted a tensor, or the ranks that did not submit it."""

    tensor: str
    state: str
    """`missing` or `ready`."""
    ranks: str
    """Ranks, separated by commas."""


class HorovodMismatch(Complaint, kw_only=True, tag="horovod.mismatch"):
    """Ranks submitted different tensors."""


class HorovodShutDown(LogRecord, kw_only=True, tag="horovod.shut-down"):
    """Another rank ended first."""


class JaxBarrierTimeout(LogRecord, kw_only=True, tag="jax.barrier-timeout"):
    """A barrier of JAX timed out."""

    tasks: str | None = None
    """Numbers of the tasks."""


class JaxRendezvousTimeout(LogRecord, kw_only=True, tag="jax.rendezvous-timeout"):
    """Not all threads reached a collective of XLA."""

    expected: int
    """Number of threads that should join."""
    joined: int | None = None


class JaxTaskLost(LogRecord, kw_only=True, tag="jax.task-lost"):
    """A task of JAX no longer answers."""

    tasks: str | None = None
    """Numbers of the tasks."""


class K8sNotRunning(LogRecord, kw_only=True, tag="k8s.not-running"):
    """A pod could not be scheduled or started, its image could not be pulled, or it was evicted."""

    reason: str | None = None
    image: str | None = None


class K8sStarted(LogRecord, kw_only=True, tag="k8s.started"):
    """A pod was scheduled or started."""


class ContainerNoGpu(Complaint, kw_only=True, tag="container.no-gpu"):
    """A container does not get its GPUs."""


class ContainerFailed(Complaint, kw_only=True, tag="container.failed"):
    """A container does not start."""


class GlooLoopback(LogRecord, kw_only=True, tag="gloo.loopback"):
    """The host name leads to the loopback address, so that other nodes cannot connect."""


class GlooConnectFailed(Complaint, kw_only=True, tag="gloo.connect-failed"):
    """A connection of Gloo failed."""

    host: str
    port: int


class GlooRemoteClosed(LogRecord, kw_only=True, tag="gloo.remote-closed"):
    """The other side closed a connection of Gloo."""

    host: str
    port: int
    reason: str | None = None


class GlooTimeout(LogRecord, kw_only=True, tag="gloo.timeout"):
    """A Gloo collective timed out."""

    what: str
    """`send`, `recv` or `pair closure`."""
    after_ms: int | None = None
    """Timeout in milliseconds."""


class GlooInterfaceMissing(Complaint, kw_only=True, tag="gloo.interface-missing"):
    """Gloo finds no interface."""


class GlooMeshFailed(Complaint, kw_only=True, tag="gloo.mesh-failed"):
    """Not all ranks of Gloo connected to each other."""


class GlooSizeMismatch(LogRecord, kw_only=True, tag="gloo.size-mismatch"):
    """Ranks of Gloo disagree on the size of a message."""

    preamble: int
    """Bytes that the peer announced."""
    bytes: int
    """Bytes that were expected."""


class GlooError(Complaint, kw_only=True, tag="gloo.error"):
    """Any other complaint of Gloo."""

    file: str
    """Place in the source code."""
