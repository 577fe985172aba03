"""Write an answer as JSON, with the version of rigtune that wrote the answer."""

from collections.abc import Mapping
from typing import Any

import msgspec

from assistant.formats.build import build_labels
from probes.base.record import Record, to_json

FIELD = "rigtune"
"""The field with version and commit."""


def json_answer(answer: Record | Mapping[str, Any]) -> bytes:
    """Return the answer as UTF-8 JSON with the version and the commit of this rigtune as its last field."""
    fields = msgspec.json.decode(to_json(answer), type=dict[str, msgspec.Raw])
    return to_json({**fields, FIELD: build_labels()})
