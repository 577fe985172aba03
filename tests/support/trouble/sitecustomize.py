"""Makes a real worker fail right after its second sample; Python loads this from PYTHONPATH.

RIGTUNE_TEST_TROUBLE is `KIND:RANK`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from pathlib import Path

KIND, _, RANK = os.environ.get("RIGTUNE_TEST_TROUBLE", "").partition(":")
GARBAGE = (
    b'\xff\xfe{{{\n{"event": "sample", "case": {"made": "up"}, "durations_s": [1]}\n[]\nnull\n{"event": 7}\n'
)


def after_second_sample(answer: object) -> None:
    if KIND == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif KIND == "hang":
        signal.pause()
    elif KIND == "garbage":
        for number in (1, 2, answer.file.fileno()):  # type: ignore[attr-defined]
            os.write(number, GARBAGE)
    elif KIND == "fill":
        descriptor = answer.file.fileno()  # type: ignore[attr-defined]
        os.write(
            descriptor, b" " * (4095 - os.fstat(descriptor).st_size % 4096) + b"\n"
        )  # to the end of its last block
        with contextlib.suppress(OSError), Path("filler").open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass


def install() -> None:
    from rigtune_worker import protocol  # type: ignore[import-not-found]  # noqa: PLC0415 - only workers can

    sample, count = protocol.Answer.sample, [0]

    def counted(self: object, *arguments: object, **figures: object) -> None:
        sample(self, *arguments, **figures)
        count[0] += 1
        if count[0] == 2 and os.environ.get("RANK", "0") == RANK:
            after_second_sample(self)

    protocol.Answer.sample = counted


if KIND and "rigtune_worker" in sys.orig_argv:
    install()
