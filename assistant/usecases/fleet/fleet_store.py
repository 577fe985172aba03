"""The history of a fleet in one SQLite file: medians of parts by run, and states of nodes and parts."""

import datetime
import os
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import platformdirs

from assistant.usecases.fleet.run_folder import Moment
from probes.base.errors import InputError, OutputError
from probes.base.record import Record
from probes.fleet.advancing import Advance, StateChange
from probes.fleet.comparing.limits import limit
from probes.fleet.comparing.past import Past
from probes.fleet.node_report import NodeReport, disputed_parts
from probes.fleet.states import PartState

_LAYOUT = 1
"""Version of the tables below, kept as the file's `user_version`; every change of a column increases it."""
_FIRST_TABLES = {"metrics", "states"}
"""Tables of layout 0. The present layout has more tables; files of layout 0 never contain states."""
_TABLES = f"""
PRAGMA user_version = {_LAYOUT};
CREATE TABLE IF NOT EXISTS metrics (
    run TEXT, at REAL, node TEXT, part_kind TEXT, part_id TEXT, slot TEXT, metric TEXT, unit TEXT,
    version TEXT, value REAL, larger_is_better INTEGER, quality TEXT,
    PRIMARY KEY (run, node, part_id, metric)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_part ON metrics (
    part_id, metric, version, at, quality, value, larger_is_better
);
CREATE INDEX IF NOT EXISTS by_node ON metrics (node, metric, at);
CREATE TABLE IF NOT EXISTS nodes (node TEXT PRIMARY KEY, at REAL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (subject TEXT PRIMARY KEY, state TEXT);
CREATE TABLE IF NOT EXISTS changes (
    number INTEGER PRIMARY KEY, subject TEXT, at REAL, run TEXT, after TEXT, change TEXT,
    UNIQUE (subject, at, after)
);
CREATE INDEX IF NOT EXISTS by_run ON changes (run);
"""


Row = TypeVar("Row", PartState, StateChange)


