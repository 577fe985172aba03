"""Compare all advice on three machines of the catalogue. RIGTUNE_UPDATE_GOLDEN=1 writes the files anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from assistant.pages.advice_page import lines_page
from assistant.text.plain_writer import text_of
from probes.collect.collecting import CollectOptions, assemble, gather
from probes.sources.choose import open_source
from tests.support.advice_cases import CASES, advised

FOLDER = Path(__file__).parent / "text"
MACHINES = ("dgx-h100", "a100-pcie-4", "l40s-pcie-8")
TOTALS = re.compile(r"(?<=: )\d+\s+(to do|unknown|to know|in order).*?(?=\nCommands)", re.DOTALL)
"""Counts of lines, which two rows that are added side by side would both change."""


@pytest.mark.parametrize("machine", MACHINES)
def test_advice_on_a_machine_of_the_catalogue(machine: str) -> None:
    source = open_source((), machine)
    facts = assemble(source.title, gather(source, CollectOptions(ask_interpreters=False)))
    pages = [text_of(lines_page(advised(subject, facts))) for subject in CASES]
    text = "\n".join(TOTALS.sub("some lines", page, count=1) for page in pages)
    file = FOLDER / f"advise-{machine}.txt"
    if os.environ.get("RIGTUNE_UPDATE_GOLDEN"):
        file.write_text(text, "utf-8")
    assert file.read_text("utf-8") == text
