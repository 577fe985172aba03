"""`rigtune fleet capture`: the recording of every node, for `rigtune check --from` and for bug reports."""

import click

from assistant.cli.diagnostics import follow
from assistant.cli.fleet_options import Reach, described_run, reach_options
from assistant.cli.fleet_runs import redact_option
from assistant.cli.options import format_option, verbosity_options
from assistant.cli.output import emit_answer
from probes.base.errors import ExitCode


@click.command("capture")
@reach_options
@click.option("--tier", type=click.Choice(("quick", "deep")), default="deep", show_default=True,
              help="How much each node reads; quick starts no slow commands.")  # fmt: skip
@redact_option
@format_option("text", "json")
@verbosity_options
def capture_command(
    reach: Reach,
    tier: str,
    redact: bool,
    output_format: str,
    quiet: bool,
    verbose: bool,
) -> int:
    """Keep the recording of every node in the folder of the run; `rigtune check --from FILE` judges one.

    Recordings contain names and maybe secrets, and only you can read them. With --redact, the folder
    `redacted` has copies to share, in which a name has the same placeholder in all recordings.

    Exit code 0: every node has a recording; 3: some have none.
    """
    from assistant.engines.clustershell_runs import folded
    from assistant.pages.fleet_capture_page import fleet_capture_page
    from assistant.usecases.fleet.capture_fleet import capture_fleet
    from probes.fleet.question import Question

    run = described_run(reach, Question(tier=tier, is_capture=True))
    if run is None:
        return 0
    captured = follow(capture_fleet(run, redacting=redact), quiet=quiet, verbose=verbose)
    emit_answer(captured, output_format, lambda _: fleet_capture_page(captured, folded), is_wide=True)
    return int(ExitCode.UNKNOWN if captured.missing else ExitCode.OK)
