"""A data set whose items take about as much time as decoding an image.

It is a separate module because worker processes load it by name.
"""

from __future__ import annotations

import itertools
import os
import random
import zlib
from typing import Iterator, Sequence

import torch
from torch.utils.data import Dataset, Sampler

HEIGHT, WIDTH, CHANNELS = 375, 500, 3
"""A typical size of ImageNet's photographs."""
SIDE = 224
"""Image size of torchvision's reference training."""
ITEM_BYTES = 4 * CHANNELS * SIDE * SIDE
LARGEST_READ = 16 * 1024**2


class ImageLike(Dataset):
    """Items {3, 224, 224} in fp32: each reads a file (if any) and unpacks, crops and normalises an image.

    Unpacking with zlib replaces the decoder, which the standard library does not have. Both take some
    milliseconds of C code per image on one core, outside of the interpreter's lock.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        # Each byte has four random bits and is packed to half its size: unpacking must process every byte.
        halved = bytes(value % 16 for value in range(256))
        self.packed = zlib.compress(random.Random(0).randbytes(HEIGHT * WIDTH * CHANNELS).translate(halved))
        self.chance = random.SystemRandom()

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.paths:
            read_cold(self.chance.choice(self.paths))
        pixels = torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8).view(
            HEIGHT, WIDTH, CHANNELS
        )
        top, left = index % (HEIGHT - SIDE), index % (WIDTH - SIDE)
        return pixels[top : top + SIDE, left : left + SIDE].permute(2, 0, 1).float().sub_(127.5).div_(127.5)


class Endless(Sampler):
    """Indices 0, 1, 2 ... without end."""

    def __init__(self) -> None:
        pass  # some versions of torch's class require the unneeded data set

    def __iter__(self) -> Iterator[int]:
        return itertools.count()


def read_cold(path: str) -> int:
    """Return the number of bytes that are read from a file; 0 for a missing file.

    The file is first dropped from the page cache, so that each number of workers begins with the same state.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            return len(file.read(LARGEST_READ) or b"")
    except OSError:
        return 0
