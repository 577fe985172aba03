"""Search for the largest micro-batch that fits by doubling and halving; the trials also show the fastest."""

from __future__ import annotations

import time
from typing import Any

import torch

from ..protocol import Answer, SetupError, Timing
from ..sweep import search
from ..trial import Trials


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Sweep the micro-batch of the first case whose step takes a micro-batch, within the budget.

    Every trial is a sample with its micro_batch. The setting `trial_s` is the time for the steps of a trial;
    long steps exceed this time, because a trial needs some steps. A trial that does not fit has no durations
    and the figure `out_of_memory`. A trial that would exceed the budget is not started.
    """
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with Trials(request) as trials:
        ends = time.monotonic() + request["budget_s"]
        for case in request["cases"]:
            try:
                sweep(trials, case, answer, float(request["settings"]["trial_s"]), ends)
            except SetupError as error:  # the user's step has no micro-batch: sweep the reference model
                print(f"rigtune_worker: {error}: nothing to sweep there", flush=True)
                continue
            return


def sweep(trials: Trials, case: dict[str, Any], answer: Answer, trial_s: float, ends: float) -> None:
    # Seconds and micro-batch of the last trial; the time of the next trial grows at most in proportion.
    last = (0.0, 1)

    def attempt(micro_batch: int) -> bool | None:
        nonlocal last
        tried = {**case, "micro_batch": micro_batch}
        began = time.monotonic()
        left = max(0.0, ends - began)
        if last[0] * micro_batch / last[1] > left:
            answer.skipped(tried, "would overrun the time budget")
            return None
        # The deadline is more than twice the time left: the first trial also imports modules, and a trial may
        # take much longer than predicted from the last one.
        result = trials.attempt(tried, min(trial_s, left / 4), deadline_s=2 * max(left, trial_s) + 10)
        outcome = result["outcome"]
        if outcome == "fits":
            last = (time.monotonic() - began, micro_batch)
            answer.sample(tried, Timing(*result["timing"]), **result["figures"])
            return True
        if outcome == "out_of_memory":
            print(f"rigtune_worker: micro-batch {micro_batch} does not fit: {result['message']}", flush=True)
            answer.sample(tried, [], out_of_memory=1.0)
            return False
        if outcome == "unsupported" and micro_batch == 1:
            raise SetupError(result["message"])
        if outcome == "too_slow":
            answer.skipped(tried, result["message"])
        else:
            answer.failure(outcome, result["message"], tried)
        return None

    search(attempt)
