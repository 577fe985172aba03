"""Measure how fast `rigtune explain` reads large logs, compared with `grep` for a frequent word.

    python tests/benchmarks/explain_large_logs.py [--bytes N]

It prints the processor time for 1 GB and the peak memory of five kinds of logs: a log of NCCL, lines that
hardly repeat, a storm of warnings, a storm of Xids, and a training with progress bars.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.unit.assistant.usecases.test_explain_size import explain, run_of_nccl, words, write_log


def warnings() -> Iterator[str]:
    """Yield lines that are all warnings of NCCL."""
    for rank in range(512):
        for hca in range(8):
            yield (
                f"{rank}: trn-{rank // 8}:40{rank}:41{rank} [{rank % 8}] net_ib.cc:1295 NCCL WARN NET/IB : "
                "Got completion "
                f"from peer 10.0.{rank // 8}.1<43{rank}> with status=12 opcode=0 len=0 vendor err 129 "
                f"(Send) hca mlx5_{hca}\n"
            )


def xids() -> Iterator[str]:
    """Yield lines that are all Xids in the kernel log."""
    for number in range(20_000):
        yield (
            f"[{1000 + number / 77:13.6f}] NVRM: Xid (PCI:0000:{number % 8 * 16 + 27:02x}:00): "
            f"{(13, 31, 79, 94)[number % 4]}, "
            f"pid={4000 + number % 900}, name=python, Ch {number % 64:08x}, faulted @ "
            f"0x7f{number * 977:08x}_{number * 131:08x}\n"
        )


def progress() -> Iterator[str]:
    """Yield progress bars, which a carriage return draws again, and a line for each step."""
    for step in range(2000):
        for percent in range(0, 101, 5):
            yield (
                f"\rEpoch {step // 100}: {percent:3d}%|{'█' * (percent // 5):<20}| {percent * 37}/3700 "
                f"[00:{percent % 60:02}]"
            )
        yield (
            f"\n[rank{step % 8}]: step {step} loss {1 + step * 37 % 991 / 991:.4f} tokens/s "
            f"{12_000 + step % 977}\n"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bytes", type=int, default=1_000_000_000, help="size of each log")
    size = parser.parse_args().bytes
    with tempfile.TemporaryDirectory() as folder:
        for lines in (run_of_nccl, words, warnings, xids, progress):
            path = Path(folder) / f"{lines.__name__}.log"
            write_log(path, lines, size)
            gigabytes = path.stat().st_size / 1e9
            used = explain(path)
            seconds = used.processor_s / gigabytes
            grep = _grep_s(path) / gigabytes
            words_of = (
                f"{seconds:.1f} s for 1 GB, {used.memory_bytes / 2**20:.0f} MiB; grep {grep:.2f} s, "
                f"ratio {seconds / grep:.0f}"
            )
            print(f"{lines.__name__:12s} {words_of}")
            path.unlink()


def _grep_s(path: Path) -> float:
    """Return the processor seconds of grep; its output is a pipe, because grep stops early for /dev/null."""
    with subprocess.Popen(["grep", "-c", "NCCL", str(path)], stdout=subprocess.PIPE) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
