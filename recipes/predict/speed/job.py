"""One training job as the models see it."""

from __future__ import annotations

from typing import NamedTuple

from recipes.job.models.blocks import Block
from recipes.job.workload import Workload
from recipes.planning.plan import Candidate, Cluster
from recipes.predict.parameters import parameter
from recipes.predict.stacks import Stack


class Job(NamedTuple):
    """What is trained, how it is laid out, on what and by which software."""

    workload: Workload
    candidate: Candidate
    cluster: Cluster
    stack: Stack

    @property
    def sequence(self) -> float:
        """Tokens that each sequence of a micro-batch costs."""
        return self.stack.sample_tokens(self.workload, self.candidate.micro_batch)

    @property
    def tokens(self) -> float:
        """Tokens of a micro-batch that one rank computes; tensor-parallel ranks compute the same ones."""
        return self.candidate.micro_batch * self.sequence / self.candidate.degrees.cp

    @property
    def attended(self) -> float:
        """Tokens over which attention reaches: a sequence, or a sample where several are packed into one."""
        if (
            not self.workload.fine_tuning
            or not self.stack.packs_samples
            or self.workload.model.kind != "decoder"
        ):
            return self.sequence
        return min(self.sequence, parameter("time.packed_tokens"))

    def tokens_of(self, block: Block) -> float:
        """The same for one block: the decoder of an encoder-decoder sees the shorter target."""
        return self.tokens * self.target_share if block.decoder else self.tokens

    @property
    def target_share(self) -> float:
        """Tokens of an encoder-decoder's target over those of its source; answers and summaries are short. 1
        for other models.
        """
        model = self.workload.model
        if model.kind != "encoder-decoder":
            return 1.0
        return parameter("time.target_share") if self.workload.fine_tuning else model.decoder_tokens
