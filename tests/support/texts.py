"""Pages as `rigtune` prints them."""

from __future__ import annotations

from assistant.pages.machine.facts_page import facts_page
from assistant.pages.verdict.verdict_page import verdict_page
from assistant.text.plain_writer import text_of
from probes.facts import MachineFacts
from probes.judging.verdict import Verdict


def render_facts(facts: MachineFacts, *, verbose: bool = False) -> str:
    return text_of(facts_page(facts, verbose=verbose))


def render_verdict(verdict: Verdict, *, colour: bool = False, verbose: bool = False) -> str:
    return text_of(verdict_page(verdict, verbose=verbose), colour=colour)
