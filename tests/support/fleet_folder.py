"""Write the folder of a fleet's run as the journal does, from the answers of its nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assistant.usecases.fleet.run_folder import OUTCOMES, RAW

MOMENT_S = 1.75e9
PASSED: dict[str, Any] = {
    "verdict": "PASS",
    "version": "1.0",
    "attributes": {"gpus": "8", "gpu_model": "NVIDIA H100 80GB HBM3", "driver": "580.82", "rack": "r1"},
}


def write_run(folder: Path, answers: Mapping[str, Any], ends: Mapping[str, Any] | None = None) -> Path:
    """Write a run; an answer is a report, or raw text. `ends` are the outcomes that are not `ok`."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / RAW).open("w") as raw, (folder / OUTCOMES).open("w") as outcomes:
        for node, answer in answers.items():
            text = answer if isinstance(answer, str) else json.dumps({"node": node, **answer})
            raw.write(json.dumps({"node": node, "since": MOMENT_S, "at": MOMENT_S + 1, "text": text}) + "\n")
            end = {"outcome": "ok", "exit_code": 0, "detail": ""} if ends is None or node not in ends else {}
            if end:
                outcomes.write(json.dumps({"node": node, **end}) + "\n")
        for node, end in (ends or {}).items():
            outcomes.write(json.dumps({"node": node, "exit_code": None, "detail": "", **end}) + "\n")
    return folder


def failed(summary: str, subject: str = "GPU3", check_id: str = "xid") -> dict[str, Any]:
    """Return a report with one failed check."""
    reason = {"check_id": check_id, "subject": subject, "status": "FAIL", "summary": summary}
    return {**PASSED, "verdict": "FAIL", "reasons": [reason]}
