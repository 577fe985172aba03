"""`rigtune check`: is this machine fit to train?"""

import datetime
import time
from pathlib import Path
from typing import get_args

import click
import msgspec

from assistant.cli.diagnostics import follow, say
from assistant.cli.exit_profile import ProfiledCommand, profile_of
from assistant.cli.options import (
    PATH,
    Number,
    collect_options,
    names_of,
    paths_of,
    python_option,
    source_of,
    source_options,
)
from assistant.cli.output import emit_text, wants_colour
from assistant.formats.check_formats import FORMATS, Format, formatted
from assistant.usecases.check import check_machine, evidence_under
from assistant.usecases.probe import probe_machine
from probes.base.errors import UsageError
from probes.base.record import Record, items_of
from probes.base.table_rows import Mode, Tier
from probes.catalogue.hardware import load_catalogue
from probes.catalogue.thresholds import load_thresholds
from probes.collect.identity import hostname_of
from probes.facts import Gpu, MachineFacts
from probes.facts.measurements import Baseline, MeasurementSet
from probes.judging.counters import Snapshot, snapshot
from probes.judging.policies.expectation import expects_gpus, with_expectations
from probes.judging.policies.host_sections import for_host
from probes.judging.policies.policy import Policy, SiteCheck, SiteOutcome
from probes.judging.policies.selection import Selection, select
from probes.judging.verdict import PROFILES, FailOn, Profile, Verdict, exit_status
from probes.sources.base import Source

BUDGET_S: dict[Tier, float] = {"quick": 8.0, "deep": 60.0}
"""Seconds for each tier; a Slurm prolog may take ten seconds, a HealthCheckProgram sixty."""
LONGEST_S = 86400.0
"""The largest value of `--budget`."""


class Answer(Record, kw_only=True):
    """The settings for how the verdict is reported."""

    output_format: Format | None = None
    """The chosen format; None if the exit profile decides what goes to stdout."""
    profile: Profile = "gate"
    fail_on: FailOn = "fail"
    file: str | None = None
    quiet: bool = False
    verbose: bool = False
    gpus: tuple[Gpu, ...] = ()
    """The GPUs that the verdict is about, for monitoring."""


@click.command(cls=ProfiledCommand)
@click.argument("more_paths", nargs=-1, type=PATH, metavar="")
@source_options
@python_option
@click.option("--policy", "policy_file", type=PATH, metavar="FILE", envvar="RIGTUNE_POLICY", show_envvar=True,
              help="Policy: what you expect of this machine, and your own commands that check it "
                   "(assistant/docs/policy.md). --learn writes one.")  # fmt: skip
@click.option("--mode", type=click.Choice(get_args(Mode)), default=None,
              help="accept: judge all facts of a node before it is used; needs --expect, --expect-gpus or "
                   "a policy that states the GPUs. monitor: judge a node in use; a program on a GPU is no "
                   "finding, nor is a logged event that is older than a day and left nothing to repair. "
                   "Default: like accept, but expectations are not required.")  # fmt: skip
@click.option(
    "--expect",
    metavar="MACHINE",
    help="Expect the GPUs and training ports of this machine of `rigtune list machines`.",
)
@click.option("--expect-gpus", type=click.IntRange(0), metavar="N", help="Expect this number of GPUs.")
@click.option("--measurements", type=PATH, metavar="FILE",
              help="Also judge this report of `rigtune bench -o FILE`, and compare it with earlier runs "
                   "of the same machine.")  # fmt: skip
@click.option(
    "--learn",
    type=PATH,
    metavar="FILE",
    help="Write a policy that expects what this machine has now, and name the values that may come from a "
    "fault of this machine. Reads in tier deep unless --tier quick is given.",
)
@click.option("--beside", multiple=True, type=PATH, metavar="PATH",
              help="With --learn: a recording of another machine of this kind, repeatable. The policy names "
              "each expectation that this other machine does not meet.")  # fmt: skip
@click.option(
    "--force", is_flag=True, help="With --learn: replace the file, and learn from a machine that fails."
)
@click.option("--tier", type=click.Choice(("quick", "deep")), default=None,
              help="How much to read of a live machine: quick (default) or deep, which also starts slow "
                   "commands.")  # fmt: skip
@click.option("--budget", type=Number(0, LONGEST_S, min_open=True), metavar="SECONDS",
              help="Time after which unanswered checks are UNKNOWN (default: 8 for quick, 60 for "
                   "deep). A slow GPU driver gets up to 35 s, and then a warning, not a FAIL.")  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="ID|GROUP",
    help="Make only these checks; repeatable, or separated by commas.",
)
@click.option("--skip", multiple=True, metavar="ID|GROUP", help="Leave these checks out.")
@click.option("--fail-on", type=click.Choice(("fail", "warn")), default=None,
              help="Least serious finding for exit code 1 (default: as in the policy, or fail).")  # fmt: skip
