"""End the command of a check with the code of its exit profile, for success and for every kind of failure."""

import itertools
import sys
from collections.abc import Callable
from typing import Any

import click

from assistant.cli.diagnostics import complain, complain_bug, complain_usage, one_line, say
from assistant.cli.output import emit_text
from assistant.formats.check_formats import Format
from probes.base.errors import ExitCode, RigtuneError
from probes.judging.verdict import PROFILES, Profile, failure_status


class ProfiledCommand(click.Command):
    """A command whose errors all end with the profile's code.

    With `nagios`, standard output contains the error too, because Nagios shows nothing else.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> Any:
        return _with_exit_code(
            _profile_in(args.copy()),
            lambda: super(ProfiledCommand, self).make_context(info_name, args, parent, **extra),
        )

    def invoke(self, ctx: click.Context) -> Any:
        return _with_exit_code(
            profile_of(ctx.params.get("exit_profile"), ctx.params.get("output_format")),
            lambda: super(ProfiledCommand, self).invoke(ctx),
        )


def profile_of(named: Profile | None, output_format: Format | None) -> Profile:
    """Return the named profile; without a name, the output format `nagios` selects the profile `nagios`."""
    return named or ("nagios" if output_format == "nagios" else "gate")


def _with_exit_code(profile: Profile, work: Callable[[], Any]) -> Any:
    """Return the result of `work`; report its errors here if `profile` has its own exit codes for them."""
    try:
        return work()
    except (click.exceptions.Exit, click.Abort):
        raise
    except RigtuneError as error:
        if failure_status(error.exit_code, profile) == error.exit_code:
            raise
        complain(error)
        _end(profile, int(error.exit_code), error.message)
    except click.ClickException as error:
        if failure_status(ExitCode.USAGE, profile) == ExitCode.USAGE:
            raise
        complain_usage(error)
        _end(profile, int(ExitCode.USAGE), error.format_message())
    except KeyboardInterrupt:
        if failure_status(ExitCode.INTERRUPTED, profile) == ExitCode.INTERRUPTED:
            raise
        say("rigtune: interrupted")
        _end(profile, int(ExitCode.INTERRUPTED), "interrupted")
    except Exception as error:
        if failure_status(ExitCode.BUG, profile) == ExitCode.BUG:
            raise
        complain_bug(error)
        _end(profile, int(ExitCode.BUG), f"{type(error).__name__} in rigtune itself")


def _end(profile: Profile, code: int, message: str) -> None:
    if profile == "nagios":
        from assistant.formats.monitoring import nagios_failure

        try:
            emit_text(nagios_failure(one_line(message)))
        except RigtuneError as error:
            complain(error)
    sys.stdout.flush()
    raise click.exceptions.Exit(failure_status(code, profile))


def _profile_in(arguments: list[str]) -> Profile:
    """Return the profile that the arguments name; click is not used, because it may refuse arguments."""
    named: Profile | None = None
    output_format: Format | None = None
    for word, following in itertools.pairwise([*arguments, ""]):
        option, equals, value = word.partition("=")
        wanted = value if equals else following
        if option == "--exit-profile":
            named = next((profile for profile in PROFILES if profile == wanted), named)
        elif (option, wanted) == ("--format", "nagios"):
            output_format = "nagios"
    return profile_of(named, output_format)
