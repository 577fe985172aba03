"""The rules that a caller chose, and waivers that waive nothing."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.errors import UsageError
from recipes.lint.choosing import chosen, known_rule, refuse_unknown
from recipes.lint.document import Place
from recipes.lint.finding import LintFinding, idle_waivers
from tests.support.linting import read


def _finding(rule_id: str, document: str = "a.sh", line: int = 1) -> LintFinding:
    return LintFinding(
        rule_id=rule_id, severity="error", document=document, place=Place(line=line), message="m"
    )


FINDINGS = (_finding("slurm-time"), _finding("slurm-time", "old/b.sh"), _finding("p2p-disabled"))


@pytest.mark.parametrize(
    ("select", "ignore", "per_file", "kept"),
    [
        ((), (), {}, FINDINGS),
        (("slurm-*",), (), {}, FINDINGS[:2]),
        ((), ("slurm-time",), {}, FINDINGS[2:]),
        (("slurm-*",), ("slurm-time",), {}, ()),
        (("SLURM-*",), (), {}, ()),
        ((), (), {"old/*": ("slurm-*", "p2p-disabled")}, (FINDINGS[0], FINDINGS[2])),
        (("p2p-disabled", "slurm-time"), (), {"old/*": ("*",)}, (FINDINGS[0], FINDINGS[2])),
    ],
)
def test_findings_are_selected_and_not_ignored(
    select: tuple[str, ...], ignore: tuple[str, ...], per_file: dict[str, tuple[str, ...]], kept: object
):
    assert chosen(FINDINGS, select, ignore, per_file) == kept


def test_a_pattern_must_match_a_rule():
    refuse_unknown(["slurm-*", "p2p-disabled"], "--select")
    with pytest.raises(UsageError, match="--select: no rule is called 'slurm-nothing"):
        refuse_unknown(["slurm-*", "slurm-nothing-*"], "--select")


@pytest.mark.parametrize(("name", "near"), [("p2p-disable", "; did you mean p2p-disabled?"), ("qqqq", "")])
def test_an_unknown_rule_is_refused_with_the_nearest_one(name: str, near: str):
    assert known_rule("p2p-disabled").id == "p2p-disabled"
    with pytest.raises(UsageError) as raised:
        known_rule(name)
    assert raised.value.message == f"--explain: no rule is called '{name}'{near}"


@pytest.mark.parametrize(
    ("waived", "found", "idle"),
    [
        ({3: {"x"}}, [("x", 3)], []),
        ({3: {"x"}}, [("x", 2), ("x", 4), ("y", 3)], [(3, "x")]),
        ({3: {"x"}, 4: {"x"}}, [("x", 4)], []),
        ({3: {"x"}, 4: {"x"}}, [("x", 5)], [(3, "x")]),
        ({3: {"x"}, 5: {"x"}}, [("x", 5)], [(3, "x")]),
        ({3: {"all"}}, [("y", 3)], []),
        ({3: {"all"}}, [("y", 4)], [(3, "all")]),
        ({0: {"x"}}, [("x", 7)], []),
        ({0: {"x"}}, [("y", 7)], [(1, "x")]),
        ({0: {"all"}}, [("y", 7)], []),
        ({0: {"all"}}, [], [(1, "all")]),
        ({2: {"x"}}, [("x", 0)], [(2, "x")]),
        ({2: {"all"}, 4: {"x"}}, [("x", 4)], [(2, "all")]),
    ],
)
def test_a_waiver_without_a_finding_on_its_lines_is_idle(
    waived: dict[int, set[str]], found: list[tuple[str, int]], idle: list[tuple[int, str]]
):
    document = msgspec.structs.replace(
        read("a.sh", "echo\n" * 9), waived={line: frozenset(rules) for line, rules in waived.items()}
    )
    findings = [_finding(rule, line=line) for rule, line in found]
    assert idle_waivers(findings, (document,)) == tuple(
        f"a.sh, line {line}: the waiver of {rule} waives no finding" for line, rule in idle
    )
    elsewhere = [msgspec.structs.replace(finding, document="b.sh") for finding in findings]
    assert len(idle_waivers(elsewhere, (document,))) >= len(idle)
