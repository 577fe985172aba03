"""The job and the machine for which environment variables are chosen."""

import re

from probes.base.record import Record, known
from probes.base.versions import at_least
from probes.facts import MachineFacts
from probes.judging.environment_values import nccl_version
from recipes.job.candidate import Degrees, Sharding
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import MemoryBreakdown


class Situation(Record, kw_only=True):
    """Facts, cluster, memory and layout that the conditions of rows read."""

    facts: MachineFacts
    cluster: Cluster
    memory: MemoryBreakdown
    program: str = "own"
    """Training software: a row of `recipes/data/programs.toml`."""
    degrees: Degrees = Degrees()
    sharding: Sharding = "none"
    is_image_job: bool = False

    @property
    def nccl(self) -> str | None:
        """Version of NCCL that the job loads; None if unknown."""
        version = nccl_version(self.facts)
        return version if known(version) and version and at_least(version, "0") is True else None

    @property
    def torch(self) -> str | None:
        """Version of torch, with a major and a minor number at least; None if unknown."""
        version = self.facts.training.torch_version
        is_stated = known(version) and version is not None and re.match(r"\d+\.\d+(\.|$|\D)", version)
        return str(version) if is_stated else None
