"""Show a recipe: the exact files of each launcher."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath

from assistant.pages.blocks import (
    Block,
    Row,
    Section,
    Source,
    Words,
    section,
    words,
)
from assistant.usecases.export import how_to_start
from probes.base.record import Record
from probes.base.units import plural
from recipes.launch.recipe import Artifact, Recipe

_LANGUAGES = {
    ".sh": "bash",
    ".sbatch": "bash",
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".json": "json",
}


_TABS = 4
"""Largest number of launchers that are named; more do not fit into 80 columns."""


class LauncherFiles(Record, frozen=True, kw_only=True):
    """The files of one launcher; the first artifact is the file that starts the job."""

    launcher: str
    title: str
    artifacts: tuple[Artifact, ...] = ()
    problem: str = ""
    """Reason why the launcher cannot start the recipe; then there are no files."""


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
    first = max(0, min(current - 1, len(names) - _TABS))
    more = len(names) - first - _TABS
    return words(
        *([("< ", "dim")] * (first > 0)),  # type: ignore[arg-type]
        *names[first : first + _TABS],  # type: ignore[arg-type]
        *([(f"> {more} more", "dim")] * (more > 0)),  # type: ignore[arg-type]
        (f"  {prepared.launchers[current].title}", "dim"),
    )


def scripts(files: LauncherFiles) -> Section:
    """Return the exact text of the files, beginning with the file to start, without files in subfolders."""
    blocks: list[Block] = [Row(words((files.problem, "caution")))] * bool(files.problem)
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
