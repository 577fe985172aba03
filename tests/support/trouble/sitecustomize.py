"""Make a real worker fail right after its second case, measured or not; Python loads this from PYTHONPATH.

RIGTUNE_TEST_TROUBLE is `KIND:RANK`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

KIND, _, RANK = os.environ.get("RIGTUNE_TEST_TROUBLE", "").partition(":")
GARBAGE = (
    b'\xff\xfe{{{\n{"event": "sample", "case": {"made": "up"}, "durations_s": [1]}\n[]\nnull\n{"event": 7}\n'
)


def after_second_case(answer: object) -> None:
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

    ended_cases = [0]

    def counted(write: Callable[..., None]) -> Callable[..., None]:
        def write_and_count(self: object, *arguments: object, **figures: object) -> None:
            write(self, *arguments, **figures)
            ended_cases[0] += 1
            if ended_cases[0] == 2 and os.environ.get("RANK", "0") == RANK:
                after_second_case(self)

        return write_and_count

    # A slow machine skips cases after the first when the time is over, and these end a case, too.
    for event in ("sample", "skipped", "failure"):
        setattr(protocol.Answer, event, counted(getattr(protocol.Answer, event)))


if KIND and "rigtune_worker" in sys.orig_argv:
    install()
