"""Write launch files from a recipe, start them, and write files for provisioning."""

import hashlib
import shlex
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

import msgspec

from assistant.storage import read_bytes, write_files
from assistant.usecases.events import Event, Progress, Remarked, StageStarted, Written, result_of, stage
from assistant.usecases.own_program import warned_recipe
from probes.base.errors import InputError, OutputError, UsageError
from probes.base.record import Record, from_json, to_json, value_or
from probes.facts import MachineFacts
from recipes.launch.edited import refreshed
from recipes.launch.launch_files import asks_address, find_launcher, first_launcher, form_for, launch
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.plan_json import PLAN_FILE
from recipes.launch.program_limits import require_runnable
from recipes.launch.provision import ProvisionOptions, find_provision, render_provision
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.recipe_file import is_edited, load_recipe
from recipes.launch.reference_files import HELPER, helper_file
from recipes.launch.script_parts import PREFLIGHT, first_sentence

MANIFEST = ".rigtune-export.json"


class ChangedFileError(OutputError):
    """The folder contains a file of the same name that a person wrote or changed."""


class StartCommand(Record, kw_only=True):
    """Command that starts the files of one launcher."""

    launcher: str
    command: str
    """Shell command, or an instruction if one command is not enough."""


class Startable(Event, kw_only=True):
    """The files of a launcher are complete."""

    start: StartCommand


class Exported(Record, kw_only=True):
    """An export as JSON."""

    schema_version: int = 1
    files: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """Warnings, and remarks on what the program does differently from the plan."""
    starts: tuple[StartCommand, ...] = ()


class Manifest(Record, kw_only=True):
    """The files that rigtune wrote into an export folder.

    From this list, a later export detects which files a person has changed since then.
    """

    schema_version: int = 1
    sha256: dict[str, tuple[str, ...]] = {}
    """SHA-256 of the last two versions of each file, by path relative to the folder.

    An export that is killed halfway leaves one of the two versions.
    """


def how_to_start(recipe: Recipe, launcher_id: str, directory: str) -> str:
    """Return the shell command that starts the files in `directory`.

    If one command is not enough, return an instruction instead.
    """
    # a path that begins with a dash would be an option
    folder = f"./{directory}" if directory.startswith("-") else directory
    address = "MASTER_ADDR=ADDRESS " if asks_address(recipe, launcher_id) else ""
    try:
        command = shlex.join(find_launcher(launcher_id).load().start(recipe, folder, ()))
    except UsageError as error:
        return error.hint
    return f"{address}{command.removesuffix(' --')}"


def how_to_export(recipe: Recipe, file: Path, batch_system: str) -> str:
    """Return the shell command that exports the recipe in `file` with a launcher of this site.

    `--to` is left out for the default launcher, and if no launcher can start the recipe.
    """
    launcher_id = first_launcher(recipe, batch_system)
    option = "" if launcher_id in ("", LAUNCHERS[0].id) else f" --to {launcher_id}"
    return f"rigtune export {shlex.quote(str(file))}{option}"


def batch_system_of(facts: MachineFacts) -> str:
    """Return the batch system of the machine in the words of `Scheduler.kind`; empty if there is none."""
    scheduler = facts.scheduler
    has_slurm = bool(value_or(scheduler.settings, ()))  # only its files show Slurm outside a job
    return value_or(scheduler.kind, None) or ("slurm" if has_slurm else "")


