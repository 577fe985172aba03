"""Records of deductions about the course of a run: ranks that wait or part, variables, and how it ended."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord, Reasoned


class DeducedCollectivesDiffer(Reasoned, kw_only=True):
    """Ranks part at one number of their sequence."""

    KIND: ClassVar[str] = "deduced.collectives-differ"
    seq: int | str
    """Number in the sequence of collectives."""


class DeducedStragglers(LogRecord, kw_only=True):
    """Ranks never came to a collective for which others wait."""

    KIND: ClassVar[str] = "deduced.stragglers"
    names: str
    """Names, separated by commas."""
    op: str | None = None
    seq: int | None = None
    """Number in the sequence of collectives."""
    late_in: str | None = None
    """Collective for which the late ranks wait themselves, in words."""


class DeducedIneffectiveVariable(Reasoned, kw_only=True):
    """A variable does not do what it should."""

    KIND: ClassVar[str] = "deduced.ineffective-variable"
    name: str
    firm: bool
    """Whether it surely has no effect."""
    fix: str
    """Recommended replacement."""


class DeducedLeftoverVariable(Reasoned, kw_only=True):
    """A variable for debugging is still set."""

    KIND: ClassVar[str] = "deduced.leftover-variable"
    name: str
    value: str


class DeducedRanksNotTold(LogRecord, kw_only=True):
    """No line names some ranks."""

    KIND: ClassVar[str] = "deduced.ranks-not-told"
    have: int
    """Number of ranks that lines name."""
    ranks: int
    """Ranks of the communicator."""
    names: str
    """Names, separated by commas."""


class DeducedWaitsAtStart(LogRecord, kw_only=True):
    """Ranks begin to initialise, and nothing follows."""

    KIND: ClassVar[str] = "deduced.waits-at-start"
    ranks: int
    """Ranks of the communicator."""


class DeducedWaitsForRanks(LogRecord, kw_only=True):
    """Most ranks begin to initialise and wait for others that never come."""

    KIND: ClassVar[str] = "deduced.waits-for-ranks"
    names: str
    """Names, separated by commas."""
    ranks: int
    """Ranks of the communicator."""


class DeducedSilenceAfterInit(Reasoned, kw_only=True):
    """Nothing follows an initialisation until the job was ended from outside."""

    KIND: ClassVar[str] = "deduced.silence-after-init"
    complete: int | None = None
    """Number of ranks that completed."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during`, where no line says that the initialisation is done."""


class DeducedEndsAfterInit(Reasoned, kw_only=True):
    """The log ends with an initialisation."""

    KIND: ClassVar[str] = "deduced.ends-after-init"
    complete: int | None = None
    """Number of ranks that completed."""
    ranks: int | None = None
    """Ranks of the communicator."""
    stage: str | None = None
    """`during`, where no line says that the initialisation is done."""


class DeducedStopsAtP2p(Reasoned, kw_only=True):
    """The log stops while peer-to-peer channels are connected."""

    KIND: ClassVar[str] = "deduced.stops-at-p2p"


class DeducedKilledFirst(LogRecord, kw_only=True):
    """A task was killed before anything else failed."""

    KIND: ClassVar[str] = "deduced.killed-first"
    node: str
    tasks: str
    """Numbers of the tasks."""
    reason: str
    """Name of the signal."""
    signal: int | None = None
    """Number or name of the signal."""
