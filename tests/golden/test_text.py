"""Compare the output of `probe` and `check` byte for byte. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from assistant.usecases.check import check_machine
from probes.facts import MachineFacts
from tests.support.check_case import nvlinks
from tests.support.machines import cpu_box, evidence_of, h100_node, with_gpus, with_nics, with_part
from tests.support.texts import render_facts, render_verdict

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
    return render_verdict(finished.result, verbose=verbose)  # type: ignore[attr-defined]


TEXTS = {
    **{f"probe-{name}": render_facts(facts) for name, facts in MACHINES.items()},
    **{f"check-{name}": check_text(facts) for name, facts in MACHINES.items()},
    **{f"check-{name}-verbose": check_text(MACHINES[name], verbose=True) for name in ("h100-faulty", "cpu")},
}


@pytest.mark.parametrize("name", TEXTS)
def test_text(name: str) -> None:
    file = FOLDER / f"{name}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(TEXTS[name], "utf-8")
    assert file.read_text("utf-8") == TEXTS[name]
