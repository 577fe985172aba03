"""The statements, variables and kept parts of the files of one launch."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec

from probes.base.units import plural
from recipes.launch.imports.adopted import IMPORT_OPTIONS, Missing, Statement
from recipes.launch.imports.chains import Chain
from recipes.launch.imports.spelled_settings import Meaning, is_of_launcher, leaves_open, plain
from recipes.launch.recipe import Environment, Kept
from recipes.lint.document import Place
from recipes.planning.programs import OWN

NOT_UNDERSTOOD = "not understood"
BY_LAUNCHER = "set by the launcher that rigtune writes"
IN_THE_RUN = "its value is known only when the job runs"
LITERAL = "the recipe has the text of this argument: its value is known only when the job runs"
WITHHELD = "a secret is not copied into a recipe, which refers to a variable"
FILLED = "filled in with the value that the script gives it"
LEFT_OPEN = "leaves the setting to the program's other settings"
READ_TOO = "the file was read too"
AGREES, REPLACED = "states the same as", "replaced by"
_HARMLESS = (BY_LAUNCHER, FILLED, WITHHELD, LEFT_OPEN, READ_TOO, AGREES, REPLACED)
"""Beginnings of reasons; an export need not write a part that was kept for such a reason."""


_DEGREES = ("dp", "fsdp", "tp", "pp", "cp", "ep", "vp")


class Spelled(NamedTuple):
    """A setting as its file spells it."""

    owner: str
    name: str
    value: str
    written: str


class Collected(msgspec.Struct, kw_only=True):
    """All statements, variables and kept parts of the files."""

    chain: Chain | None = None
    program: str = OWN
    statements: list[Statement] = []
    unnamed: list[Statement] = []
    """Options of a user's own program whose names no table explains; their settings are blank."""
    unresolved: list[Statement] = []
    """Settings whose value is known only when the job runs, as the files write them."""
    environment: list[Environment] = []
    filled: dict[str, str] = {}
    """Arguments of the recipe by their text in the files.

    Variables are replaced by their values, and secrets by references to variables.
    """
    kept: list[Kept] = []
    named_files: list[tuple[str, str]] = []
    """Names of files that belong to the launch, each with the place that states the name."""

    @property
    def launchers(self) -> tuple[str, ...]:
        return () if self.chain is None else self.chain.launchers

    def undecided(self, stated: Collection[str]) -> dict[str, Missing]:
        """Return, by name, the needed settings whose values are known only when the job runs, except those in
        `stated`.
        """
        return {
            each.setting: Missing(
                setting=each.setting,
                option=IMPORT_OPTIONS.get(each.setting, "a number in the file"),
                why=f"{each.written} ({each.where}) is known only when the job runs",
            )
            for each in self.unresolved
            if each.setting in (*IMPORT_OPTIONS, *_DEGREES) and each.setting not in stated
        }

    def absent(self, files: Iterable[str]) -> list[tuple[str, str]]:
        """Return the named files that are not among `files`.

        A name that contains a variable may mean any given file that the launch does not name otherwise.
        """
        given = {name.rpartition("/")[2] for name in files}
        named = {name.rpartition("/")[2] for name, _ in self.named_files}
        places = {place.rpartition(":")[0].rpartition("/")[2] for _, place in self.named_files}
        spare = len(given - named - places)
        absent = []
        for each in self.named_files:
            is_open = "$" in each[0] and spare > 0
            spare -= is_open
            if not is_open and each[0].rpartition("/")[2] not in given:
                absent.append(each)
        return absent


def statement_of(file: str, stated: Meaning, spelled: Spelled, place: Place) -> Statement:
    """Return the setting that a file states at a place."""
    return Statement(
        setting=stated.setting,
        value=stated.value,
        file=file,
        line=place.line,
        written=" ".join(spelled.written.split()),
        name=plain(spelled.name),
        spelled=spelled.value,
        owner=spelled.owner,
        place=place,
    )


def why_kept(owner: str, path: str, value: str) -> str:
    """Return why a value of a structured file is kept although it states no setting of a recipe."""
    name = path.rpartition(".")[2]
    if leaves_open(owner, path, value) or leaves_open(owner, name, value):
        return LEFT_OPEN
    return BY_LAUNCHER if is_of_launcher(owner, name) else NOT_UNDERSTOOD


def warnings_of(kept: tuple[Kept, ...], about_arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return warnings about parts of the files that an export does not write, or writes as plain text."""
    literal = [
        f"Warning: the program gets the text {each.text}, not its value in the run "
        f"({each.file}:{each.line}): write the value in command.arguments"
        for each in kept
        if each.why == LITERAL
    ]
    others = [each for each in kept if each.why != LITERAL and not each.why.startswith(_HARMLESS)]
    count = plural(len(others), "part")
    summary = (
        f"Warning: the launch files lack {count} of the imported files, which `kept` in recipe.toml lists"
    )
    return (*literal, *(f"Warning: {note}" for note in about_arguments), *([summary] if others else []))
