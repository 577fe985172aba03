"""Compare the output of `probe` and `check`. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew.

The files hold every byte but the totals, so that two checks that are added side by side do not conflict;
`tests/golden/check` holds the totals of verdicts that are made up.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from assistant.usecases.check import check_machine
from probes.facts import MachineFacts
from tests.support.check_case import nvlinks
from tests.support.machines import cpu_box, evidence_of, h100_node, with_gpus, with_nics, with_part
from tests.support.texts import render_facts, render_verdict

TOTAL = re.compile(r"\b\d+ (passed|skipped|could not be checked|more)\b")
FOLDER = Path(__file__).parent / "text"


def faulty_node() -> MachineFacts:
    """Return a machine with a dead link, memory errors, a rail without a cable, and wrong settings."""
    facts = with_gpus(h100_node(), persistence_mode=False)
    facts = with_gpus(facts, 3, nvlinks=nvlinks(up=17), ecc_uncorrected_volatile=3)
    facts = with_nics(facts, "mlx5_5", state="DOWN", physical_state="Polling", rate_gbps=10.0)
    return with_part(facts, "limits", memlock_bytes=65536)


MACHINES = {"h100": h100_node(), "h100-faulty": faulty_node(), "cpu": cpu_box(), "unknown": MachineFacts()}


def check_text(facts: MachineFacts, *, verbose: bool = False) -> str:
    *_, finished = check_machine(evidence_of(facts))
    text = render_verdict(finished.result, verbose=verbose)  # type: ignore[attr-defined]
    return TOTAL.sub(r"some \1", text)


TEXTS = {
    **{f"probe-{name}": render_facts(facts) for name, facts in MACHINES.items()},
    **{f"check-{name}": check_text(facts) for name, facts in MACHINES.items()},
    "check-h100-faulty-verbose": check_text(MACHINES["h100-faulty"], verbose=True),
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(TEXTS[name], "utf-8")
    assert file.read_text("utf-8") == TEXTS[name]
