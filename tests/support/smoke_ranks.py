"""The report of a smoke test on two ranks of one host, as a stand-in writes it."""

from __future__ import annotations

import json
from typing import Any


def rank(number: int, **changes: Any) -> dict[str, Any]:
    """Return the record of a rank; the stand-in replaces "NONCES" by the sum of the nonce over the ranks."""
    place = {"event": "rank", "rank": number, "world_size": 2, "local_rank": number, "local_world_size": 2}
    sums = {"rank_sum": 3, "nonce_sum": "NONCES", "one_sum": 2}
    return {**place, **sums, "host": "node7", "backend": "gloo", "device": "cpu", "threads": 3, **changes}


def lines_of(*records: dict[str, Any]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


PROVEN = lines_of(rank(0), rank(1), {"event": "done"})
"""Report of a launch that is as planned."""