@click.option("--exit-profile", type=click.Choice(PROFILES), default=None,
              help="Meaning of the exit codes. gate (default): 0 fit, 1 findings, 3 unknown; nagios (default "
                   "with --format nagios): 0-3; npd: 0-2; slurm and nhc: 0 or 1, with one line of "
                   "reason.")  # fmt: skip
@click.option("--format", "output_format", type=click.Choice(FORMATS), default=None,
              help="Output on stdout (default: text, or the format of the exit profile).")  # fmt: skip
@click.option(
    "-o",
    "--output",
    "file",
    type=PATH,
    metavar="FILE",
    help="Write the output to this file, completely or not at all.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print nothing on stdout; the exit code is the answer.")
@click.option("-v", "--verbose", is_flag=True, help="Also list the checks that passed or do not apply.")
def check_command(
    more_paths: tuple[Path, ...],
    from_paths: tuple[Path, ...],
    machine: str | None,
    python: str | None,
    policy_file: Path | None,
    mode: Mode | None,
    expect: str | None,
    expect_gpus: int | None,
    measurements: Path | None,
    learn: Path | None,
    beside: tuple[Path, ...],
    force: bool,
    tier: Tier | None,
    budget: float | None,
    only: tuple[str, ...],
    skip: tuple[str, ...],
    fail_on: FailOn | None,
    exit_profile: Profile | None,
    output_format: Format | None,
    file: Path | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Check whether this machine is fit to train.

    Exit code 0: all required checks pass; 1: findings at or above --fail-on; 3: a required check could not be
    made.
    """
    source = source_of(paths_of(from_paths, more_paths), machine)
    policy, stated_by = with_expectations(
        for_host(_policy(policy_file, learn), hostname_of(source)),
        load_catalogue(),
        machine=expect,
        gpus=expect_gpus,
    )
    if mode == "accept" and not expects_gpus(policy):
        raise UsageError(
            "--mode accept needs to know which GPUs the node must have",
            "add --expect MACHINE, --expect-gpus N, or --policy FILE with gpu.count",
        )
    measured, baselines = _measured(measurements)
    is_quick = source.is_live and (tier == "quick" or (tier is None and learn is None))
    selection = select("quick" if is_quick else "deep", names_of(only), names_of(skip))
    if learn is not None:
        from assistant.usecases.learn import learn_policy, require_free

        require_free(learn, force=force)
    elif beside:
        raise UsageError(
            "--beside compares other machines with a policy that is being learned", "add --learn FILE"
        )
    commands = _site_checks(policy, policy_file, source, selection)
    started, clock = datetime.datetime.now(datetime.timezone.utc), time.monotonic()
    options = msgspec.structs.replace(
        collect_options(python, ask_interpreters=False, is_here=source.is_live),
        deep=selection.tier == "deep",
        toolkit=policy.software.cuda_toolkit is not None,
        sysctls=tuple(policy.host.sysctl) if learn is None else load_thresholds().learned_sysctls.value,
    )
    probing = probe_machine(source, options, BUDGET_S[selection.tier] if budget is None else budget)
    facts: MachineFacts = follow(probing, quiet=True)
    if measured is not None:
        from recipes.machine.measured_on import require_same_machine

        if remark := require_same_machine(measured, facts, str(measurements)):
            say(f"rigtune: {remark}")
    outcomes: tuple[SiteOutcome, ...] = ()
    if commands:
        from assistant.usecases.site_checks import run_site_checks

        left_s = None if budget is None else budget - (time.monotonic() - clock)
        outcomes = run_site_checks(commands, source, budget_s=left_s)
    today = datetime.datetime.now().astimezone().date()
    is_monitored = mode == "monitor" and source.is_live
    evidence = evidence_under(
        policy,
        facts,
        today=today,
        measured=measured,
        baselines=baselines,
        site_outcomes=outcomes,
        stated_by=stated_by,
        mode=mode or "accept",
        earlier=_earlier_counters(facts, started) if is_monitored else None,
        now=started if source.is_live else None,
    )
    verdict: Verdict = follow(check_machine(evidence, selection.rows), quiet=True)
    verdict = msgspec.structs.replace(
        verdict,
        mode=evidence.mode,
        tier=selection.tier,
        deep_only=selection.deep_only,
        deselected=selection.deselected,
        started=started,
        duration_s=round(time.monotonic() - clock, 6),
    )
    code = write_verdict(
        verdict,
        Answer(
            output_format=output_format,
            profile=profile_of(exit_profile, output_format),
            fail_on=fail_on or policy.fail_on or "fail",
            file=str(file) if file is not None else None,
            quiet=quiet,
            verbose=verbose,
            gpus=items_of(facts.gpus),
        ),
    )
    if learn is not None:
        others = tuple(
            follow(probe_machine(source_of((path,), None), options), quiet=True) for path in beside
        )
        learning = learn_policy(facts, verdict, learn, force=force, today=today, others=others)
        follow(learning, quiet=quiet)
    return code


def _site_checks(
    policy: Policy, file: Path | None, source: Source, selection: Selection
) -> tuple[SiteCheck, ...]:
    """Return the commands of the policy; none if the machine is not live or `site-checks` does not run.

    Raises InputError if others can write the policy.
    """
    is_selected = any(row.id == "site-checks" for row in selection.rows)
    if not (policy.site_checks and source.is_live and is_selected) or "site-checks" in policy.checks.off:
        return ()
    from assistant.usecases.site_checks import require_own

    if file is not None:
        require_own(file, source)
    return policy.site_checks


def write_verdict(verdict: Verdict, answer: Answer) -> int:
    """Write the verdict to its destination and return the exit code, which no format changes.

    Raises OutputError.
    """
    if answer.file is None:
        if not answer.quiet:
            _write_stdout(verdict, answer)
        return exit_status(verdict, answer.profile, answer.fail_on)
    if answer.profile != "gate" and not answer.quiet:
        _write_stdout(verdict, msgspec.structs.replace(answer, output_format=None))
    from assistant.storage import write_bytes
    from probes.base.record import printable

    text = formatted(verdict, answer.output_format or "text", verbose=answer.verbose, gpus=answer.gpus)
    write_bytes(
        Path(answer.file),
        printable(text).encode(),
        for_others=answer.output_format == "prometheus",  # node_exporter runs as another user
    )
    if not answer.quiet:
        from assistant.formats.monitoring import reason_line

        say(f"rigtune: {reason_line(verdict, answer.fail_on) or 'fit to train'}; wrote {answer.file}")
    return exit_status(verdict, answer.profile, answer.fail_on)


def _write_stdout(verdict: Verdict, answer: Answer) -> None:
    """Write the chosen format; by default the line that the profile needs, or the report."""
    output_format = answer.output_format or ("nagios" if answer.profile == "nagios" else "text")
    if answer.output_format is None and answer.profile in ("npd", "slurm", "nhc"):
        from assistant.formats.monitoring import reason_line

        line = reason_line(verdict, answer.fail_on, first_only=answer.profile == "nhc")
        if line:
            emit_text(line)
        return
    emit_text(
        formatted(verdict, output_format, colour=wants_colour(), verbose=answer.verbose, gpus=answer.gpus)
    )


def _earlier_counters(facts: MachineFacts, now: datetime.datetime) -> Snapshot | None:
    """Return the counters of an earlier run of this machine; store the present counters for later runs."""
    from assistant.usecases.last_counters import exchange

    present = snapshot(facts, now.timestamp())
    if present is None or not isinstance(facts.hostname, str):
        return None
    window_s = load_thresholds().monitor_event_window_s.value
    earlier, complaint = exchange(facts.hostname, present, window_s)
    if complaint:
        say(f"rigtune: {complaint}")
    return earlier


def _policy(file: Path | None, learn: Path | None) -> Policy:
    """Return the policy of the command line or RIGTUNE_POLICY, by default a policy without settings.

    With --learn the policy of RIGTUNE_POLICY is ignored. Raises UsageError if --policy is given too.
    """
    if file is None:
        return Policy()
    if learn is not None:
        context = click.get_current_context()
        if context.get_parameter_source("policy_file") is click.core.ParameterSource.COMMANDLINE:
            raise UsageError(
                "--policy and --learn exclude each other", "learn a policy first, then check with it"
            )
        return Policy()
    from assistant.usecases.learn import read_policy

    return read_policy(file)


def _measured(file: Path | None) -> tuple[MeasurementSet | None, tuple[Baseline, ...]]:
    """Return the measurements in a file and earlier runs of the same machine; None and () without a file."""
    if file is None:
        return None, ()
    from assistant.storage import read_measurements
    from assistant.usecases.bench.baseline import load_baselines

    measured = read_measurements(file)
    if not measured.machine:
        return measured, ()
    return measured, load_baselines(measured.machine, say, moment=measured.started)
