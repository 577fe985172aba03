"""Keep earlier benchmark runs of each machine in the user's state directory, for comparison.

There are three files for each machine: `previous.json` contains the last run of every benchmark and suite,
`pinned.json` the runs that the user pinned, and `verified.json` the steps that `rigtune verify` measured, for
the next plan. A run replaces only the benchmarks that it contains.
"""

import hashlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

import msgspec
import platformdirs

from assistant.storage import read_bytes, write_record
from probes.base.errors import InputError
from probes.base.grouping import grouped
from probes.base.record import Record, from_json, to_json
from probes.facts.measurements import SCHEMA_VERSION, Baseline, Measurement, MeasurementSet

Kind = Literal["previous", "pinned"]
KINDS: tuple[Kind, ...] = ("pinned", "previous")
_VERIFIED = "verified"
_SUITE_OF_VERIFY = "verify"


class _Kept(Record, kw_only=True):
    """The content of a file."""

    schema_version: int
    machine: str
    runs: tuple[MeasurementSet, ...]
    """One run for each benchmark and suite."""


def save_run(measured: MeasurementSet) -> Path:
    """Store a run as the previous run; return its file. Raises OutputError if it cannot be written."""
    return _save("previous", measured)


def pin(measured: MeasurementSet) -> Path:
    """Store a run as the pinned run and as the previous run; return its file.

    Raises OutputError if the file cannot be written.
    """
    _save("previous", measured)
    return _save("pinned", measured)


def save_verified(measured: MeasurementSet) -> Path:
    """Store a verified step of the machine, in place of an earlier step of the same job; return its file.

    Raises OutputError if the file cannot be written.
    """
    return _save(_VERIFIED, measured)


def verified_steps(machine: str, report: Callable[[str], object] = lambda _: None) -> tuple[Measurement, ...]:
    """Return the steps that `rigtune verify` measured; `report` gets a line about a damaged file."""
    try:
        runs = _read(file_of(machine, _VERIFIED), machine)
    except InputError as error:
        report(f"{error.message}: {error.hint}")
        return ()
    return tuple(measurement for run in runs for measurement in run.measurements)


def load_baselines(
    machine: str, report: Callable[[str], object] = lambda _: None, *, moment: str = ""
) -> tuple[Baseline, ...]:
    """Return the earlier runs of `machine`; results of one run are joined again.

    `moment` is the start of the run that is to be compared. Only earlier runs and pinned runs are returned. A
    file is left out, and `report` gets one line about it, if the file is damaged, or belongs to a newer
    rigtune or to another machine.
    """
    baselines: list[Baseline] = []
    for kind in KINDS:
        path = file_of(machine, kind)
        try:
            runs = _read(path, machine)
        except InputError as error:
            report(f"{error.message}: {error.hint}")
            continue
        baselines += [
            Baseline(kind=kind, measured=run)
            for run in _joined(runs)
            if _is_earlier(kind, run.started, moment)
        ]
    return tuple(baselines)


def _is_earlier(kind: Kind, started: str, moment: str) -> bool:
    """Return whether a run may be compared with the run of `moment`: an earlier run, or another pinned run.

    Both times are UTC in the same format, and are compared as text. An empty `moment` admits every run.
    """
    return not moment or (started != moment if kind == "pinned" else started < moment)


def file_of(machine: str, name: str) -> Path:
    """Return the path of the stored file with this name for a machine.

    The name of a machine is quoted and cleaned, because it may be long or contain a slash.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", machine)[:60].lstrip(".") or "machine"
    if safe != machine:
        safe = f"{safe}-{hashlib.sha256(machine.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
    return platformdirs.user_state_path("rigtune") / "baselines" / safe / f"{name}.json"


def _read(path: Path, machine: str) -> tuple[MeasurementSet, ...]:
    """Return the runs in a file; none if the file does not exist. Raises InputError with the reason."""
    if not path.exists():
        return ()
    remedy = "the comparison ignores it, and the next run replaces it"
    if path.name == "pinned.json":
        remedy = "it is left out of the comparison; pin a run again with `rigtune bench --pin`"
    elif path.name == f"{_VERIFIED}.json":
        remedy = "plans do not use it, and the next `rigtune verify` replaces it"
    try:
        kept = from_json(read_bytes(path), _Kept)
    except msgspec.DecodeError as error:
        raise InputError(f"{path} contains no benchmark runs ({error})", remedy) from error
    except InputError as error:
        raise InputError(error.message, remedy) from error
    if kept.schema_version != SCHEMA_VERSION:
        raise InputError(
            f"{path} was written by another version of rigtune (schema {kept.schema_version})", remedy
        )
    if kept.machine != machine:
        raise InputError(
            f"{path} contains runs of the machine {kept.machine!r:.80}, not of {machine!r:.80}", remedy
        )
    return kept.runs


def _save(kind: str, measured: MeasurementSet) -> Path:
    path = file_of(measured.machine, kind)
    try:
        before = _read(path, measured.machine)
    except InputError:
        before = ()
    # A run of some benchmarks must not remove the earlier runs of other benchmarks.
    new = {_key(run): run for run in _split(measured)}
    kept = _Kept(
        schema_version=SCHEMA_VERSION,
        machine=measured.machine,
        runs=(*(run for run in before if _key(run) not in new), *new.values()),
    )
    write_record(path, kept)
    return path


def _split(measured: MeasurementSet) -> Iterable[MeasurementSet]:
    """Yield one run per benchmark, without failures, because a failure cannot serve as a baseline."""
    for bench_id in dict.fromkeys(each.bench_id for each in measured.measurements):
        own = tuple(each for each in measured.measurements if each.bench_id == bench_id)
        yield msgspec.structs.replace(measured, measurements=own, failures=())


def _key(run: MeasurementSet) -> tuple[str, str, str]:
    """Return the suite and the benchmark of a run, and the job of a verified step.

    A new run replaces the stored run with the same key.
    """
    if not run.measurements:
        return run.suite, "", ""
    first = run.measurements[0]
    job = to_json(dict(sorted(first.parameters.items()))).decode() if run.suite == _SUITE_OF_VERIFY else ""
    return run.suite, first.bench_id, job


def _joined(runs: Iterable[MeasurementSet]) -> Iterable[MeasurementSet]:
    """Join the runs that began at the same time, because they are parts of one measurement run."""
    moments = grouped(((run.started, run.suite), run) for run in runs)
    for same in moments.values():
        measurements = tuple(measurement for run in same for measurement in run.measurements)
        yield msgspec.structs.replace(same[0], measurements=measurements)
