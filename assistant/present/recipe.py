"""The recipe page: the exact files of each launcher."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from rich.console import Group, RenderableType
from rich.syntax import Syntax
from rich.text import Text

from assistant.present.text import DIM, GOOD, STRONG, Panel, clean, clean_block, joined
from assistant.usecases.export import how_to_start
from probes.base.record import Record
from probes.base.units import plural
from probes.facts import MachineFacts
from recipes.launch.recipe import Artifact, Recipe

_LEXERS = {
    ".sh": "bash",
    ".sbatch": "bash",
    ".py": "python",
    ".toml": "toml",
    ".yaml": "yaml",
    ".json": "json",
}


class LauncherFiles(Record, frozen=True, kw_only=True):
    """What one launcher makes of the recipe; the first artifact is the one to start."""

    launcher: str
    title: str
    artifacts: tuple[Artifact, ...]


class Prepared(Record, frozen=True, kw_only=True):
    """A resolved recipe with the files of every launcher, for the preview."""

    recipe: Recipe
    launchers: tuple[LauncherFiles, ...]


def tabs(prepared: Prepared, current: int) -> Text:
    """The launchers side by side, the shown one marked by brackets and weight."""
    parts = [
        Text(f"[{clean(entry.launcher)}]", style=STRONG)
        if index == current
        else Text(f" {clean(entry.launcher)} ", style=DIM)
        for index, entry in enumerate(prepared.launchers)
    ]
    return Text(" ").join(parts).append(f"   {clean(prepared.launchers[current].title)}", style=DIM)


def scripts(files: LauncherFiles) -> RenderableType:
    """The exact text of the files, the one to start first. Packages that come along are listed elsewhere."""
    first, *others = _top_files(files)
    parts: list[RenderableType] = [_source(first)]
    for artifact in others:
        parts += [Text(f"\n{clean(artifact.path)}", style=STRONG), _source(artifact)]
    return Group(*parts)


def _top_files(files: LauncherFiles) -> tuple[Artifact, ...]:
    return tuple(artifact for artifact in files.artifacts if "/" not in artifact.path)


def file_names(files: LauncherFiles) -> Text:
    """What an export writes: the files, and how many more lie in folders of their own."""
    top = _top_files(files)
    folders: dict[str, int] = {}
    for artifact in files.artifacts:
        if "/" in artifact.path:
            folder = artifact.path.split("/", 1)[0]
            folders[folder] = folders.get(folder, 0) + 1
    names = [clean(artifact.path) for artifact in top] + [
        f"{clean(name)}/ ({plural(number, 'file')})" for name, number in folders.items()
    ]
    return Text("  ".join(names), style=DIM)


def overwrite_words(*, overwrite: bool) -> Text:
    """What happens to files of the same name that somebody changed."""
    answer = "are replaced" if overwrite else "are kept, and nothing is written"
    return Text.assemble(("ctrl+o  ", STRONG), ("files of that name that were changed by hand ", DIM), answer)


def _source(artifact: Artifact) -> RenderableType:
    text = clean_block(artifact.text)
    lexer = _LEXERS.get(PurePosixPath(artifact.path).suffix)
    if lexer is None:
        return Text(text)
    return Syntax(text, lexer, theme="ansi_dark", background_color="default", word_wrap=True)


def destination(files: LauncherFiles, directory: str) -> Panel:
    """Where `e` will write and what."""
    return Panel("Destination", joined(Text(clean(directory)), file_names(files)))


def written(files: LauncherFiles, recipe: Recipe, paths: Sequence[str]) -> Panel:
    """Every file of this launcher that was written, and how to start."""
    lines = [Text(f"✓ {clean(path)}", style=GOOD) for path in paths]
    return Panel(
        "Written",
        joined(
            *lines, Text.assemble(("start it:  ", DIM), (start_words(files.launcher, recipe, paths), STRONG))
        ),
    )


def start_words(launcher: str, recipe: Recipe, paths: Sequence[str]) -> str:
    """How to start what was written to `paths`."""
    return clean(how_to_start(recipe, launcher, str(PurePosixPath(paths[0]).parent)))


def waiting(facts: MachineFacts | None, *, has_failed: bool) -> Text:
    """The page without a recipe."""
    if has_failed:
        return Text.assemble(
            ("No recipe.", STRONG), "  5 Plan tells what is in the way; w there changes the workload."
        )
    if facts is None:
        return Text.assemble(
            ("No recipe yet.", STRONG),
            "  The machine is still being read; plan and recipe follow by themselves.",
        )
    return Text("Writing the recipe …", style=STRONG)
