"""The largest micro-batch that fits, by doubling and halving; what the others gave tells which is the
fastest.
"""

from __future__ import annotations

import time
from typing import Any

import torch

from ..protocol import Answer, SetupError, Timing
from ..sweep import search
from ..trial import Trials


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Sweep the micro-batch of the first case that has one, within the budget; every trial is a sample with
    its micro_batch.

    `trial_s` of the settings is the time for the steps of one trial; long steps overrun it, since some must
    be run.

    One that does not fit has no durations and the figure `out_of_memory`. A trial that would overrun the
    budget is not begun.
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
    # What one trial took, and for which micro-batch: the next takes at most in proportion.
    last = (0.0, 1)

    def attempt(micro_batch: int) -> bool | None:
        nonlocal last
        tried = {**case, "micro_batch": micro_batch}
        began = time.monotonic()
        left = max(0.0, ends - began)
        if last[0] * micro_batch / last[1] > left:
            answer.skipped(tried, "would overrun the time budget")
            return None
        # The first one also imports what the fork does not bring; a prediction may be wrong by a factor.
        told = trials.attempt(tried, min(trial_s, left / 4), deadline_s=2 * max(left, trial_s) + 10)
        outcome = told["outcome"]
        if outcome == "fits":
            last = (time.monotonic() - began, micro_batch)
            answer.sample(tried, Timing(*told["timing"]), **told["figures"])
            return True
        if outcome == "out_of_memory":
            print(f"rigtune_worker: micro-batch {micro_batch} does not fit: {told['message']}", flush=True)
            answer.sample(tried, [], out_of_memory=1.0)
            return False
        if outcome == "unsupported" and micro_batch == 1:
            raise SetupError(told["message"])
        if outcome == "too_slow":
            answer.skipped(tried, told["message"])
        else:
            answer.failure(outcome, told["message"], tried)
        return None

    search(attempt)