@stage("export")
def export_recipe(
    recipe: Recipe,
    launchers: tuple[str, ...],
    directory: Path,
    *,
    overwrite: bool = False,
    with_helper: bool = False,
) -> Generator[Event, None, tuple[Path, ...]]:
    """Write the files of each launcher into `directory`; the last event's result is the tuple of their paths.

    `with_helper` adds the file with which the user's torch program applies the plan. Without `with_helper`,
    the helper of an earlier export stays, with the user's changes.

    The prediction is made again for the recipe's present settings, and decisions that a person changed are
    marked. Files of an earlier export are replaced. Raises UsageError for an unknown launcher or a
    contradictory recipe, and OutputError if the folder cannot be written. Without `overwrite`, a file that a
    person wrote or changed causes a ChangedFileError, and nothing is written.
    """
    yield StageStarted(stage="export", title=f"Writing launch files to {directory}")
    if not launchers:
        raise UsageError("no launcher is named", f"launchers: {', '.join(row.id for row in LAUNCHERS)}")
    for launcher_id in launchers:
        find_launcher(launcher_id)
    require_runnable(recipe)
    before, recipe = recipe.decisions, warned_recipe(refreshed(recipe))
    for chosen in recipe.decisions:
        if chosen.basis == "user" and chosen not in before:
            yield Progress(stage="export", message=chosen.sentence)
    helper = helper_file() if with_helper else _present_helper(directory)
    launches = [launch(recipe, launcher_id, helper) for launcher_id in launchers]
    artifacts = {artifact.path: artifact for each in launches for artifact in each.artifacts}
    kept = {path for path in artifacts if _same_recipe(directory / path, recipe)}
    yield from _write(directory, artifacts, kept, overwrite=overwrite)
    for remark in dict.fromkeys(remark for each in launches for remark in each.remarks):
        yield Remarked(text=remark if remark.startswith("Warning:") else first_sentence(remark))
    for launcher_id in launchers:
        command = how_to_start(recipe, launcher_id, str(directory))
        yield Startable(start=StartCommand(launcher=launcher_id, command=command))
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
    """Export into `directory` and run the job in the foreground; the last event's result is its exit code.

    `arguments` are passed to the program. A scheduler's launcher submits the job and returns at once. Raises
    the errors of `export_recipe`, UsageError if the launcher cannot start this recipe on this machine, and
    WorkerError if the start fails.
    """
    from assistant.processes.foreground import run_in_foreground  # noqa: PLC0415 - most exports start nothing

    row = find_launcher(launcher)
    require_runnable(recipe)
    form_for(row, recipe)  # if it raises, the error names launchers that can start it
    command: tuple[str, ...] = row.load().start(recipe, str(directory.absolute()), arguments)
    yield from result_of(export_recipe(recipe, (launcher,), directory))
    yield StageStarted(stage="run", title=f"Starting {recipe.name} with {row.id}")
    yield Progress(stage="run", message=shlex.join(command))
    return run_in_foreground(command)


def _write(
    directory: Path, artifacts: dict[str, Artifact], kept: set[str], *, what: str = "", overwrite: bool
) -> Iterator[Event]:
    """Write `artifacts` except `kept`; without `overwrite`, refuse if a person changed such a file.

    `what` names all of them; if it is empty, each file of a launch is named by its purpose.
    """
    manifest = _read_manifest(directory)
    if not overwrite:
        _refuse_foreign(
            directory, (artifact for path, artifact in artifacts.items() if path not in kept), manifest
        )
    # The manifest is written first: if this export is killed, a later export still detects rigtune's own
    # files.
    new = [artifact for path, artifact in artifacts.items() if path not in kept]
    write_files(directory, [_manifest_file(manifest, artifacts.values()), *new])
    for path, artifact in artifacts.items():
        if "/" not in path and path not in kept:
            yield Written(path=str(directory / path), what=what or _what(artifact))


_WHAT = {
    PREFLIGHT: "tests that run on each node before the job",
    "recipe.toml": "recipe",
    "workload.json": "configuration of the reference program",
    PLAN_FILE: "plan for the program, which RIGTUNE_RECIPE names",
    HELPER: "module that your program can import",
}


def _what(artifact: Artifact) -> str:
    """Return the purpose of a file of a launch."""
    is_script = artifact.text.startswith("#!")
    return _WHAT.get(artifact.path) or ("launch script" if is_script else "file that the launch needs")


def _present_helper(directory: Path) -> Artifact | None:
    path = directory / HELPER
    return Artifact(path=HELPER, text=read_bytes(path).decode()) if path.is_file() else None


def _same_recipe(path: Path, recipe: Recipe) -> bool:
    """Return whether `path` is a recipe file with the same content.

    The layout of the file may differ, and a person may have added comments.
    """
    if path.name != "recipe.toml" or not path.exists():
        return False
    try:
        return warned_recipe(refreshed(load_recipe(read_bytes(path).decode(), str(path)))) == recipe
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
