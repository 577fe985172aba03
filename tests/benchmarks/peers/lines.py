"""Answer questions for a peer in the peer's own interpreter: one JSON object per line on stdin and stdout.

A question has the fields that `predict_against_peers.question_of` writes. The answer has the same `id` and the
figures of the peer, or `cannot` with the part of the case that the peer cannot express, or with the type of the
error that the peer raised. An adapter imports this module before the peer, so that the peer's own output goes to
stderr.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

NOT_INSTALLED = 3
"""Exit status of an adapter whose peer cannot be imported."""

_ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # at import, because some peers print while they are imported


class CannotSayError(Exception):
    """The peer cannot express this case."""


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], version: str) -> None:
    """Write the version of the peer, then the answer to every line of stdin."""
    _ANSWERS.write(json.dumps({"version": version}) + "\n")
    for line in sys.stdin:
        question = json.loads(line)
        try:
            said = answer(question)
        except CannotSayError as error:
            said = {"cannot": str(error)}
        except Exception as error:  # noqa: BLE001  the peer's own refusal, whatever it raises
            said = {"cannot": f"raises {type(error).__name__}"}
        _ANSWERS.write(json.dumps({"id": question["id"], **said}) + "\n")
    _ANSWERS.close()


def need(*, holds: bool, otherwise: str) -> None:
    """Raise CannotSayError with the message `otherwise` unless `holds`."""
    if not holds:
        raise CannotSayError(otherwise)
