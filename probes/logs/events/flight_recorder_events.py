"""Records of the contents of dumps by torch's flight recorder."""

from probes.logs.events.log_record import Complaint, LogRecord


class TorchFlightRecorder(LogRecord, kw_only=True, tag="torch.flight-recorder"):
    """A dump was read."""

    entries: int
    """Number of collectives."""
    groups: int
    """Number of process groups."""
    version: str | None = None


class TorchFlightRecorderGroup(LogRecord, kw_only=True, tag="torch.flight-recorder-group"):
    """The progress of a process group."""

    group: str
    """Name of the group, the same on all its ranks."""
    desc: int | str | None = None
    """Description of the group."""
    members: int | str | None = None
    """Ranks, as the dump lists them."""
    enqueued: int | None = None
    """Sequence number of the last collective that was enqueued."""
    started: int | None = None
    """Sequence number of the last collective that was started."""
    completed: int | None = None
    """Sequence number of the last collective that was completed."""


class RecordedCollective(LogRecord, kw_only=True):
    """The base of the records of a collective in a dump."""

    group: str
    """Name of the group, the same on all its ranks."""
    op: str
    state: str
    """`scheduled` (a rank is missing, or an earlier collective hangs), `started` (it hangs), `completed`."""
    seq: int | None = None
    """Sequence number of the collective."""
    sizes: int | str | None = None
    """Sizes of the inputs."""
    dtype: int | str | None = None
    """Type of the data."""


class TorchFlightRecorderStuck(RecordedCollective, kw_only=True, tag="torch.flight-recorder-stuck"):
    """The first collective of a group that did not complete."""

    timeout_ms: int | None = None
    place: str | None = None
    """The innermost line of the program's own code."""


class TorchFlightRecorderEntry(RecordedCollective, kw_only=True, tag="torch.flight-recorder-entry"):
    """A collective shortly before or after the hanging collective, or near the end of the dump."""


class TorchFlightRecorderRefused(Complaint, kw_only=True, tag="torch.flight-recorder-refused"):
    """A pickle contains more than the plain data that flight recorders write."""


class TorchFlightRecorderUnread(Complaint, kw_only=True, tag="torch.flight-recorder-unread"):
    """A dump is cut or damaged."""
