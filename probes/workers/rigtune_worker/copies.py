"""Run copies between devices, one alone or several at the same time."""

from __future__ import annotations

import contextlib
import itertools

import torch

Pair = tuple  # of source and target, both torch.Tensor


class Copies:
    """Copies that the current stream starts and waits for; several run at once, each on its own streams.

    torch makes a copy between two GPUs wait for the current streams of both
    (aten/src/ATen/native/cuda/Copy.cu), so each copy has a stream on either.
    """

    def __init__(self, *pairs: Pair) -> None:
        self.pairs = pairs
        self.streams = [
            [
                torch.cuda.Stream(name)
                for name in sorted({str(end.device) for end in pair if end.device.type == "cuda"})
            ]
            for pair in (pairs if len(pairs) > 1 else ())
        ]

    def __call__(self) -> None:
        if not any(self.streams):
            for source, target in self.pairs:
                target.copy_(source, non_blocking=True)
            return
        caller_stream = torch.cuda.current_stream()
        streams = tuple(itertools.chain.from_iterable(self.streams))
        for stream in streams:
            stream.wait_stream(caller_stream)
        for (source, target), streams_of_pair in zip(self.pairs, self.streams):
            with contextlib.ExitStack() as current:
                for stream in streams_of_pair:
                    current.enter_context(torch.cuda.stream(stream))
                target.copy_(source, non_blocking=True)
        for stream in streams:
            caller_stream.wait_stream(stream)
