"""Check that the training step scales from one rank to all of them.

The right speed of a step depends on the model, so there is no reference: one rank alone is compared with all
ranks together. Source: PyTorch, DDP design notes (overlap of all-reduce and backward); health reports of
clusters that compare a step alone and together.
"""

from __future__ import annotations

from collections.abc import Iterator

from probes.base.units import percent
from probes.compare.comparing import is_sound
from probes.compare.measured_findings import failures, observed, of, refs_of, words_of
from probes.compare.slow_causes import of_collective
from probes.facts.measurements import Measurement, Parameter
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.reporting import HOST

JUDGE = Judge(
    check_id="measured-train-step",
    why="What is lost from one rank to all of them is paid for in every step and on every GPU.",
)

_BENCHES = ("train-step", "train-cnn")
_REMEDY = Remedy(
    text="See which part grows: measure the collectives and their overlap, and watch clocks and CPUs while "
    "all ranks train.",
    command="rigtune bench --only collectives --only overlap --only sustained --suite full",
)


def check(evidence: Evidence) -> Iterator[Finding]:
    yield from failures(JUDGE, evidence, (*_BENCHES, "own-step", "micro-batch"))
    rates = [
        measurement for measurement in of(evidence, _BENCHES, "model_flops_per_s") if is_sound(measurement)
    ]
    if not rates:
        yield JUDGE.skipped(HOST, "no training step was measured")
        return
    together = [measurement for measurement in rates if _ranks(measurement) > 1]
    alone = {_case(measurement): measurement for measurement in rates if _ranks(measurement) == 1}
    pairs = [
        (alone[_case(measurement)], measurement) for measurement in together if _case(measurement) in alone
    ]
    limit = evidence.thresholds.scaling_warn_fraction
    best: dict[str, tuple[Measurement, Measurement]] = {}
    for one_rank, all_ranks in pairs:
        # The last pair has the largest micro-batch, which training will choose.
        best[all_ranks.bench_id] = (one_rank, all_ranks)
    slow = {bench: pair for bench, pair in best.items() if pair[1].median < limit.value * pair[0].median}
    for bench, (one_rank, all_ranks) in slow.items():
        cause = of_collective(evidence)
        yield JUDGE.warned(
            all_ranks.subject,
            f"{bench}: each of {_ranks(all_ranks)} ranks reaches "
            f"{percent(round(all_ranks.median / one_rank.median, 2))} of what one "
            f"rank reaches alone{f': {cause.words}' if cause else ''}",
            expected=f"at least {percent(limit.value)}",
            observed=f"{observed([all_ranks])}, alone {observed([one_rank])} ({words_of(all_ranks)})",
            remedy=cause.remedy if cause else _REMEDY,
            evidence=(*refs_of([one_rank, all_ranks]), limit.ref),
        )
    if best and not slow:
        shares = "; ".join(
            f"{bench} {percent(round(pair[1].median / pair[0].median, 2))}" for bench, pair in best.items()
        )
        yield JUDGE.passed(
            HOST, "the training step scales over the ranks", observed=shares, evidence=refs_of(together)
        )
    elif not best:
        yield JUDGE.skipped(
            HOST,
            f"the step was measured on one number of ranks only: {observed(rates)}",
            evidence=refs_of(rates),
        )


def _ranks(measured: Measurement) -> int:
    ranks = measured.parameters.get("world_size", 1)
    return ranks if isinstance(ranks, int) else 1


def _case(measured: Measurement) -> tuple[str, tuple[tuple[str, Parameter], ...]]:
    return measured.bench_id, tuple(
        sorted((name, value) for name, value in measured.parameters.items() if name != "world_size")
    )
