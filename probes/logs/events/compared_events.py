"""Records of what is known beside the logs: the machine, the recipe, and how the run differs from both."""

from __future__ import annotations

from typing import ClassVar

from probes.logs.events.log_record import LogRecord


class Observation(LogRecord, kw_only=True):
    """The base of records of a difference or a finding."""

    observation: str
    """The difference or finding in words, for sentences of causes."""


class MachineCheck(Observation, kw_only=True):
    """A check that the machine does not pass."""

    KIND: ClassVar[str] = "machine.check"
    check: str
    """Id of the check."""
    subject: str
    """Subject of the check."""


class MachinePort(LogRecord, kw_only=True):
    """An active RDMA port."""

    KIND: ClassVar[str] = "machine.port"
    name: str
    port: int
    gbps: float
    """Gbit/s."""


class MachineGpu(LogRecord, kw_only=True):
    """A model of GPU of the machine."""

    KIND: ClassVar[str] = "machine.gpu"
    name: str


class RecipeVariable(LogRecord, kw_only=True):
    """A variable of the recipe."""

    KIND: ClassVar[str] = "recipe.variable"
    name: str
    value: str


class ComparedSockets(Observation, kw_only=True):
    """The run used sockets on a machine with active RDMA ports."""

    KIND: ClassVar[str] = "compared.sockets"
    active: int
    """Number of active ports."""


class ComparedNicsUnused(Observation, kw_only=True):
    """Active ports of the kind that the run used, which it did not use."""

    KIND: ClassVar[str] = "compared.nics-unused"
    names: str
    """Names, separated by commas."""
    used: int
    """Number of used ports."""
    share: float
    """Used share of all such ports."""


class ComparedNicsOther(Observation, kw_only=True):
    """Active ports of another kind, which the run did not use."""

    KIND: ClassVar[str] = "compared.nics-other"
    names: str
    """Names, separated by commas."""
    used: int
    """Number of used ports."""
    share: float
    """Used share of all such ports."""


class ComparedNicsStrange(Observation, kw_only=True):
    """Ports of the run that the machine does not have."""

    KIND: ClassVar[str] = "compared.nics-strange"
    names: str
    """Names, separated by commas."""


class ComparedRanks(Observation, kw_only=True):
    """The run has another number of ranks than the recipe."""

    KIND: ClassVar[str] = "compared.ranks"
    wanted: int
    """Value in the recipe."""
    had: int
    """Value in the run."""


class ComparedVariable(LogRecord, kw_only=True):
    """A variable of the run differs from the recipe."""

    KIND: ClassVar[str] = "compared.variable"
    name: str
    wanted: str
    """Empty where the recipe does not set it."""
    had: str
    """Empty where the log does not name it."""


class ComparedNccl(Observation, kw_only=True):
    """The run loaded another NCCL than the training interpreter brings."""

    KIND: ClassVar[str] = "compared.nccl"
    had: str
    """Value in the run."""


class ComparedGpus(Observation, kw_only=True):
    """A node has more ranks than the machine has GPUs."""

    KIND: ClassVar[str] = "compared.gpus"
    had: int
    """Value in the run."""


class ComparedInterface(Observation, kw_only=True):
    """The run met over an interface that the machine does not have."""

    KIND: ClassVar[str] = "compared.interface"
    name: str
