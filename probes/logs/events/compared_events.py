"""Records of facts from outside the logs: the machine, the recipe, and how the run differs from both."""

from probes.logs.events.log_record import LogRecord


class Observation(LogRecord, kw_only=True):
    """The base of records of a difference or a finding."""

    observation: str
    """A phrase that describes the difference or finding, for use in the summaries of causes."""


class MachineCheck(Observation, kw_only=True, tag="machine.check"):
    """A check that the machine does not pass."""

    check: str
    """Id of the check."""
    subject: str
    """Subject of the check, such as a GPU."""


class MachinePort(LogRecord, kw_only=True, tag="machine.port"):
    """An active RDMA port."""

    name: str
    port: int
    gbps: float
    """Gbit/s."""


class MachineGpu(LogRecord, kw_only=True, tag="machine.gpu"):
    """A GPU model in the machine."""

    name: str


class RecipeVariable(LogRecord, kw_only=True, tag="recipe.variable"):
    """An environment variable of the recipe."""

    name: str
    value: str


class ComparedSockets(Observation, kw_only=True, tag="compared.sockets"):
    """The run used sockets on a machine with active RDMA ports."""

    active: int
    """Number of active ports."""


class ComparedNicsUnused(Observation, kw_only=True, tag="compared.nics-unused"):
    """Active ports that the run did not use, although it used other ports of the same kind."""

    names: str
    """Names, separated by commas."""
    used: int
    """Number of used ports."""
    share: float
    """Used ports divided by all ports of the kind."""


class ComparedNicsOther(Observation, kw_only=True, tag="compared.nics-other"):
    """Active ports of a kind that the run did not use."""

    names: str
    """Names, separated by commas."""
    used: int
    """Number of used ports."""
    share: float
    """Used ports divided by used and unused ports."""


class ComparedNicsStrange(Observation, kw_only=True, tag="compared.nics-strange"):
    """Ports of the run that the machine does not have."""

    names: str
    """Names, separated by commas."""


class ComparedRanks(Observation, kw_only=True, tag="compared.ranks"):
    """The number of ranks differs between the run and the recipe."""

    wanted: int
    """Value in the recipe."""
    had: int
    """Value in the run."""


class ComparedVariable(LogRecord, kw_only=True, tag="compared.variable"):
    """An environment variable of the run differs from the recipe."""

    name: str
    wanted: str
    """Value in the recipe; empty if the recipe does not set the variable."""
    had: str
    """Value in the run; empty if the log does not name the variable."""


class ComparedNccl(Observation, kw_only=True, tag="compared.nccl"):
    """The run loaded another version of NCCL than the training interpreter loads."""

    had: str
    """Value in the run."""


class ComparedGpus(Observation, kw_only=True, tag="compared.gpus"):
    """A node has more ranks than the machine has GPUs."""

    had: int
    """Number of ranks on the node."""


class ComparedInterface(Observation, kw_only=True, tag="compared.interface"):
    """The ranks connected over an interface that the machine does not have."""

    name: str
