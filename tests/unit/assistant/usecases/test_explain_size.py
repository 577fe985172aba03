"""Test that logs of 100 MB are read with less than 150 MiB of memory.

tests/benchmarks/explain_large_logs.py measures the time.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

COMMUNICATOR = "comm 0x{rank:x}a7f rank {rank} nranks 512 cudaDev {gpu} busId {gpu}b000 commId 0xabc"
MESSAGES = (
    "NCCL INFO Bootstrap : Using eth0:10.0.{node}.1<0>",
    "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.{node}.1<0>",
    "NCCL INFO Using network IB",
    f"NCCL INFO {COMMUNICATOR} - Init START",
    *(
        f"NCCL INFO Channel {channel:02}/0 : {{rank}}[{{gpu}}] -> 9[1] [send] via NET/IB/0/GDRDMA"
        for channel in range(16)
    ),
    *(f"NCCL INFO Channel {channel:02}/0 : {{rank}}[{{gpu}}] -> 8[0] via P2P/CUMEM" for channel in range(16)),
    "NCCL INFO Connected all rings",
    f"NCCL INFO {COMMUNICATOR} - Init COMPLETE",
)


def run_of_nccl() -> Iterator[str]:
    for rank in range(512):
        node, gpu = divmod(rank, 8)
        for message in MESSAGES:
            text = message.format(rank=rank, node=node, gpu=gpu)
            yield f"{rank}: trn-{node}:40{rank}:41{rank} [{gpu}] {text}\n"


def words() -> Iterator[str]:
    """Yield lines that all differ, like those of programs that print their input."""
    state = 1
    for _ in range(60_000):
        line = []
        for _ in range(12):
            state = state * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
            line.append(f"{state >> 33:x}".translate({48 + digit: 103 + digit for digit in range(10)}))
        yield " ".join(line) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("lines", [run_of_nccl, words])
def test_memory_stays_flat(lines, tmp_path: Path) -> None:
    path = tmp_path / "big.log"
    write_log(path, lines, 100_000_000)
    used = explain(path)
    assert used.exit_code in (0, 3)
    assert used.memory_bytes < 150 * 2**20


def write_log(path: Path, lines: Callable[[], Iterator[str]], size_bytes: int) -> None:
    """Write at least `size_bytes` of these lines, repeated."""
    part = "".join(lines()).encode()
    with path.open("wb") as file:
        while file.tell() < size_bytes:
            file.write(part)


# A forked process inherits the peak memory of its parent, so a small process starts the measured one.
_MEASURED = """
import json, resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""


class Used(NamedTuple):
    exit_code: int
    processor_s: float
    memory_bytes: int


def explain(path: Path) -> Used:
    """Return the memory and time of `rigtune explain` alone."""
    command = [sys.executable, "-m", "assistant", "explain", str(path), "-q", "--format", "json"]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command], stdout=subprocess.PIPE, text=True, check=True
    )
    return Used(*json.loads(done.stdout))
