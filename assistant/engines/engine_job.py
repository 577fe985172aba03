"""Run one job over several nodes in a separate process, so that the engine ends with its parent process.

The runner starts `command_of(FILE)`; the file has the name of the engine and its task as JSON.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

import msgspec

from assistant.engines.engine_table import Wanted, find_engine, require_joint
from probes.base.errors import RigtuneError
from probes.fleet.node_report import NodeEnd, NodeLine


class EngineJob(msgspec.Struct):
    """A task and the engine that carries it out."""

    engine: str
    wanted: Wanted


def command_of(path: Path) -> tuple[str, ...]:
    """Return the command that runs the job in the file `path`, which `msgspec` has written."""
    root = str(Path(__file__).resolve().parents[2])
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from assistant.engines.engine_job import main; main()"
    )
    return (sys.executable, "-c", program, root, str(path))


def main() -> None:
    """Run the job, print the outcome of each node that fails, and exit with the first of their exit codes.

    The exit code is 1 if no failed node has an exit code, and 0 if no node fails.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    job = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=EngineJob)
    codes: list[int | None] = []

    def sink(event: NodeLine | NodeEnd) -> None:
        if not isinstance(event, NodeEnd) or event.outcome == "ok":
            return
        kind = "" if event.outcome == "exit" else "NodeError: "
        why = event.detail or event.exit_code
        print(f"{kind}{event.node}: {event.outcome}: {why}", flush=True)  # noqa: T201 - the log of the job
        codes.append(event.exit_code if event.outcome == "exit" else None)

    try:
        row = find_engine(job.engine)
        require_joint(row)
        row.load().run(job.wanted, sink)
    except RigtuneError as error:
        sys.exit(f"{type(error).__name__}: {error.message} (hint: {error.hint})")
    sys.exit(next(filter(None, codes), 1 if codes else 0))
