"""Test the outcome of one command of a policy: its deadline, its exit code and its output."""

from __future__ import annotations

from pathlib import Path

import pytest

from assistant.usecases.site_checks import run_site_checks
from probes.base.record import Reason, Unknown
from probes.judging.policies.policy import SiteCheck, SiteOutcome
from probes.sources.live import LiveSource


def outcome(*command: str, timeout_s: float = 60.0, budget_s: float | None = None) -> SiteOutcome:
    check = SiteCheck(name="site", command=command, timeout_s=timeout_s)
    with LiveSource() as source:
        (result,) = run_site_checks((check,), source, budget_s=budget_s)
    return result


@pytest.mark.parametrize(
    ("timeout_s", "budget_s", "is_started"),
    [(1.0, None, True), (0.5, 60.0, True), (60.0, 1.0, True), (60.0, 0.0, False), (60.0, -1.0, False)],
)
def test_a_command_is_started_while_any_time_is_left(
    timeout_s: float, budget_s: float | None, is_started: bool
) -> None:
    result = outcome("true", timeout_s=timeout_s, budget_s=budget_s).exit_code
    # On a slow machine the start alone may take the whole deadline; the result then has another reason.
    words = result.words if isinstance(result, Unknown) else ""
    assert ("no time was left of --budget" not in words) == is_started


def test_a_command_that_takes_too_long_is_named_with_its_deadline() -> None:
    result = outcome("sleep", "98764", timeout_s=0.25).exit_code
    assert isinstance(result, Unknown)
    assert (result.reason, result.detail) == (Reason.TIMEOUT, "sleep took longer than 0.25 s")


@pytest.mark.parametrize("code", [0, 1, 126, 127, 128, 255])
def test_every_exit_code_is_the_commands_own(code: int) -> None:
    assert outcome("sh", "-c", f"echo no; exit {code}").exit_code == code


def test_a_script_whose_interpreter_is_absent_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "check"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o700)
    result = outcome(str(script)).exit_code
    assert isinstance(result, Unknown)
    assert result.reason is Reason.ERROR


@pytest.mark.parametrize(("lines", "first"), [(3, "1"), (1000, "1"), (1001, "2")])
def test_the_last_thousand_lines_are_kept_without_blank_ones(lines: int, first: str) -> None:
    result = outcome("sh", "-c", f"seq 1 {lines}; echo")
    assert (result.lines[0], result.lines[-1], len(result.lines)) == (first, str(lines), min(lines, 1000))
