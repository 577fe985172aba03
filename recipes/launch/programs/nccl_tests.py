"""nccl-tests: a test of NVIDIA's, such as `all_reduce_perf`, on the ranks and with the environment of a job.

Sources: NVIDIA/nccl-tests, README.md and src/common.cu (read 2026-11); options of Open MPI: NCCL user guide,
troubleshooting, and CoreWeave's nccl-tests (HCOLL disturbs the tests).
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from probes.base.errors import UsageError
from recipes.launch.known_names import known_names, require_known
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Environment, Recipe, program_arguments
from recipes.launch.slots import slot_value

_DEFAULTS = (
    (("-b", "--minbytes"), "8"),
    (("-e", "--maxbytes"), "8G"),
    (("-f", "--stepfactor", "-i", "--stepbytes"), "2"),
    (("-n", "--iters"), "20"),
    (("-w", "--warmup_iters"), "5"),
    (("-c", "--check"), "1"),
)
"""All names of each option, with the value that gives a curve over all sizes of messages.

Rates on NVLink rise up to sizes of some GiB (NVIDIA/nccl-tests#212); warm-up is stated because older versions
warm up only once.
"""
_COUNTS = ("-g", "--ngpus", "-t", "--nthreads")
"""Options that divide the GPUs among processes and threads, which the launcher decides."""


def write(recipe: Recipe) -> ProgramFiles:
    """Return the test with one process per GPU; on one node also with one process for all GPUs, which needs
    no MPI. Raises UsageError on a CPU and for an unknown placeholder.
    """
    if recipe.resources.device == "cpu":
        raise UsageError("nccl-tests runs only on GPUs", "`rigtune bench` measures collectives on a CPU too")
    options = tuple(_options(program_arguments(recipe)))
    kept = [option for option in options if option[0] not in _COUNTS]
    curve = [
        option
        for names, value in _DEFAULTS
        for option in ([each for each in kept if each[0] in names] or [(names[0], value)])
    ]
    rest = [option for option in kept if option not in curve]
    words = tuple(word for option in (*curve, *rest) for word in option)
    require_known("nccl-tests", (names[0] for names, _ in _DEFAULTS))
    notes = tuple(_notes(options))
    ranks = recipe.parallelism.ranks_per_node
    whole_node = ProgramFiles(
        words=(*words, "-g", str(ranks)),
        executable=_executable(recipe),
        processes="node",
        modules=(),
        notes=(*notes, "One process has all GPUs; with one process per GPU (launcher mpi), P2P differs"),
    )
    return msgspec.structs.replace(
        whole_node,
        words=(*words, "-g", "1"),
        processes="task",
        environment=tuple(_open_mpi()),
        notes=notes,
        otherwise=whole_node if recipe.parallelism.nodes == 1 else None,
    )


def _notes(options: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    known = known_names("nccl-tests")
    for name, *value in options:
        if name in _COUNTS:
            given = " ".join((name, *value))
            yield f"Your {given} is left out: the launcher decides the GPUs of a process"
        elif name not in known.names:
            yield (
                f"Warning: nccl-tests {known.version} has no option {name}; with an option that a test does "
                "not know, it prints its usage and ends with exit code 0"
            )


def _executable(recipe: Recipe) -> str:
    """Return the path of the test, or its name if only the PATH knows where the test is."""
    target, folder = recipe.command.target, slot_value(recipe, "nccl_tests")
    return str(PurePosixPath(folder, target)) if folder and "/" not in target else target


def _options(arguments: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yield each option with its value: `-b 8`, `-b8` and `--minbytes=8` are the same to getopt."""
    waiting = ""
    for word in arguments:
        if waiting:
            yield (waiting, word)
            waiting = ""
        elif word.startswith("--") and "=" in word:
            name, _, value = word.partition("=")
            yield (name, value)
        elif word.startswith("-") and not word.startswith("--") and len(word) > 2:
            yield (word[:2], word[2:])
        elif word.startswith("-"):
            waiting = word
        else:
            yield (word,)
    if waiting:
        yield (waiting,)


def _open_mpi() -> Iterator[Environment]:
    """Yield settings with which Open MPI uses TCP; only NCCL's ids pass through it."""
    source = "NCCL user guide, troubleshooting; coreweave/nccl-tests cb86553"
    values = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_coll_hcoll_enable": "0"}
    for name, value in values.items():
        yield Environment(
            name=name,
            value=value,
            why="Open MPI only lets the ranks meet, and TCP suffices.",
            source=source,
        )
