"""Test the machines in which GPUs are usually installed."""

from __future__ import annotations

import re

from probes.catalogue.hardware import load_catalogue
from recipes.machine.from_words import load_designs


def test_every_gpu_has_a_usual_machine_and_every_usual_machine_a_gpu():
    assert {row.design for row in load_catalogue().gpus} == set(load_designs())


def test_designs_are_plausible_and_cited():
    for design in load_designs().values():
        assert 1 <= design.gpus_per_node <= 16
        assert 10 <= design.network_gbps <= 8000
        assert design.domain_gpus is None or design.domain_gpus > design.gpus_per_node
        assert len(design.source) > 20
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", design.date)
