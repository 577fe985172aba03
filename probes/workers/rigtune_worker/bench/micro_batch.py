"""The largest micro-batch that fits, by doubling and halving; what the others gave tells which is the fastest."""

from __future__ import annotations

import time
from typing import Any

import torch

from ..protocol import Answer, SetupError, Timing
from ..sweep import search
from ..trial import Trials

TRIAL_S = 2.0
"""For the steps of one trial, where they are short; a long step is run four times all the same."""


def run(request: dict[str, Any], answer: Answer, device: torch.device) -> None:
    """Sweep the micro-batch of the first case that has one, within the budget; every trial is a sample with its micro_batch.

    One that does not fit has no durations and the figure `out_of_memory`. A trial that would overrun the budget is not begun.
    """
    ends = time.monotonic() + request["budget_s"]
    if device.type == "cuda":
        torch.cuda.empty_cache()
    with Trials(request) as trials:
        for case in request["cases"]:
            try:
                sweep(trials, case, answer, ends)
            except SetupError as error:  # the user's step has no micro-batch: sweep the reference model
                print(f"rigtune_worker: {error}: nothing to sweep there", flush=True)
                continue
            return


def sweep(trials: Trials, case: dict[str, Any], answer: Answer, ends: float) -> None:
    # What one trial took, and for which micro-batch: the next takes at most in proportion.
    last = (0.0, 1)

    def attempt(micro_batch: int) -> bool | None:
        nonlocal last
        tried = {**case, "micro_batch": micro_batch}
        began = time.monotonic()
        left = ends - began
        if last[0] * micro_batch / last[1] > left:
            answer.skipped(tried, "would overrun the time budget")
            return None
        # The first one also imports what the fork does not bring; a prediction may be wrong by a factor.
        told = trials.attempt(tried, min(TRIAL_S, left / 4), deadline_s=2 * max(left, TRIAL_S) + 10)
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
