"""`rigtune lint`: find the mistakes in launch files."""

import re
from pathlib import Path
from typing import Literal, get_args

import click
import msgspec

from assistant.cli.diagnostics import say
from assistant.cli.options import PATH, facts_of, source_options
from assistant.cli.output import emit_data, emit_text, wants_colour
from assistant.formats.json_answer import json_answer
from assistant.usecases.lint import Linted, lint_files
from assistant.usecases.lint_settings import FailOn, LintSettings, settings_in, settings_of
from probes.base.errors import ExitCode, UsageError
from probes.base.record import printable, quoted
from recipes.lint.context import Context
from recipes.lint.document import DocumentKind
from recipes.lint.finding import Severity

Format = Literal["text", "json", "sarif", "github"]
_GRAVITY: dict[Severity, int] = {"error": 0, "warning": 1, "note": 2}
_VERSION = re.compile(r"\d{1,3}(\.\d{1,4}){1,3}")


@click.command()
@click.argument("files", nargs=-1, type=PATH)
@click.option("--environment", is_flag=True, help="Also judge the environment variables of this process.")
@click.option(
    "--kind",
    type=click.Choice(get_args(DocumentKind)),
    help="Kind of the files, if their names and contents do not show it.",
)
@click.option(
    "--nccl-version",
    metavar="VERSION",
    help="Version of NCCL that the job will load, such as 2.27.5; versions read different variables.",
)
@click.option("--slurm-version", metavar="VERSION", help="Version of Slurm on the cluster, such as 24.05.")
@click.option(
    "--torch-version", metavar="VERSION", help="Version of torch that the job will load, such as 2.8."
)
@click.option(
    "--here", is_flag=True, help="The job will run on this machine: judge with its NICs, GPUs and versions."
)
@source_options
@click.option(
    "--format",
    "output_format",
    type=click.Choice(get_args(Format)),
    default="text",
    show_default=True,
    help="Output on stdout: text for people, json for programs, sarif and github for code scanning.",
)
@click.option("--diff", "as_diff", is_flag=True, help="Print the safe fixes as a patch instead.")
@click.option(
    "--unsafe-fixes",
    is_flag=True,
    help="With --diff, also print fixes after which the job may behave differently. Review these.",
)
@click.option("--select", metavar="RULE", multiple=True, help="Only these rules, such as `slurm-*`.")
@click.option("--ignore", metavar="RULE", multiple=True, help="All rules except these.")
@click.option(
    "--config",
    type=PATH,
    metavar="FILE",
    help="Settings; by default the nearest rigtune-lint.toml, or pyproject.toml with [tool.rigtune.lint].",
)
@click.option(
    "--skip-unknown", is_flag=True, help="Skip files of unknown kind without a note, as for pre-commit."
)
@click.option(
    "--explain", metavar="RULE", help="Print why a rule exists, with a bad and a good example, and end."
)
@click.option(
    "--redact",
    is_flag=True,
    help="Replace names, addresses and paths as `rigtune capture` does, and show no lines of the files.",
)
@click.option(
    "-o",
    "--output",
    type=PATH,
    metavar="FILE",
    help="Write the output to this file, completely or not at all.",
)
@click.option("--fail-on", type=click.Choice(get_args(FailOn)),
              help="Least serious finding that gives exit code 1.  [default: error]")  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only errors on stderr.")
