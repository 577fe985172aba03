"""Write launch files from a recipe, start them, and write files for provisioning."""

import hashlib
import shlex
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import msgspec

from assistant.storage import read_bytes, write_files
from assistant.usecases.events import Event, Progress, StageStarted, Written, result_of, stage
from probes.base.errors import InputError, OutputError, UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import Record, from_json, to_json
from probes.base.table_rows import Row
from recipes.launch.edited import refreshed
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.program_files import require_runnable
from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.recipe_file import is_edited, load_recipe
from recipes.planning.reasons import MEMORY_WARNING

MANIFEST = ".rigtune-export.json"


class ChangedFileError(OutputError):
    """The folder contains a file of the same name that a person wrote or changed."""


class Manifest(Record, kw_only=True):
    """The files that rigtune wrote into an export folder.

    From this list, a later export detects which files a person has changed since then.
    """

    schema_version: int = 1
    sha256: dict[str, tuple[str, ...]] = {}
    """SHA-256 of the last two versions of each file, by path relative to the folder.

    An export that is killed halfway leaves one of the two versions.
    """


def find_launcher(launcher_id: str) -> Row:
    """Return the row of a launcher. Raises UsageError with the nearest id."""
    rows = {row.id: row for row in LAUNCHERS}
    if launcher_id in rows:
        return rows[launcher_id]
    raise UsageError(
        f"there is no launcher {launcher_id[:80]!r}",
        did_you_mean(launcher_id, rows, f"launchers: {', '.join(rows)}"),
    )


def how_to_start(recipe: Recipe, launcher_id: str, directory: str) -> str:
    """Return the shell command that starts the files in `directory`.

    If one command is not enough, return an instruction instead.
    """
    try:
        return shlex.join(find_launcher(launcher_id).load().start(recipe, directory, ())).removesuffix(" --")
    except UsageError as error:
        return error.hint


@stage("export")
def export_recipe(
    recipe: Recipe, launchers: tuple[str, ...], directory: Path, *, overwrite: bool = False
) -> Generator[Event, None, tuple[Path, ...]]:
    """Write the files of each launcher into `directory`; the last result is the tuple of their paths.

    The prediction is made again for the recipe's present settings, and decisions that a person changed are
    marked. Files of an earlier export are replaced. Raises UsageError for an unknown launcher or a
    contradictory recipe, and OutputError if the folder cannot be written. Without `overwrite`, a file that a
    person wrote or changed causes a ChangedFileError, and nothing is written.
    """
    yield StageStarted(stage="export", title=f"Writing launch files to {directory}")
    if not launchers:
        raise UsageError("no launcher is named", f"launchers: {', '.join(row.id for row in LAUNCHERS)}")
    rows = [find_launcher(launcher_id) for launcher_id in launchers]
    require_runnable(recipe)
    recipe = refreshed(recipe)
    for chosen in recipe.decisions:
        if chosen.basis == "user":
            yield Progress(stage="export", message=chosen.sentence)
    for note in recipe.notes:
        if MEMORY_WARNING in note:
            yield Progress(stage="export", message=note)
    rendered = [row.load().render(recipe) for row in rows]
    artifacts = {artifact.path: artifact for group in rendered for artifact in group}
    kept = {path for path in artifacts if _same_recipe(directory / path, recipe)}
    yield from _write(directory, artifacts, kept, what="launch script", overwrite=overwrite)
    return tuple(directory / path for path in artifacts)


@stage("export")
def export_provision(
    kind: str, options: ProvisionOptions, directory: Path, *, overwrite: bool = False
) -> Generator[Event, None, tuple[Path, ...]]:
    """Write the files of one kind of provisioning; the last event's result is the tuple of their paths.

    The kinds are in `recipes/launch/provision.py`. Raises UsageError for an unknown kind or for options that
    cannot apply to a node, and the errors of `export_recipe`.
    """
    row = find_provision(kind)
    yield StageStarted(stage="export", title=f"{row.title}: writing to {directory}")
    artifacts = {artifact.path: artifact for artifact in render_provision(row, options)}
    yield from _write(directory, artifacts, set(), what=row.id, overwrite=overwrite)
    return tuple(directory / path for path in artifacts)


