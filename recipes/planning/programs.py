"""Training programs: what each can do with a layout, and which stack of the predictor times it.

To add a program, add a row to `recipes/data/programs.toml`.
"""

import functools
import shlex
from typing import Literal

from probes.base.errors import UsageError
from probes.base.nearest import did_you_mean
from probes.base.record import StrictRecord, quoted
from probes.base.rows import load_rows
from recipes.job.candidate import ActivationCheckpointing, Offload, Schedule, Sharding
from recipes.job.workload import AnyWorkload, ModelKind, Precision, Tuning, VisionWorkload
from recipes.machine.cluster_records import Cluster
from recipes.planning.plan import OWN_PROGRAM

DeviceFamily = Literal["nvidia", "amd", "gaudi", "cpu"]


class Program(StrictRecord, kw_only=True):
    """One kind of training software, as planning sees it."""

    id: str
    title: str
    stack: str
    """Stack that predicts full training (row of `stacks.toml`)."""
    tuning_stack: str = ""
    """Stack that predicts training of adapters; blank if the program cannot train adapters."""
    stacks: tuple[str, ...] = ()
    """Other stacks whose runs this program describes, for cases that name a stack instead of a program."""
    words: tuple[str, ...] = ()
    """Words of a command line that only this program's commands contain."""
    shardings: tuple[Sharding, ...]
    """Training state that data-parallel ranks can share, the simplest first."""
    pipeline_shardings: tuple[Sharding, ...] = ()
    """Shardings that the program combines with a pipeline."""
    hybrid: bool = False
    """True if a group smaller than all data-parallel ranks can share parameters (HSDP)."""
    tensor: bool = False
    divides: tuple[Tuning, ...] = ("full",)
    """Kinds of training in which the program divides matrices and layers over ranks."""
    context: Literal["", "ring", "heads"] = ""
    """Division of one sequence over ranks. Empty: not possible. `ring`: by rings, in which every rank has an
    early and a late part. `heads`: by attention heads (DeepSpeed-Ulysses).
    """
    experts: bool = False
    schedules: tuple[Schedule, ...] = ()
    """Schedules of a pipeline; empty if the program has no pipeline."""
    checkpointing: tuple[ActivationCheckpointing, ...] = ("none", "full")
    precisions: tuple[Precision, ...] = ("bf16", "fp16", "fp32")
    tunings: tuple[Tuning, ...] = ("full",)
    offloads: tuple[Offload, ...] = ()
    """Training state that the program can keep in the host's memory: optimizer states, or also weights."""
    needs_script: bool = False
    """True if the program trains only with a script of the user's."""
    has_presets: bool = False
    """True if the program starts from a preset that may divide layers, so that its settings state degrees of
    1 too.
    """
    is_suggested: bool = False
    """True if a plan may be made for the program although the user did not name it."""
    devices: tuple[DeviceFamily, ...] = ("nvidia", "amd")
    """Families of devices that the program's own documentation supports."""
    trains_images: bool = True
    """True if people train image models with the program."""
    kinds: tuple[ModelKind, ...] = ("decoder", "encoder", "encoder-decoder")
    """Kinds of transformers that the program trains."""
    settings: dict[str, str] = {}
    """Name of each setting in the program's own words, by the name that `program_settings.py` uses.

    A blank name means that the value itself names the option.
    """
    values: dict[str, dict[str, str]] = {}
    """The program's own word for a value, by setting and value; a blank word leaves the setting out."""
    sizes: dict[str, str] = {}
    """Option of each size of a model, for programs that build a model from its sizes."""
    source: str
    date: str

    def stack_for(self, tuning: Tuning) -> str:
        """Return the id of the stack that predicts this program; adapters may need another one."""
        return self.tuning_stack or self.stack if tuning != "full" else self.stack

    def runs_on(self, cluster: Cluster) -> bool:
        """Return whether the program supports the devices of the cluster; True if their family is unknown."""
        family = device_family(cluster)
        return family is None or family in self.devices


def device_family(cluster: Cluster) -> DeviceFamily | None:
    """Return the family of the devices of a cluster; None for GPUs that the catalogue does not know."""
    if cluster.device == "cpu":
        return "cpu"
    if not cluster.architecture:
        return None
    if cluster.architecture.startswith("gaudi"):
        return "gaudi"
    return "amd" if cluster.architecture.startswith("cdna") else "nvidia"


OWN = OWN_PROGRAM
"""Id of the user's own torch program."""
REFERENCE_PROGRAM = "reference"
"""Id of rigtune's reference workload, which runs recipes without a program of the user's."""


@functools.lru_cache(maxsize=1)
def load_programs() -> dict[str, Program]:
    """Return all rows of `recipes/data/programs.toml` by id, in the file's order."""
    return {row.id: row for row in load_rows("recipes", "programs", Program)}


def trains(program: Program, workload: AnyWorkload) -> bool:
    """Return whether the program trains this kind of model in this precision and way."""
    if workload.precision not in program.precisions:
        return False
    if isinstance(workload, VisionWorkload):
        return program.trains_images
    return workload.tuning in program.tunings and workload.model.kind in program.kinds


def program_named(name: str) -> Program:
    """Return the program with this id. Raises UsageError with the ids that exist."""
    rows = load_programs()
    if name not in rows:
        hint = did_you_mean(name, rows, f"programs: {', '.join(rows)}")
        raise UsageError(f"there is no program {quoted(name)}", hint)
    return rows[name]


@functools.lru_cache(maxsize=256)
def program_of_stack(stack: str) -> Program:
    """Return the program that people use when they name this stack, or else the user's own torch program."""
    rows = load_programs().values()
    named = [row for row in rows if stack and stack in (row.stack, row.tuning_stack, *row.stacks)]
    return min(named, key=lambda row: (row.stack != stack, row.id != stack), default=load_programs()[OWN])


def program_of_command(command: tuple[str, ...]) -> Program | None:
    """Return the program that the user's command starts; None if the command does not show it."""
    words = [word for part in command for word in _words(part)]
    for row in load_programs().values():
        if any(_contains(words, name.split()) for name in row.words):
            return row
    return None


def _words(part: str) -> list[str]:
    """Return the words of an argument, with paths reduced to their last part."""
    try:
        pieces = shlex.split(part)
    except ValueError:
        pieces = part.split()
    return [piece.rsplit("/", 1)[-1] for piece in pieces]


def _contains(words: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(words[start : start + size] == wanted for start in range(len(words) - size + 1))