@click.option("-v", "--verbose", is_flag=True, help="Also print why each rule exists, and its source.")
def lint_command(
    files: tuple[Path, ...],
    environment: bool,
    kind: DocumentKind | None,
    nccl_version: str | None,
    slurm_version: str | None,
    torch_version: str | None,
    here: bool,
    from_paths: tuple[Path, ...],
    machine: str | None,
    output_format: Format,
    as_diff: bool,
    unsafe_fixes: bool,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    config: Path | None,
    skip_unknown: bool,
    explain: str | None,
    redact: bool,
    output: Path | None,
    fail_on: FailOn | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Report the mistakes in FILES: scripts for a shell or Slurm, Dockerfiles, compose and Kubernetes files,
    configurations of accelerate and DeepSpeed, TF_CONFIG, nccl.conf, .env, lists of hosts. A folder means all
    such files in it, and - means standard input. A file is judged together with the files that it names.
    Nothing is started.

    A comment waives a rule: # rigtune: ignore=RULE reason. See assistant/docs/lint.md.

    Exit code 0: no finding at or above --fail-on; 1: such a finding; 2: a file cannot be read.
    """
    if explain is not None:
        _explain(explain, output_format)
        return int(ExitCode.OK)
    settings = _settings(config, select, ignore, fail_on, nccl_version, torch_version, slurm_version)
    if not files and not environment and not skip_unknown:
        raise UsageError("no file is given", "rigtune lint train.sbatch ds_config.json, or --environment")
    _check_diff(as_diff=as_diff, redact=redact, unsafe_fixes=unsafe_fixes)
    context = Context(
        nccl_version=settings.nccl_version,
        slurm_version=settings.slurm_version,
        torch_version=settings.torch_version,
        machine=facts_of(from_paths, machine) if here or from_paths or machine else None,
    )
    linted = lint_files(
        files, context, kind=kind, environment=environment, settings=settings, skip_unknown=skip_unknown
    )
    if redact:
        from assistant.usecases.lint import redacted

        linted = redacted(linted)
    if as_diff:
        from recipes.lint.editing import patch

        findings = linted.report.findings
        text = "".join(patch(document, findings, unsafe=unsafe_fixes) for document in linted.documents)
    else:
        text = _formatted(linted, output_format, colour=output is None, verbose=verbose)
    if output is not None:
        from assistant.pages.lint_page import summary
        from assistant.storage import write_bytes

        write_bytes(output, text.encode("utf-8", "surrogateescape"))
        if not quiet:
            say(f"{summary(linted.report)}; wrote {output}")
    elif output_format == "text" and not as_diff:
        emit_text(text)
    else:
        emit_data(text)
        if as_diff and not text and not quiet:
            unsafe = sum(bool(finding.unsafe_edits) for finding in linted.report.findings)
            rest = f"; --unsafe-fixes shows {unsafe} that may change the job" if unsafe else ""
            fix = "fix that can be printed" if unsafe_fixes else f"safe fix{rest}"
            say(f"no finding has a {fix}")
    return _exit_code(linted, settings.fail_on or "error")


def _check_diff(*, as_diff: bool, redact: bool, unsafe_fixes: bool) -> None:
    if redact and as_diff:
        raise UsageError(
            "--redact and --diff exclude each other", "a patch must contain the lines that it changes"
        )
    if unsafe_fixes and not as_diff:
        raise UsageError("--unsafe-fixes needs --diff", "rigtune lint --diff --unsafe-fixes FILE")


def _explain(rule_id: str, output_format: Format) -> None:
    from assistant.pages.lint_rule_page import explained, rule_text
    from recipes.lint.choosing import known_rule

    rule = known_rule(rule_id)
    if output_format == "json":
        emit_data(json_answer(explained(rule)).decode())
    else:
        emit_text(rule_text(rule))


def _settings(
    config: Path | None,
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    fail_on: FailOn | None,
    nccl_version: str | None,
    torch_version: str | None,
    slurm_version: str | None,
) -> LintSettings:
    """Return the settings of the file, with the options of the command line.

    `--ignore` adds to the rules that the file ignores; every other option replaces the setting of the file.
    """
    from recipes.lint.choosing import refuse_unknown

    stored = settings_of(config) if config is not None else settings_in(Path.cwd())
    select, ignore = _ids(select) or stored.select, (*stored.ignore, *_ids(ignore))
    refuse_unknown(select, "select")
    refuse_unknown(ignore, "ignore")
    refuse_unknown([rule for rules in stored.per_file_ignores.values() for rule in rules], "per-file-ignores")
    settings = msgspec.structs.replace(
        stored,
        select=select,
        ignore=ignore,
        fail_on=fail_on or stored.fail_on,
        nccl_version=nccl_version or stored.nccl_version,
        torch_version=torch_version or stored.torch_version,
        slurm_version=slurm_version or stored.slurm_version,
    )
    _check_version("--nccl-version", settings.nccl_version)
    _check_version("--torch-version", settings.torch_version)
    _check_version("--slurm-version", settings.slurm_version)
    return settings


def _ids(given: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids of options that may be repeated or separated by commas."""
    return tuple(name for text in given for name in text.split(",") if name)


def _check_version(option: str, version: str | None) -> None:
    if version is not None and not _VERSION.match(version):
        raise UsageError(f"{option} {quoted(version)} is not a version", "write a version such as 2.27.5")


def _formatted(linted: Linted, output_format: Format, *, colour: bool, verbose: bool) -> str:
    if output_format == "json":
        return json_answer(linted.report).decode()
    if output_format == "text":
        from assistant.pages.lint_page import WIDTH, lint_page
        from assistant.text.plain_writer import text_of

        page = lint_page(linted.report, linted.documents, verbose=verbose)
        return printable(text_of(page, colour=colour and wants_colour(), width=WIDTH))
    from assistant.formats.lint_formats import github_text, sarif_text

    return sarif_text(linted.report) if output_format == "sarif" else github_text(linted.report)


def _exit_code(linted: Linted, fail_on: FailOn) -> int:
    if fail_on == "never":
        return int(ExitCode.OK)
    bad = any(_GRAVITY[finding.severity] <= _GRAVITY[fail_on] for finding in linted.report.findings)
    return int(ExitCode.FINDINGS if bad else ExitCode.OK)
