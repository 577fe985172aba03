"""Texts of logs, read by all readers and explained."""

from __future__ import annotations

import sys
from pathlib import Path

from probes.logs.diagnosis import Explanation
from probes.logs.reading import Reading

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def cases() -> list[tuple[str, str]]:
    """The small logs of this folder, each with the cause that must come first."""
    tables = [tomllib.loads(path.read_text("utf-8")) for path in sorted(Path(__file__).parent.glob("*.toml"))]
    return [(row["cause"], row["text"]) for table in tables for row in table["log"]]


def explained(*texts: str) -> Explanation:
    """Return the explanation of texts, each as one log."""
    return _explained({f"{place}.log": text.encode() for place, text in enumerate(texts)})


def explained_file(path: Path) -> Explanation:
    """Return the explanation of a recorded log."""
    return _explained({path.name: path.read_bytes()})


def _explained(logs: dict[str, bytes]) -> Explanation:
    reading = Reading()
    for name, data in logs.items():
        source = reading.source(name)
        reading.feed(source, data)
        source.end()
    return reading.explanation()


def ids(explanation: Explanation) -> list[str]:
    """Return the ids of all causes, best first."""
    return [diagnosis.cause_id for diagnosis in explanation.diagnoses]