class Point(Record, kw_only=True):
    """One stored value of a part."""

    at: Moment
    node: str
    part_id: str
    slot: str
    metric: str
    unit: str
    value: Annotated[float, msgspec.Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
    version: str


class History(Record, kw_only=True):
    """The past of a node or a part; its JSON is the output of `rigtune fleet history --format json`."""

    schema_version: int = 1
    name: str
    points: tuple[Point, ...] = ()
    """Measurements by quantity and part, the oldest first."""
    state: PartState | None = None
    """State after all runs; None for a part that was never bad."""
    changes: tuple[StateChange, ...] = ()
    """Changes of the state, the oldest first."""


def default_store() -> Path:
    """Return the path of the user's store."""
    return platformdirs.user_state_path("rigtune") / "fleet.sqlite"


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Yield the store, which only its owner may read. Raises OutputError and InputError."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        connection = sqlite3.connect(path, timeout=30)
    except (OSError, sqlite3.Error) as error:
        raise OutputError(f"cannot open {path}: {error}", "choose another file with --store") from None
    try:
        with connection:  # one transaction: a killed run leaves the store as it was
            _prepare(connection, path)
            yield connection
    except sqlite3.DatabaseError as error:
        if "not a database" in str(error) or "malformed" in str(error):
            raise InputError(f"{path} is not a store of rigtune: {error}", "choose another file") from None
        raise OutputError(f"cannot write {path}: {error}", "free space, or choose another file") from None
    finally:
        connection.close()


def require_readable(path: Path) -> None:
    """Raise InputError for a file that is no store or has a damaged state, before nodes are asked.

    A store that cannot be written raises nothing, because the answers of the nodes are kept elsewhere.
    """
    with suppress(OutputError):
        states_in(path)


def _decoded(row: str, kind: type[Row], place: str) -> Row:
    """Return the record in a row. Raises InputError, which names `place`, for any other content."""
    try:
        return msgspec.json.decode(row, type=kind)
    except (msgspec.DecodeError, TypeError, RecursionError) as error:
        raise InputError(
            f"{place} is damaged: {error}", "delete this row with sqlite3, or choose another file: --store"
        ) from None


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables of a new file, and add those that layout 0 lacks; other files are only read.

    Raises InputError if the file has tables of another layout, before anything is written to it.
    """
    (layout,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and layout == _LAYOUT:
        return
    if tables and (layout, tables) != (0, _FIRST_TABLES):
        problem = f"{path} is a store of another version of rigtune: layout {layout} instead of {_LAYOUT}"
        raise InputError(problem, "choose another file with --store, or use the version that wrote this file")
    connection.execute("DROP INDEX IF EXISTS by_part")  # layout 0 had fewer columns in it
    connection.executescript(_TABLES)


def add_run(path: Path, run: str, at: datetime.datetime, reports: Sequence[NodeReport]) -> int:
    """Store the nodes of a run and its medians, and return the number of medians; a repetition adds none.

    Parts that several nodes report are left out, because one of these nodes states a wrong identity. Values
    older than the retention are removed.
    """
    disputed = disputed_parts(reports)
    rows = [
        (
            *(run, at.timestamp(), report.node, metric.part_kind, metric.part_id, metric.slot, metric.metric),
            *(metric.unit, metric.version, metric.median),
            *(int(metric.is_larger_better), metric.quality),
        )
        for report in reports
        for metric in report.metrics
        if metric.samples and metric.part_id not in disputed
    ]
    with opened(path) as store:
        before = store.total_changes
        store.executemany("INSERT OR IGNORE INTO metrics VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", rows)
        added = store.total_changes - before
        store.executemany(
            "INSERT INTO nodes VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = max(at, ?2)",
            [(report.node, at.timestamp()) for report in reports if report.verdict is not None],
        )
        oldest = (at.timestamp() - limit("retention_s"),)
        store.execute("DELETE FROM metrics WHERE at < ?", oldest)
        store.execute("DELETE FROM nodes WHERE at < ?", oldest)
    return added


def known_nodes(path: Path) -> frozenset[str]:
    """Return the nodes of the site that answered in any stored run."""
    with opened(path) as store:
        return frozenset(node for (node,) in store.execute("SELECT node FROM nodes"))


def past_before(path: Path, at: datetime.datetime, reports: Sequence[NodeReport]) -> Past:
    """Return the medians of earlier good runs of the same version, by metric and part.

    If smaller is better, the values are inverted. The newest `most_past_runs` runs of each part count, so
    that a year of history costs no more than a month. A part or a node that is not healthy is compared with
    its past before its first failure, because a part that stays slow must not become its own reference.
    """
    wanted = {
        (metric.part_id, metric.metric, metric.version): metric.part_id
        if metric.part_kind != "node"
        else report.node
        for report in reports
        for metric in report.metrics
    }
    if not (wanted and path.exists()):
        return {}
    past: dict[tuple[str, str], list[float]] = {}
    most = int(limit("most_past_runs"))
    with opened(path) as store:
        ends = {
            subject: min(at, state.bad_since)
            for subject, state in _states(store, path).items()
            if state.bad_since is not None
        }
        for (part_id, metric, version), subject in sorted(wanted.items()):  # in the order of the index
            end = ends.get(subject, at)
            rows = store.execute(
                "SELECT value, larger_is_better FROM metrics WHERE part_id = ? AND metric = ? AND at < ? "
                "AND version = ? AND quality = 'good' AND value > 0 ORDER BY at DESC LIMIT ?",
                (part_id, metric, end.timestamp(), version, most),
            ).fetchall()
            if rows:
                past[metric, part_id] = [value if is_larger else 1 / value for value, is_larger in rows][::-1]
    return past


def history(path: Path, name: str) -> History:
    """Return all values of a part (by its id) or of a node, and all changes of its state."""
    with opened(path) as store:
        rows = store.execute(
            "SELECT at, node, part_id, slot, metric, unit, value, version FROM metrics "
            "WHERE part_id = ? OR node = ? ORDER BY metric, part_id, at",
            (name, name),
        ).fetchall()
        changes = _changes(store, path, "subject", name)
        state = _states(store, path, name).get(name)
    fields = ("at", "node", "part_id", "slot", "metric", "unit", "value", "version")
    try:
        points = msgspec.convert([dict(zip(fields, row, strict=True)) for row in rows], tuple[Point, ...])
    except msgspec.ValidationError as error:
        raise InputError(f"{path} has a damaged measurement: {error}", "choose another file") from None
    return History(name=name, points=points, state=state, changes=changes)


def states_in(path: Path) -> dict[str, PartState]:
    """Return the states of nodes and parts by subject. Raises InputError and OutputError."""
    if not path.exists():
        return {}
    with opened(path) as store:
        return _states(store, path)


def _states(store: sqlite3.Connection, path: Path, only: str | None = None) -> dict[str, PartState]:
    """Return the states of all subjects, or of one of them. Raises InputError."""
    rows = store.execute("SELECT subject, state FROM states WHERE ?1 IS NULL OR subject = ?1", (only,))
    return {
        subject: _decoded(state, PartState, f"{path}: the state of {subject!r} (table states)")
        for subject, state in rows.fetchall()
    }


def update_states(
    path: Path, run: str, step: Callable[[dict[str, PartState]], Advance]
) -> tuple[dict[str, PartState], tuple[StateChange, ...]]:
    """Apply `step` to all states in one transaction; return the states, and all stored changes of the run.

    If two heads do this at once, neither loses the other's changes.
    """
    with opened(path) as store:
        store.execute("BEGIN IMMEDIATE")
        states = _states(store, path)
        new = step(states)
        store.executemany(
            "INSERT OR REPLACE INTO states VALUES (?, ?)",
            [(subject, msgspec.json.encode(state).decode()) for subject, state in new.states.items()],
        )
        store.executemany(
            "INSERT OR IGNORE INTO changes (subject, at, run, after, change) VALUES (?, ?, ?, ?, ?)",
            [
                (each.subject, each.at.timestamp(), each.run, each.after, msgspec.json.encode(each).decode())
                for each in new.changes
            ],
        )
        return {**states, **new.states}, _changes(store, path, "run", run)


def _changes(
    store: sqlite3.Connection, path: Path, column: Literal["run", "subject"], value: str
) -> tuple[StateChange, ...]:
    """Return the stored changes of a run or a subject, the oldest first. Raises InputError."""
    rows = store.execute(
        f"SELECT number, change FROM changes WHERE {column} = ? ORDER BY number",  # noqa: S608 - a literal
        (value,),
    )
    return tuple(
        _decoded(change, StateChange, f"{path}: change {number} (table changes)") for number, change in rows
    )
