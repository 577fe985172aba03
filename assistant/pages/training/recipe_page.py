"""Show a recipe: the exact files of each launcher, and a short run compared with its prediction."""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath

from assistant.pages.blocks import (
    Block,
    Column,
    Page,
    Row,
    Section,
    Source,
    Table,
    Words,
    section,
    words,
)
from assistant.usecases.export import how_to_start
from probes.base.record import Record
from probes.base.units import duration, gib, percent, plural
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.verification import Comparison, Verification

_LANGUAGES = {
    ".sh": "bash",
    ".sbatch": "bash",
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".json": "json",
}


class LauncherFiles(Record, frozen=True, kw_only=True):
    """The files of one launcher; the first artifact is the file that starts the job."""

    launcher: str
    title: str
    artifacts: tuple[Artifact, ...]


class Prepared(Record, frozen=True, kw_only=True):
    """A resolved recipe with the files of every launcher, for the preview."""

    recipe: Recipe
    launchers: tuple[LauncherFiles, ...]


def tabs(prepared: Prepared, current: int) -> Words:
    """Return the launchers in one line; the launcher that is shown is bold and in brackets."""
    names = [
        (f"[{entry.launcher}] ", "strong") if index == current else (f" {entry.launcher}  ", "dim")
        for index, entry in enumerate(prepared.launchers)
    ]
    return words(*names, (f"  {prepared.launchers[current].title}", "dim"))  # type: ignore[arg-type]


def scripts(files: LauncherFiles) -> Section:
    """Return the exact text of the files, beginning with the file to start, without files in subfolders."""
    blocks: list[Block] = []
    for artifact in _top_files(files):
        blocks += [Row(), Row(words((artifact.path, "strong")))] * bool(blocks)
        blocks.append(Source(artifact.text, _LANGUAGES.get(PurePosixPath(artifact.path).suffix, "")))
    return Section("", tuple(blocks))


def _top_files(files: LauncherFiles) -> tuple[Artifact, ...]:
    return tuple(artifact for artifact in files.artifacts if "/" not in artifact.path)


def file_names(files: LauncherFiles) -> Words:
    """Return the files that an export writes, and the number of files in subfolders."""
    folders = Counter(artifact.path.split("/", 1)[0] for artifact in files.artifacts if "/" in artifact.path)
    names = [artifact.path for artifact in _top_files(files)]
    names += [f"{name}/ ({plural(number, 'file')})" for name, number in folders.items()]
    return words(("  ".join(names), "dim"))


def overwrite_words(*, overwrite: bool) -> Words:
    """Return what happens to files of the same name that a person changed."""
    return words(
        ("ctrl+o  ", "strong"),
        ("files of that name that were changed by hand ", "dim"),
        "are replaced" if overwrite else "are kept, and nothing is written",
    )


def destination(files: LauncherFiles, directory: str) -> Section:
    """Return the files that the key `e` writes, and their folder."""
    return section("Destination", [directory, file_names(files)])


def written(files: LauncherFiles, recipe: Recipe, paths: Sequence[str]) -> Section:
    """Return every file of this launcher that was written, and how to start the job."""
    start = words(("start it:  ", "dim"), (start_words(files.launcher, recipe, paths), "strong"))
    return section("Written", [*(words((f"✓ {path}", "good")) for path in paths), start])


def start_words(launcher: str, recipe: Recipe, paths: Sequence[str]) -> str:
    """Return the command or instruction that starts the files in `paths`."""
    return how_to_start(recipe, launcher, str(PurePosixPath(paths[0]).parent))


def verify_page(result: Verification) -> Page:
    """Return the run, the comparisons of time and memory, the change of the loss, and the path of the log."""
    ran = (
        f"{result.name}: {result.steps} steps on world size {result.world_size}, "
        f"{result.backend}, {result.device_name}"
    )
    headings = ("", "predicted", "measured", "error", "within its interval")
    memory = {
        "allocated per rank": result.peak_memory_bytes,
        "reserved per rank": result.reserved_memory_bytes,
        "worst case per rank": result.worst_memory_bytes,
    }
    rows = (
        ("step time", *_cells(result.step_time_s, duration)),
        *((name, *_cells(row, gib)) for name, row in memory.items() if row is not None),
    )
    lines = [
        f"loss {result.loss_first:.3f} -> {result.loss_last:.3f}",
        *(f"! {note}" for note in result.notes),
        *[f"log {result.log}"] * bool(result.log),
    ]
    return (
        section("", [ran]),
        Section("", (Table(tuple(map(Column, headings)), rows, tone="strong"),)),
        section("", lines),
    )


def _cells(row: Comparison, spelled: Callable[[float], str]) -> tuple[str, str, str, str]:
    predicted = spelled(row.predicted) if row.predicted is not None else "not predicted"
    error = (
        f"{'+' if row.relative_error > 0 else ''}{percent(row.relative_error)}"
        if row.relative_error is not None
        else ""
    )
    return predicted, spelled(row.measured), error, {None: "", True: "yes", False: "no"}[row.within_range]
