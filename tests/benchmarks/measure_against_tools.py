"""Compare rigtune's measurements with those of the field's own tools: medians of interleaved repetitions, and
their ratios.

    python tests/benchmarks/measure_against_tools.py [--rounds 5] [--only memory,storage,tcp,gemm,all-reduce]
    [--folder FOLDER]

    memory      STREAM's copy and triad (compiled here by gcc with OpenMP, all cores) and mbw (one thread; it counts a copied byte
                once, rigtune and STREAM twice, so rigtune's figure is halved for mbw)
    storage     fio, the same file, block size and depth, direct
    tcp         iperf3, one stream between two network namespaces made here; needs root
    gemm        numpy with its own BLAS, and torch's BLAS called without torch, which separates the effect of the method
                of measurement from that of the library
    all-reduce  a plain script of torch.distributed over gloo, two ranks

All figures are rates. The script names missing tools and compares with the others. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from probes.facts import MachineFacts
from tests.benchmarks.peer_tools import (
    Contest,
    MissingError,
    Rates,
    all_reduce,
    facts_here,
    gemm,
    memory,
    memory_one_thread,
    storage,
    tcp,
    two_namespaces,
)

WITHIN = 0.1

CONTESTS: dict[str, tuple[Callable[[MachineFacts, Path], Contest], ...]] = {
    "memory": (memory, memory_one_thread),
    "storage": (storage,),
    "tcp": (tcp,),
    "gemm": (gemm,),
    "all-reduce": (all_reduce,),
}


def compete(
    contest: Contest, rounds: int
) -> tuple[dict[tuple[str, str], list[tuple[float, float]]], list[str]]:
    """Return pairs of rates by row and peer (rigtune's rate first), and messages about missing tools.

    The sides take turns, and the order changes in each round.
    """
    pairs: dict[tuple[str, str], list[tuple[float, float]]] = {}
    missing: dict[str, str] = {}
    for number in range(rounds):
        measured: dict[str, Rates] = {}
        sides: dict[str, Callable[[], Rates]] = {"rigtune": contest.ours, **contest.peers}
        for name, side in list(sides.items())[:: 1 if number % 2 == 0 else -1]:
            if name in missing:
                continue
            try:
                measured[name] = side()
            except (MissingError, subprocess.TimeoutExpired, ValueError) as error:
                missing[name] = str(error)
        for name in contest.peers:
            for row, theirs in measured.get(name, {}).items():
                if row in measured.get("rigtune", {}):
                    pairs.setdefault((row, name), []).append((measured["rigtune"][row], theirs))
    return pairs, list(missing.values())


def spread(values: list[float]) -> str:
    """Return the median with the extremes, in GB/s or GFLOP/s."""
    return f"{statistics.median(values) / 1e9:8.3g} ({min(values) / 1e9:.3g}-{max(values) / 1e9:.3g})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(CONTESTS), help="contests, separated by commas")
    parser.add_argument(
        "--folder", help="where the file for storage is written; default: where temporary files go"
    )
    options = parser.parse_args()
    facts = facts_here()
    print(f"{'G(B or FLOP)/s':34} {'rigtune':>24} {'peer':>24}  ratio  within {WITHIN:.0%}  peer")
    missing: list[str] = []
    for chosen in options.only.split(","):
        for make in CONTESTS[chosen]:
            with contextlib.ExitStack() as stack:
                folder = Path(
                    stack.enter_context(
                        tempfile.TemporaryDirectory(prefix="rigtune-peers-", dir=options.folder)
                    )
                )
                try:
                    if chosen == "tcp":
                        stack.enter_context(two_namespaces())
                    pairs, lacking = compete(make(facts, folder), options.rounds)
                except MissingError as error:
                    pairs, lacking = {}, [f"{chosen}: {error}"]
            missing += lacking
            for (row, name), rates in pairs.items():
                ours, theirs = [pair[0] for pair in rates], [pair[1] for pair in rates]
                ratio = statistics.median(ours) / statistics.median(theirs)
                good = "yes" if abs(ratio - 1) <= WITHIN else "NO"
                print(
                    f"{row:34} {spread(ours):>24} {spread(theirs):>24}  {ratio:5.2f}  {good:>10}  {name}",
                    flush=True,
                )
    for what in missing:
        print(f"missing: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
