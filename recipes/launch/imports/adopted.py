"""The records of an imported launch. Field names are the JSON contract of `rigtune import --format json`."""

from probes.base.record import Record
from recipes.launch.recipe import Command, Environment, Kept, Recipe
from recipes.lint.document import Place

SCHEMA_VERSION = 1


class Statement(Record, kw_only=True):
    """A setting that a file or an option states, with rigtune's name and value for it."""

    setting: str
    """Name of the setting, such as `nodes`, `tp` or `learning_rate`."""
    value: str
    file: str
    """File that states the setting; `options` for an option of `rigtune import`."""
    line: int
    written: str
    """The statement as the file spells it."""
    name: str = ""
    """Name of the setting as the file spells it, without dashes."""
    spelled: str = ""
    """Value as the file spells it; `true` for an option without a value."""
    owner: str
    """Launcher, scheduler or program that understands the statement: a row of `spellings.toml`."""
    place: Place | None = None
    """Place of the value in the file; None if the value has no place of its own."""

    @property
    def where(self) -> str:
        return self.file if self.file == OPTIONS else f"{self.file}:{self.line}"


OPTIONS = "options"
"""Name in place of a file, for settings that the user gave on the command line of rigtune."""
IMPORT_OPTIONS = {
    "model": "--model NAME",
    "sequence_length": "--sequence-length TOKENS",
    "nodes": "--nodes N",
    "ranks_per_node": "--ranks-per-node N",
    "strategy": "--strategy NAME",
    "sharding": "--strategy NAME",
    "micro_batch": "--micro-batch SEQUENCES",
    "grad_accum": "--grad-accum N",
    "global_batch": "--global-batch SEQUENCES",
    "learning_rate": "--learning-rate RATE",
    "steps": "--steps N",
    "warmup_steps": "--warmup-steps N",
    "precision": "--precision NAME",
}
"""Options of `rigtune import` by setting; other settings cannot be given as options."""


class Missing(Record, kw_only=True):
    """A setting that a recipe needs and that the files do not determine."""

    setting: str
    option: str
    """Option of `rigtune import` that gives the setting, or what to add to the files if there is no option.
    """
    why: str


class Assumed(Record, kw_only=True):
    """A setting that no file states, with a default of the launcher, of the program or of rigtune."""

    setting: str
    value: str
    because: str


class Imported(Record, kw_only=True):
    """The program, the settings and the recipe of a launch, and the parts of its files that no setting
    represents.
    """

    schema_version: int = SCHEMA_VERSION
    files: tuple[str, ...]
    program: str
    """Training software: a row of `rigtune list programs`."""
    command: Command | None
    """The program that every rank runs; None if no file starts a program."""
    settings: tuple[Statement, ...] = ()
    """Settings that the files state, each once."""
    environment: tuple[Environment, ...] = ()
    assumed: tuple[Assumed, ...] = ()
    missing: tuple[Missing, ...] = ()
    kept: tuple[Kept, ...] = ()
    """Parts of the files that no setting represents."""
    notes: tuple[str, ...] = ()
    recipe: Recipe | None = None
    """The recipe; None while settings are missing."""

    @property
    def batch_system(self) -> str:
        """`slurm` if the files have settings in #SBATCH lines; otherwise empty."""
        return "slurm" if any(each.written.startswith("#SBATCH") for each in self.settings) else ""
