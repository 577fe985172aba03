"""Findings about measured figures that differ from their predictions, each with the change to make."""

from collections.abc import Sequence

from probes.base.units import duration, gib, percent
from probes.judging.findings import Finding, Judge, Remedy, Status
from recipes.launch.recipe import Recipe
from recipes.launch.verification import Comparison
from recipes.planning.verified_step import memory_error, stated_interval

_TIME = Judge(check_id="verify-step-time", why="A plan is chosen by its predicted step time.")
_MEMORY = Judge(check_id="verify-memory", why="A run whose memory is above the worst case may fail later.")
_ALLOCATED = Judge(check_id="verify-allocated", why="The memory model decides which layouts fit.")
_JOB = "job"


def judge_step_time(
    recipe: Recipe,
    measured_s: float,
    predicted_s: float,
    *,
    launch: Sequence[Finding],
    busy: str,
    is_own: bool,
) -> Finding:
    """Return a finding on whether the step time is within the predicted interval, with what to change if not.

    The interval is that of the recipe, or the usual interval around a prediction if the recipe has none.
    `launch` has the findings of the smoke test; `busy` describes other work on the host, or is empty.
    `is_own` is True if the user's own program was measured.
    """
    predicted = recipe.predicted
    low, high = predicted.step_time_low_s, predicted.step_time_high_s
    if low is None or high is None:
        low, high = stated_interval(predicted_s)
    expected = f"{duration(predicted_s)} ({duration(low)} to {duration(high)})"
    observed = duration(measured_s)
    if low <= measured_s <= high:
        return _TIME.passed(_JOB, "the step time is within its interval", observed=observed)
    ratio = measured_s / predicted_s
    if measured_s < low:
        return _TIME.warned(
            _JOB,
            f"steps are faster than predicted ({ratio:.2f} of the prediction)",
            expected=expected,
            observed=observed,
            remedy=Remedy(text="plan again: the plan then uses the measured step"),
        )
    return _TIME.warned(
        _JOB,
        f"steps are slower than predicted ({ratio:.2f} times the prediction)",
        expected=expected,
        observed=observed,
        remedy=_slower(recipe, launch, busy, is_own=is_own),
    )


def _slower(recipe: Recipe, launch: Sequence[Finding], busy: str, *, is_own: bool) -> Remedy:
    """Return the remedy for the most probable cause of slow steps: transport, other work, program or
    rates.
    """
    broken = [
        finding
        for finding in launch
        if finding.check_id.startswith("verify-transport") and finding.status in (Status.FAIL, Status.WARN)
    ]
    if broken:
        return Remedy(text=f"repair the transport first: {broken[0].summary} ({broken[0].observed})")
    if busy:
        return Remedy(text=f"{busy}: measure again on an idle machine")
    if is_own:
        text = (
            "compare with the reference workload, which waits for no data: if it is as fast as predicted, "
            "your program waits for data or does other work"
        )
        return Remedy(text=text, command="rigtune verify RECIPE --reference")
    rates = recipe.machine.flops_per_s.get(recipe.parallelism.precision) if recipe.machine else None
    if rates is None or rates.basis != "measured":
        text = "the plan does not use measured rates: measure this machine, and plan with its own rates"
        return Remedy(text=text, command="rigtune bench -o rates.json")
    text = "the machine is slower than when its rates were measured: check its health and clocks"
    return Remedy(text=text, command="rigtune check")


def judge_memory(
    allocated: Comparison | None, reserved: Comparison | None, worst: Comparison | None
) -> tuple[Finding, ...]:
    """Return findings on the allocated memory against its prediction, and the reserved against the worst
    case.
    """
    findings = []
    if allocated is not None and allocated.predicted:
        error = allocated.measured / allocated.predicted - 1
        observed, expected = gib(allocated.measured), gib(allocated.predicted)
        if abs(error) <= memory_error():
            words = "the allocated memory is as predicted"
            findings.append(_ALLOCATED.passed(_JOB, words, observed=observed))
        else:
            findings.append(
                _ALLOCATED.warned(
                    _JOB,
                    f"the allocated memory is {percent(abs(error))} {'above' if error > 0 else 'below'} its "
                    "prediction",
                    expected=expected,
                    observed=observed,
                    remedy=Remedy(
                        text="keep a larger margin with `rigtune plan --headroom`"
                        if error > 0
                        else "a larger micro_batch may fit: `rigtune tune` measures it"
                    ),
                )
            )
    if reserved is None or worst is None or worst.predicted is None:
        return tuple(findings)
    observed = f"{gib(reserved.measured)} reserved"
    if reserved.measured > worst.predicted:
        findings.append(
            _MEMORY.warned(
                _JOB,
                "the reserved memory is above the worst case of the plan",
                expected=f"at most {gib(worst.predicted)}",
                observed=observed,
                remedy=Remedy(text="lower micro_batch, recompute activations, or shard over more ranks"),
            )
        )
        return tuple(findings)
    fragmented = reserved.measured / allocated.measured - 1 if allocated and allocated.measured else 0.0
    error = memory_error()
    if fragmented > error and reserved.predicted and reserved.measured > reserved.predicted * (1 + error):
        findings.append(
            _MEMORY.warned(
                _JOB,
                f"the allocator reserves {percent(fragmented)} more than it hands out (fragmentation)",
                expected=f"{gib(reserved.predicted)} reserved",
                observed=observed,
                remedy=Remedy(text="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"),
            )
        )
        return tuple(findings)
    words = "the reserved memory is within the worst case"
    return (*findings, _MEMORY.passed(_JOB, words, observed=observed))
