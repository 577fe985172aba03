"""Run one benchmark on this rank: `python -m rigtune_worker BENCH --request FILE --out DIR`, alone or under torchrun."""

from __future__ import annotations

import argparse
import json
import os
import traceback
from typing import Any

import torch.distributed as dist

from . import all_reduce, gemm, memory_copy, train_step
from .parallel import SetupError, choose_device, process_group
from .process import die_with_parent, run_and_leave
from .protocol import Answer, CaseError, is_out_of_memory

BENCHES = {"gemm": gemm.run, "memory-copy": memory_copy.run, "all-reduce": all_reduce.run, "train-step": train_step.run}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m rigtune_worker", description="Run one benchmark on this rank.")
    parser.add_argument("bench", choices=sorted(BENCHES))
    parser.add_argument("--request", required=True, help="JSON with device, backend, budget_s, cases and model")
    parser.add_argument("--out", required=True, help="existing folder for rank<N>.jsonl")
    options = parser.parse_args()
    die_with_parent()
    with open(options.request, encoding="utf-8") as file:
        request = json.load(file)
    answer = Answer(options.out, int(os.environ.get("RANK", "0")))
    try:
        measure(options.bench, request, answer)
    except (SetupError, CaseError) as error:
        answer.failure(getattr(error, "kind", "unsupported"), str(error))
    except Exception as error:  # whatever torch raises is the benchmark's result
        traceback.print_exc()
        message = str(error).strip() or type(error).__name__
        answer.failure("out_of_memory" if is_out_of_memory(error) else "crashed", message)
    else:
        return 0
    return 1


def measure(bench: str, request: dict[str, Any], answer: Answer) -> None:
    device = choose_device(request["device"])
    with process_group(request["backend"], device):
        answer.start(dist.get_rank(), dist.get_world_size(), device)
        BENCHES[bench](request, answer, device)
        answer.done()


if __name__ == "__main__":
    run_and_leave(main)
