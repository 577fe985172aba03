"""Read policy files, and write a policy file from a good node."""

import datetime
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from assistant.storage import read_bytes, write_bytes
from assistant.usecases.check import evidence_under, verdict_on
from assistant.usecases.events import Event, Progress, StageStarted, Written, stage
from probes.base.errors import ExitCode, InputError, OutputError
from probes.base.record import value_or
from probes.base.units import plural
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from probes.judging.policies.file import load_policy
from probes.judging.policies.policy import Policy
from probes.judging.reporting import HOST
from probes.judging.verdict import Verdict

if TYPE_CHECKING:
    from probes.judging.policies.learning import Doubt


class UnfitError(OutputError):
    """The machine fails checks, so that no policy may be learned from it."""

    exit_code = ExitCode.FINDINGS


def read_policy(path: Path) -> Policy:
    """Return the policy in a file. Raises InputError that names the file, the field and the fault."""
    try:
        text = read_bytes(path, limit_bytes=1024**2).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not UTF-8 text (byte {error.start})", "a policy is a TOML file"
        ) from error
    return load_policy(text, str(path), load_catalogue())


def require_free(path: Path, *, force: bool) -> None:
    """Raise OutputError if `path` exists and may not be replaced.

    Callers do this before they spend minutes on reading the machine.
    """
    if path.exists() and not force:
        raise OutputError(f"{path} exists", "choose another name, or replace the file with --force")


@stage("learn")
def learn_policy(
    facts: MachineFacts,
    verdict: Verdict,
    path: Path,
    *,
    force: bool,
    today: datetime.date,
    others: tuple[MachineFacts, ...] = (),
) -> Generator[Event, None, Policy]:
    """Write the facts of a machine as a policy; the last event's result is the `Policy`.

    The policy names the expectations that a faulty machine may have caused. These are expectations that a
    check criticises, expectations in which GPUs or ports differ, and expectations that `others` do not meet
    (machines of the same kind). Raises UnfitError for a machine that fails unless `force`, and OutputError if
    nothing is known about the machine or the file cannot be written.
    """
    from probes.judging.policies import learning  # noqa: PLC0415 - no other check needs it
    from probes.judging.policies.doubts import doubts_of  # noqa: PLC0415

    yield StageStarted(stage="learn", title="Learning a policy")
    if verdict.verdict is Status.FAIL and not force:
        failed = dict.fromkeys(each.check_id for each in verdict.findings if each.status is Status.FAIL)
        raise UnfitError(
            f"no policy was learned: the machine fails {', '.join(failed)}",
            "repair the machine first, or learn from it as it is with --force",
        )
    policy = learning.learned_policy(facts, load_catalogue())
    count = learning.expectation_count(policy)
    if not count:
        raise OutputError(
            "no policy was learned: nothing is known about this machine",
            "learn on the machine itself, or from a recording",
        )
    name = value_or(facts.hostname, facts.source)
    doubts = (*doubts_of(policy, facts, verdict.findings), *_unmet(policy, others, today))
    write_bytes(path, learning.policy_text(policy, name, today, doubts).encode())
    yield Written(path=str(path), what=f"policy with {plural(count, 'expectation')}")
    for doubt in doubts:
        yield Progress(stage="learn", message=f"check {doubt.place}: {doubt.reason}")
    return policy


def _unmet(policy: Policy, others: tuple[MachineFacts, ...], today: datetime.date) -> Iterator["Doubt"]:
    """Yield a doubt for each expectation that other machines do not meet, with their names and values."""
    from probes.judging.policies.learning import Doubt  # noqa: PLC0415 - no other check needs it

    rows = tuple(row for row in CHECKS if row.group == "policy")
    differing: dict[str, list[str]] = {}
    for facts in others:
        name = value_or(facts.hostname, facts.source)
        for finding in verdict_on(evidence_under(policy, facts, today=today), rows).findings:
            if finding.status is Status.FAIL:
                place, subject = finding.evidence[0].key, finding.subject
                on = name if subject == HOST else f"{subject} of {name}"
                differing.setdefault(place, []).append(f"{on} ({finding.observed})")
    for place, words in differing.items():
        yield Doubt(place=place, reason=f"another machine differs: {', '.join(words)}")
