"""Test copies between GPUs and with host memory, on simulated streams, and how host memory is locked.

On these streams an operation begins when its stream is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

InTorch = Callable[[str], Any]

STREAMS = """
import contextlib, torch
from types import SimpleNamespace

class Stream:
    def __init__(self, device):
        self.device, self.free_at = str(device), 0
    def wait_stream(self, other):
        self.free_at = max(self.free_at, other.free_at)

current = {f"cuda:{index}": Stream(f"cuda:{index}") for index in range(2)}

@contextlib.contextmanager
def stream(chosen):
    before, current[chosen.device] = current[chosen.device], chosen
    yield
    current[chosen.device] = before

torch.cuda.Stream, torch.cuda.stream, torch.cuda.current_stream = Stream, stream, lambda: current["cuda:0"]

class End:
    # torch copies on the sender's current stream once the receiver's is free; the receiver's waits for it.
    def __init__(self, device):
        self.device = torch.device(device)
    def copy_(self, source, non_blocking):
        assert non_blocking
        both = [current[str(end.device)] for end in (source, self) if end.device.type == "cuda"]
        ended = max(stream.free_at for stream in both) + 1
        for stream in both:
            stream.free_at = ended
"""


@pytest.mark.parametrize(
    ("ways", "took"),
    [
        ([("cuda:0", "cuda:1")], 1),
        ([("cuda:0", "cuda:1"), ("cuda:1", "cuda:0")], 1),
        ([("cpu", "cuda:0"), ("cuda:0", "cpu")], 1),
    ],
)
def test_copies_run_at_the_same_time_and_the_asking_stream_waits_for_all(
    in_torch: InTorch, ways: object, took: int
) -> None:
    result = in_torch(
        STREAMS
        + f"""
from rigtune_worker.copies import Copies
copies = Copies(*((End(source), End(target)) for source, target in {ways}))
current["cuda:0"].free_at = 10
copies()
first = current["cuda:0"].free_at
copies()
answer = [first, current["cuda:0"].free_at]
"""
    )
    assert result == [10 + took, 10 + 2 * took]


def test_host_memory_is_locked_as_long_as_it_is_used_and_a_refusal_leaves_no_trace(in_torch: InTorch) -> None:
    result = in_torch("""
import torch
from types import SimpleNamespace
from rigtune_worker.copies import page_locked
from rigtune_worker.protocol import CaseError
refusal, locked, pending = 0, {}, []
def register(address, size, flags):
    if refusal:
        pending.append(refusal)
    else:
        locked[address] = size
    return refusal
torch.cuda.cudart = lambda: SimpleNamespace(cudaHostRegister=register, cudaHostUnregister=locked.pop)
def zeros(*_, device, zeros=torch.zeros):  # the next call of the runtime reports the last error
    if pending:
        raise RuntimeError(f"CUDA error {pending.pop()}")
tensor = torch.empty(16)
torch.zeros = zeros
answer = []
try:
    with page_locked(tensor, True):
        answer.append(locked == {tensor.data_ptr(): 64})
        raise KeyError
except KeyError:
    answer.append(len(locked))
refusal = 2
try:
    with page_locked(tensor, True):
        answer.append("locked")
except CaseError as error:
    answer += [error.kind, len(locked), len(pending)]
with page_locked(tensor, False):
    answer.append(len(locked))
""")
    assert result == [True, 0, "unsupported", 0, 0, 0]