@stage("run")
def run_recipe(
    recipe: Recipe, *, launcher: str = "torchrun", directory: Path, arguments: tuple[str, ...] = ()
) -> Generator[Event, None, int]:
    """Export into `directory` and run the job in the foreground; the last result is its exit code.

    `arguments` are passed to the program. A scheduler's launcher submits the job and returns at once. Raises
    the errors of `export_recipe`, UsageError if the launcher cannot start this recipe on this machine, and
    WorkerError if the start fails.
    """
    from assistant.processes.foreground import run_in_foreground  # noqa: PLC0415 - most exports start nothing

    row = find_launcher(launcher)
    command: tuple[str, ...] = row.load().start(recipe, str(directory.absolute()), arguments)
    yield from result_of(export_recipe(recipe, (launcher,), directory))
    yield StageStarted(stage="run", title=f"Starting {recipe.name} with {row.id}")
    yield Progress(stage="run", message=shlex.join(command))
    return run_in_foreground(command)


def _write(
    directory: Path, artifacts: dict[str, Artifact], kept: set[str], *, what: str, overwrite: bool
) -> Iterator[Event]:
    """Write `artifacts` except `kept`; without `overwrite`, refuse if a person changed such a file."""
    manifest = _read_manifest(directory)
    if not overwrite:
        _refuse_foreign(
            directory, (artifact for path, artifact in artifacts.items() if path not in kept), manifest
        )
    # The manifest is written first: if this export is killed, a later export still detects rigtune's own
    # files.
    new = [artifact for path, artifact in artifacts.items() if path not in kept]
    write_files(directory, [_manifest_file(manifest, artifacts.values()), *new])
    for path in artifacts:
        if "/" not in path and path not in kept:
            yield Written(path=str(directory / path), what=_WHAT.get(path, what))


_WHAT = {"recipe.toml": "recipe", "workload.json": "configuration of the reference program"}


def _same_recipe(path: Path, recipe: Recipe) -> bool:
    """Return whether `path` is a recipe file with the same content.

    The layout of the file may differ, and a person may have added comments.
    """
    if path.name != "recipe.toml" or not path.exists():
        return False
    try:
        return refreshed(load_recipe(read_bytes(path).decode(), str(path))) == recipe
    except (InputError, UsageError, UnicodeDecodeError):
        return False


def _read_manifest(directory: Path) -> Manifest:
    try:
        return from_json((directory / MANIFEST).read_bytes(), Manifest)
    except (OSError, msgspec.DecodeError):
        return Manifest()


def _manifest_file(manifest: Manifest, artifacts: Iterable[Artifact]) -> Artifact:
    known = dict(manifest.sha256)
    for artifact in artifacts:
        versions = (*known.get(artifact.path, ())[-1:], _digest(artifact.text.encode()))
        known[artifact.path] = tuple(dict.fromkeys(versions))
    return Artifact(path=MANIFEST, text=to_json(Manifest(sha256=known)).decode())


def _refuse_foreign(directory: Path, artifacts: Iterable[Artifact], manifest: Manifest) -> None:
    for artifact in artifacts:
        path = directory / artifact.path
        if not path.is_file():
            continue
        ours = (_digest(artifact.text.encode()), *manifest.sha256.get(artifact.path, ()))
        if _digest(read_bytes(path)) not in ours:
            raise ChangedFileError(
                f"{path} exists and is not as rigtune wrote it",
                "move it away, choose another folder, or replace it with `rigtune export --overwrite`",
            )


def refuse_edited_recipe(path: Path, command: str) -> None:
    """Raise ChangedFileError if `path` is a file that rigtune did not write, or that a person has edited."""
    if path.is_file() and is_edited(read_bytes(path).decode("utf-8", "surrogateescape")):
        raise ChangedFileError(
            f"{path} exists and is not as rigtune wrote it",
            f"move it away, choose another name, or replace it with `{command} --overwrite`",
        )


def refuse_edited_export(directory: Path, command: str) -> None:
    """Raise ChangedFileError if a person has edited a file that an earlier export wrote to `directory`."""
    for name, written in _read_manifest(directory).sha256.items():
        path = directory / name
        if path.is_file() and _digest(read_bytes(path)) not in written:
            raise ChangedFileError(
                f"{path} is not as rigtune wrote it",
                f"move it away, choose another folder, or replace it with `{command} --overwrite`",
            )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
