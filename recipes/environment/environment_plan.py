"""The variables that a plan exports, proposes to measure or leaves to the machine, and their merged view."""

from typing import Literal

from probes.base.record import Record
from recipes.environment.environment_rows import Tier


class EnvVar(Record, kw_only=True):
    """An environment variable of the job, with its reason."""

    name: str
    value: str
    why: str
    source: str
    date: str = ""
    """Month in which the source was read."""
    tier: Tier = "recommended"
    nccl: str = ""
    """Versions of NCCL for which the row holds, such as `from 2.24 before 2.26.5`; empty for all."""
    expires: str = ""
    """Event after which the variable should be removed; empty if none is known."""
    conflicts: tuple[str, ...] = ()
    """Variables, or variables with a value (`NAME=1`), that must not be set together with this one."""
    launchers: tuple[str, ...] = ()
    """Launchers whose scripts export the variable; empty for all."""


class EffectiveVariable(Record, kw_only=True):
    """A variable as the ranks of the job read it."""

    name: str
    value: str
    origin: str
    """Owner of this value: `plan`, `environment`, the path of a configuration file, or a preset's owner."""
    overridden: tuple[str, ...] = ()
    """Settings with lower priority that differ: `/etc/nccl.conf: 22`."""
    advised: str = ""
    """Value that a row recommends, if the machine's own setting differs and is kept."""


class RankBinding(Record, kw_only=True):
    """Processors and memory near the GPU of one local rank."""

    local_rank: int
    cpus: str
    """CPUs in the kernel's notation: `0-55,112-167`."""
    numa_node: int


class HostSetting(Record, kw_only=True):
    """A setting of the program or the launcher that follows from the processors."""

    name: Literal["num_workers", "cpu_binding"]
    value: str
    basis: Literal["measured", "rule"]
    because: str


class EnvironmentPlan(Record, kw_only=True):
    """Decisions about the environment of the processes, besides the exported variables."""

    platform: str = ""
    """Id of the platform (`recipes/data/platforms`); empty if the facts show no platform."""
    platform_title: str = ""
    experiments: tuple[EnvVar, ...] = ()
    """Variables that should be measured before they are used; `rigtune tune` tries them."""
    effective: tuple[EffectiveVariable, ...] = ()
    """Merged view of the plan, the process, configuration files and presets."""
    bindings: tuple[RankBinding, ...] = ()
    """Processors of each local rank; empty if ranks need no binding, or if a place is unknown."""
    binding_words: dict[str, str] = {}
    """Options that bind the ranks, by launcher."""
    host: tuple[HostSetting, ...] = ()
