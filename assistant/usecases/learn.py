"""Read policy files, and write a policy file from a good node."""

import datetime
from collections.abc import Generator
from pathlib import Path

from assistant.storage import read_bytes, write_bytes
from assistant.usecases.events import Event, StageStarted, Written, stage
from probes.base.errors import ExitCode, InputError, OutputError
from probes.base.record import value_or
from probes.catalogue.hardware import load_catalogue
from probes.facts import MachineFacts
from probes.judging.findings import Status
from probes.judging.policies.file import load_policy
from probes.judging.policies.policy import Policy
from probes.judging.verdict import Verdict


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
    facts: MachineFacts, verdict: Verdict, path: Path, *, force: bool, today: datetime.date
) -> Generator[Event, None, Policy]:
    """Write the facts of a machine as a policy; the last event's result is the `Policy`.

    Raises UnfitError if the machine fails checks and `force` is False, and OutputError if the file cannot be
    written.
    """
    from probes.judging.policies import learning  # noqa: PLC0415 - no other check needs it

    yield StageStarted(stage="learn", title="Learning a policy")
    if verdict.verdict is Status.FAIL and not force:
        failed = dict.fromkeys(each.check_id for each in verdict.findings if each.status is Status.FAIL)
        raise UnfitError(
            f"no policy was learned: the machine fails {', '.join(failed)}",
            "repair the machine first, or learn from it all the same with --force",
        )
    policy = learning.learned_policy(facts, load_catalogue())
    count = learning.expectation_count(policy)
    if not count:
        raise OutputError(
            "no policy was learned: nothing is known about this machine",
            "learn on the machine itself, or from a recording",
        )
    name = value_or(facts.hostname, facts.source)
    write_bytes(path, learning.policy_text(policy, name, today).encode())
    yield Written(path=str(path), what=f"policy with {count} expectations")
    return policy
