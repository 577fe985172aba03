"""Compare the results of the site's own commands with what the policy expects of them.

The commands run before the checks, and only on the live machine (`assistant/usecases/site_checks.py`).
Source: the policy file.
"""

import fnmatch
from collections.abc import Iterator

from probes.base.record import Reason, Unknown, visible
from probes.judging.findings import Evidence, Finding, Judge, Remedy
from probes.judging.policies.policy import SiteCheck, SiteOutcome, policy_ref
from probes.judging.reporting import HOST

SITE = Judge(check_id="site-checks", why="The site requires the results of its own commands.")

NOT_RUN = Unknown(Reason.NOT_RECORDED, "commands of a policy run only on the machine that they judge")
_LONGEST = 200
"""Characters of an output line in a finding."""


def site_checks(evidence: Evidence) -> Iterator[Finding]:
    """Judge each command by its exit code and its output."""
    if not evidence.policy.site_checks:
        yield SITE.skipped(HOST, "the policy has no site check")
    outcomes = {outcome.name: outcome for outcome in evidence.site_outcomes}
    for index, check in enumerate(evidence.policy.site_checks):
        outcome = outcomes.get(check.name, SiteOutcome(name=check.name, exit_code=NOT_RUN))
        yield _judged(check, outcome, f"site_checks[{index}]")


def _judged(check: SiteCheck, outcome: SiteOutcome, place: str) -> Finding:
    judge, refs = Judge(check_id=SITE.check_id, why=check.why), (policy_ref(place),)
    remedy = Remedy(text=check.fix)
    if isinstance(outcome.exit_code, Unknown):
        what = f"the result of {check.name}"
        return judge.undetermined(check.name, outcome.exit_code, what=what, remedy=remedy, evidence=refs)
    line = check.line
    matching = outcome.lines[-1:]
    if line is not None:
        matching = tuple(each for each in outcome.lines if fnmatch.fnmatchcase(each.strip(), line))[:1]
    shown = (matching or outcome.lines[-1:] or ("no output",))[0]
    observed = f"exit code {outcome.exit_code}, {visible(shown.strip())[:_LONGEST]}"
    is_wrong_code = outcome.exit_code != check.exit_code
    if not is_wrong_code and (line is None or matching):
        return judge.passed(check.name, "the result is as expected", observed=observed, evidence=refs)
    expected = f"exit code {check.exit_code}" + ("" if line is None else f", and a line {line!r}")
    return judge.problem(
        check.name,
        "the exit code differs from the policy" if is_wrong_code else "the expected line is missing",
        fails=check.status == "fail",
        expected=expected,
        observed=observed,
        remedy=remedy,
        evidence=refs,
    )
