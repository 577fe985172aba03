"""Write launch files from a recipe, and files for provisioning."""

from __future__ import annotations

import difflib
import hashlib
import shlex
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from assistant.storage import read_bytes, write_files
from assistant.usecases.events import Event, StageFinished, StageStarted, Written
from probes.base.errors import InputError, OutputError, UsageError
from probes.base.record import Record, to_json
from probes.base.table_rows import Row
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.recipe_file import load_recipe

MANIFEST = ".rigtune-export.json"


class ChangedFileError(OutputError):
    """The folder contains a file of that name that a person wrote or changed."""


class Manifest(Record, kw_only=True):
    """The files that rigtune wrote into an export folder.

    A later export detects from it what a person has changed since.
    """

    schema_version: int = 1
    sha256: dict[str, tuple[str, ...]] = {}
    """SHA-256 of the last two versions of each file, by path relative to the folder.

    An export that is killed halfway leaves one of the two.
    """


def find_launcher(launcher_id: str) -> Row:
    """Return the row of a launcher. Raises UsageError with the nearest id."""
    ids = [row.id for row in LAUNCHERS]
    for row in LAUNCHERS:
        if row.id == launcher_id:
            return row
    near = difflib.get_close_matches(launcher_id.lower(), ids, n=1, cutoff=0.5)
    suggestion = f"did you mean {near[0]}? " if near else ""
    raise UsageError(f"there is no launcher {launcher_id[:80]!r}", f"{suggestion}launchers: {', '.join(ids)}")


def how_to_start(recipe: Recipe, launcher_id: str, directory: str) -> str:
    """Return the shell command that starts the files in `directory`.

    If one command is not enough, return an instruction instead.
    """
    try:
        command: tuple[str, ...] = find_launcher(launcher_id).load().start(recipe, directory, ())
    except UsageError as error:
        return error.hint
    return shlex.join(command).removesuffix(" --")


def export_recipe(
    recipe: Recipe, launchers: tuple[str, ...], directory: Path, *, overwrite: bool = False
) -> Iterator[Event]:
    """Write the files of each launcher into `directory`; the last result is the tuple of their paths.

    Files of an earlier export are replaced. Raises UsageError for an unknown launcher or a contradictory
    recipe, and OutputError if the folder cannot be written. Without `overwrite`, a file that a person wrote
    or changed raises ChangedFileError, and nothing is written.
    """
    started = time.monotonic()
    yield StageStarted(stage="export", title=f"Writing launch files to {directory}")
    if not launchers:
        raise UsageError("no launcher is named", f"launchers: {', '.join(row.id for row in LAUNCHERS)}")
    rendered = [find_launcher(launcher_id).load().render(recipe) for launcher_id in launchers]
    artifacts = {artifact.path: artifact for group in rendered for artifact in group}
    kept = {path for path in artifacts if _same_recipe(directory / path, recipe)}
    yield from _write(directory, artifacts, kept, what="launch script", overwrite=overwrite)
    paths = tuple(directory / path for path in artifacts)
    yield StageFinished(stage="export", result=paths, duration_s=time.monotonic() - started)


def export_provision(
    kind: str, options: ProvisionOptions, directory: Path, *, overwrite: bool = False
) -> Iterator[Event]:
    """Write the files of one kind of provisioning; the last event's result is the tuple of their paths.

    The kinds are in `recipes/launch/provision.py`. Raises UsageError for an unknown kind or options that no
    node can follow, otherwise the errors of `export_recipe`.
    """
    started = time.monotonic()
    row = find_provision(kind)
    yield StageStarted(stage="export", title=f"{row.title}: writing to {directory}")
    artifacts = {artifact.path: artifact for artifact in render_provision(row, options)}
    yield from _write(directory, artifacts, set(), what=row.id, overwrite=overwrite)
    paths = tuple(directory / path for path in artifacts)
    yield StageFinished(stage="export", result=paths, duration_s=time.monotonic() - started)


def _write(
    directory: Path, artifacts: dict[str, Artifact], kept: set[str], *, what: str, overwrite: bool
) -> Iterator[Event]:
    """Write `artifacts` except `kept`; without `overwrite`, refuse if a person changed one of them."""
    manifest = _read_manifest(directory)
    if not overwrite:
        _refuse_foreign(
            directory, (artifact for path, artifact in artifacts.items() if path not in kept), manifest
        )
    # The manifest gets its name first: after a kill, a later export still knows which files are its own.
    new = [artifact for path, artifact in artifacts.items() if path not in kept]
    write_files(directory, [_manifest_file(manifest, artifacts.values()), *new])
    for path in artifacts:
        if "/" not in path and path not in kept:
            yield Written(path=str(directory / path), what=_WHAT.get(path, what))


_WHAT = {"recipe.toml": "recipe", "workload.json": "configuration of the reference program"}


def _same_recipe(path: Path, recipe: Recipe) -> bool:
    """Return whether `path` is a recipe file with the same content.

    Its layout may differ, and a person may have added comments.
    """
    if path.name != "recipe.toml" or not path.exists():
        return False
    try:
        return load_recipe(read_bytes(path).decode(), str(path)) == recipe
    except (InputError, UnicodeDecodeError):
        return False


def _read_manifest(directory: Path) -> Manifest:
    try:
        return msgspec.json.decode((directory / MANIFEST).read_bytes(), type=Manifest)
    except (OSError, msgspec.MsgspecError):
        return Manifest()


def _manifest_file(manifest: Manifest, artifacts: Iterable[Artifact]) -> Artifact:
    known = dict(manifest.sha256)
    for artifact in artifacts:
        earlier = known.get(artifact.path, ())[-1:]
        known[artifact.path] = tuple(dict.fromkeys((*earlier, _digest(artifact.text.encode()))))
    return Artifact(path=MANIFEST, text=to_json(Manifest(sha256=known)).decode())


def _refuse_foreign(directory: Path, artifacts: Iterable[Artifact], manifest: Manifest) -> None:
    for artifact in artifacts:
        path = directory / artifact.path
        if not path.is_file():
            continue
        ours = (_digest(artifact.text.encode()), *manifest.sha256.get(artifact.path, ()))
        if _digest(read_bytes(path)) not in ours:
            problem = f"{path} exists and is not as rigtune wrote it"
            raise ChangedFileError(
                problem,
                "move it away, choose another folder, or replace it with `rigtune export --overwrite`",
            )


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
