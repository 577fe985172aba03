"""Test that the peak memory of a process on a CPU is that of the process alone."""

from __future__ import annotations

CHILD = """
import torch
from rigtune_worker.peak_memory import PeakMemory
memory = PeakMemory(torch.device("cpu"))
block = bytearray(64 * 2**20)
for place in range(0, len(block), 4096):
    block[place] = 1
del block
print(memory.allocated_bytes)
"""


def test_the_peak_of_the_parent_does_not_count(in_torch) -> None:
    answer = in_torch(f"""
import subprocess, sys
ballast = bytearray(768 * 2**20)
ballast[::4096] = bytes(len(range(0, len(ballast), 4096)))
child = [sys.executable, "-c", {CHILD!r}]
answer = int(subprocess.run(child, capture_output=True, text=True, check=True).stdout)
""")
    assert 48 * 2**20 < answer < 160 * 2**20
