"""Records of deductions about the course of a run: waiting or differing ranks, variables, the run's end."""

from probes.logs.events.log_record import LogRecord, Reasoned


class DeducedCollectivesDiffer(Reasoned, kw_only=True, tag="deduced.collectives-differ"):
    """Ranks call different collectives, or collectives of different sizes, at the same sequence number."""

    seq: int | str
    """Sequence number of the collective."""


class DeducedStragglers(LogRecord, kw_only=True, tag="deduced.stragglers"):
    """Ranks did not join a collective that others wait for."""

    names: str
    """The ranks, separated by commas."""
    op: str | None = None
    seq: int | None = None
    """Sequence number of the collective."""
    late_in: str | None = None
    """Phrase that names the other collective for which the late ranks wait."""


class DeducedIneffectiveVariable(Reasoned, kw_only=True, tag="deduced.ineffective-variable"):
    """A variable does not have its intended effect."""

    name: str
    firm: bool
    """True if the variable certainly has no effect."""
    fix: str
    """Recommended change."""


class DeducedLeftoverVariable(Reasoned, kw_only=True, tag="deduced.leftover-variable"):
    """A variable for debugging is still set."""

    name: str
    value: str


class DeducedRanksUnnamed(LogRecord, kw_only=True, tag="deduced.ranks-unnamed"):
    """No line of the logs names these ranks."""

    have: int
    """Number of ranks that lines name."""
    ranks: int
    """Ranks of the communicator."""
    names: str
    """The ranks, separated by commas."""


class DeducedWaitsAtStart(LogRecord, kw_only=True, tag="deduced.waits-at-start"):
    """Ranks begin to initialise, and nothing follows."""

    ranks: int
    """Ranks of the communicator."""


class DeducedWaitsForRanks(LogRecord, kw_only=True, tag="deduced.waits-for-ranks"):
    """Most ranks begin to initialise and wait for other ranks that never begin."""

    names: str
    """The missing ranks, separated by commas."""
    ranks: int
    """Ranks of the communicator."""


class DeducedSilenceAfterInit(Reasoned, kw_only=True, tag="deduced.silence-after-init"):
    """No line follows an initialisation until the job is ended from outside."""

    complete: int | None = None
    """Number of ranks that completed the initialisation."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during` if no line reports the end of the initialisation; None if a line does."""


class DeducedEndsAfterInit(Reasoned, kw_only=True, tag="deduced.ends-after-init"):
    """The log ends after an initialisation."""

    complete: int | None = None
    """Number of ranks that completed the initialisation."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during` if no line reports the end of the initialisation; None if a line does."""


class DeducedStopsAtP2p(Reasoned, kw_only=True, tag="deduced.stops-at-p2p"):
    """The log stops while peer-to-peer channels are connected."""


class DeducedKilledFirst(LogRecord, kw_only=True, tag="deduced.killed-first"):
    """A task was killed before its log reports any other end or exception."""

    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number of the signal."""
