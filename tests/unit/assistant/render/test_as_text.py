"""Text for people: its width, its colours, and what hostile names can do to it."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from assistant.render.as_text import render_facts, render_verdict
from assistant.usecases.check import check_machine
from probes.facts import MachineFacts
from probes.verdict import Verdict
from tests.support.machines import cpu_box, evidence_of, h100_node, with_gpus


def verdict_of(facts: MachineFacts) -> Verdict:
    *_, finished = check_machine(evidence_of(facts))
    return finished.result  # type: ignore[attr-defined,no-any-return]


BAD = with_gpus(h100_node(), persistence_mode=False)


@pytest.mark.parametrize("facts", [h100_node(), BAD, cpu_box(), MachineFacts()], ids=["healthy", "bad", "no GPU", "unknown"])
def test_lines_fit_80_columns(facts: MachineFacts) -> None:
    texts = (render_facts(facts), render_verdict(verdict_of(facts)), render_verdict(verdict_of(facts), verbose=True))
    lines = [line for text in texts for line in text.splitlines()]
    assert max(len(line) for line in lines if "$ " not in line) <= 80
    assert all(line == line.rstrip() for line in lines)


def test_colour_only_adds_escapes() -> None:
    plain, coloured = render_verdict(verdict_of(BAD)), render_verdict(verdict_of(BAD), colour=True)
    assert "\x1b" not in plain
    assert "\x1b[33m! WARN" in coloured
    for code in ("\x1b[33m", "\x1b[31m", "\x1b[35m", "\x1b[32m", "\x1b[1m", "\x1b[0m"):
        coloured = coloured.replace(code, "")
    assert coloured == plain


def test_same_problem_on_all_gpus_is_told_once() -> None:
    text = render_verdict(verdict_of(BAD))
    assert text.count("persistence mode is off") == 1
    assert "persistence-mode  GPU0-7" in text


def test_alike_problems_show_the_command_of_each() -> None:
    facts = with_gpus(h100_node(), 1, 5, compute_mode="prohibited")
    text = render_verdict(verdict_of(facts))
    assert text.count("Set the default compute mode.") == 1
    assert [line.strip() for line in text.splitlines() if "compute-mode=" in line] == [
        f"$ nvidia-smi -i {index} --compute-mode=DEFAULT   # as root" for index in (1, 5)
    ]


def test_hostile_names_cannot_steer_the_terminal() -> None:
    evil = "\x1b]0;pwned\x07\x1b[2J\u202e\r\nPASS"
    facts = with_gpus(h100_node(hostname=evil), 0, name=evil)
    for text in (render_facts(facts), render_verdict(verdict_of(facts)), render_verdict(verdict_of(facts), verbose=True)):
        assert not set(text) & {"\x1b", "\x07", "\r", "\u202e"}


def test_unknown_values_keep_their_reason() -> None:
    assert "unknown (not recorded)" in render_facts(msgspec.structs.replace(h100_node(), storage=MachineFacts().storage))


def test_checking_and_rendering_load_nothing_heavy() -> None:
    program = (
        "import sys; from assistant.usecases.check import check_machine; from assistant.render.as_text import render_verdict;"
        "from probes.facts import MachineFacts; from probes.findings import Evidence; from probes.hardware import Catalogue;"
        "render_verdict(list(check_machine(Evidence(facts=MachineFacts(), catalogue=Catalogue())))[-1].result);"
        "print(sorted({'rich', 'textual', 'jinja2', 'torch', 'dataclasses', 'psutil', 'pynvml'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
