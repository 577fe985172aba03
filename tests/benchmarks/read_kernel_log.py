"""Measure how fast a large kernel log is read, and the memory beyond the text that its first 20 MB need.

Run it as `python -m tests.benchmarks.read_kernel_log [MEGABYTES]`; it prints one line per kind of log and fails below
20 MB/s. A log in which every line reports trouble may take twice as long; the kernel's rate limit prevents such logs.
"""

from __future__ import annotations

import sys
import time
import tracemalloc

from probes.parsers.kernel.kernel_log import parse_kernel_log, recognise

MEGABYTES = 200
WANTED_MB_PER_S = 20.0
_NOISE = (
    '[{0:7d}.123456] audit: type=1400 audit(1753325017.308:2): apparmor="STATUS" '
    'operation="profile_load" pid={0} comm="parser"\n'
)
_LINK = "[{0:7d}.123456] mlx5_core 0000:53:00.0 enp83s0f0np0: Link down\n"
_XID = (
    "[{0:7d}.123456] NVRM: Xid (PCI:0000:38:00): 13, pid={0}, name=python3, Graphics SM Warp Exception "
    "on (GPC 8, TPC 5, SM 0)\n"
)


def generated(size: int, *, trouble_every: int) -> str:
    """Return a log of at least `size` bytes, in which one of `trouble_every` lines reports trouble."""
    lines: list[str] = []
    written = number = 0
    while written < size:
        number += 1
        shape = (_LINK if number % 2 else _XID) if number % trouble_every == 0 else _NOISE
        lines.append(shape.format(number))
        written += len(lines[-1])
    return "".join(lines)


def main() -> int:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else MEGABYTES
    worst = float("inf")
    for title, trouble_every in (("quiet", 10_000), ("mixed", 50), ("all trouble", 1)):
        text = generated(megabytes * 1_000_000, trouble_every=trouble_every)
        begun = time.perf_counter()
        recognise(text)
        events = parse_kernel_log(text).events
        speed = len(text) / 1e6 / (time.perf_counter() - begun)
        worst = min(worst, speed * (2 if trouble_every == 1 else 1))
        part = text[:20_000_000]
        tracemalloc.start()
        parse_kernel_log(part)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        print(
            f"{title:<12} {len(text) / 1e6:6.0f} MB {speed:7.1f} MB/s {peak:6.1f} MB beyond the text, "
            f"{len(events)} events"
        )
    return 0 if worst >= WANTED_MB_PER_S else 1


if __name__ == "__main__":
    raise SystemExit(main())
