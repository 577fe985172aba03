"""One question per line on stdin, one answer per line on stdout, both JSON: how a peer is asked in its own
interpreter.

A question has the fields that `predict_against_peers.question_of` writes. The answer repeats its `id` and
gives what the peer says, or `cannot`: what of the case the peer has no words for. Imported before the peer,
whose own prints go to stderr from then on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

NOT_INSTALLED = 3
"""Exit status where the peer cannot be imported."""

_ANSWERS = os.fdopen(os.dup(1), "w", encoding="utf-8")
os.dup2(2, 1)  # Here, since some peers print while they are imported.


class CannotSayError(Exception):
    """The peer cannot express this case."""


def serve(answer: Callable[[dict[str, Any]], dict[str, Any]], version: str) -> None:
    """Answer every line of stdin."""
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
    """Raises CannotSayError."""
    if not holds:
        raise CannotSayError(otherwise)
