"""A case with all inputs of the models, and the models that predict its memory and time."""

from probes.base.record import Record
from recipes.cases.case import Case
from recipes.job.candidate import Candidate
from recipes.job.workload import VisionWorkload, Workload
from recipes.machine.cluster_records import Cluster
from recipes.predict.breakdowns import MemoryBreakdown
from recipes.predict.familiarity import Familiarity, Fitted, familiarity
from recipes.predict.job_prediction import memory_for
from recipes.predict.stacks import Stack, stack_named
from recipes.predict.training_job import Job


class ResolvedCase(Record, kw_only=True):
    """A case as input of the models."""

    case: Case
    job: Job
    """The job: model and task, layout, machine and software."""
    gpus: int
    batch_stated: bool
    """False if neither global batch, accumulation nor micro-batch is given: the size of a step is then
    unknown.
    """
    recomputed: Candidate | None = None
    """Candidate that fits by recomputing layers; None if recomputation is not needed or is not enough.

    The field is set if the candidate recomputes nothing and its predicted memory exceeds the GPU's memory by
    no more than the model's error.
    """
    recomputed_memory: MemoryBreakdown | None = None
    """Memory of `recomputed`."""
    assumed: tuple[str, ...] = ()
    """Defaults that were assumed for values that the row does not state, as text."""
    memory: MemoryBreakdown | None = None
    """Memory of the candidate, if it was computed when the candidate was chosen.

    `memory_of_case` computes the memory otherwise.
    """

    @property
    def workload(self) -> Workload | VisionWorkload:
        return self.job.workload

    @property
    def candidate(self) -> Candidate:
        return self.job.candidate

    @property
    def cluster(self) -> Cluster:
        return self.job.cluster

    @property
    def stack(self) -> Stack:
        return self.job.stack

    @property
    def software(self) -> str:
        """Id of the stack that has the name of the case's software; blank if no stack has this name."""
        return "" if stack_named(self.case.stack) is None else self.stack.id

    def seen(self, figure: Fitted) -> Familiarity:
        """Return whether the data behind the fits of a figure contain this software and this GPU."""
        return familiarity(figure, self.software, self.cluster.gpu or "")

    def memory_of_case(self) -> MemoryBreakdown:
        """Return peak memory of the fullest rank."""
        return self.memory or memory_for(self.job)

    @property
    def fits_recomputed(self) -> bool:
        """Return whether the run fits only with recomputation."""
        return self.recomputed is not None

    def fits(self, memory: MemoryBreakdown) -> bool | None:
        """Return whether the run fits into a GPU's memory, perhaps only with recomputation.

        None if the GPU's memory is unknown.
        """
        limit = self.cluster.memory_bytes_per_rank
        return None if limit is None else self.fits_recomputed or memory.needed <= limit.value
