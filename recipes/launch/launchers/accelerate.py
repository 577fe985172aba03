"""accelerate: `accelerate launch` on every node, for any program with a process per rank."""

import msgspec

from recipes.launch.program_files import ProgramFiles, accelerate_agent
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.torchrun_script import start_torchrun, torchrun_files, with_agent

SCRIPT = "launch-accelerate.sh"
START_ALL_HOSTS = "launch-all-accelerate.sh"
CONFIG = "accelerate-launch.yaml"
_ON_CPU = (
    "On a CPU torchrun starts the ranks: accelerate launch would start a single process. A program that uses "
    "accelerate finds the ranks in either case."
)


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the scripts of torchrun's launcher with `accelerate launch` in its place, and its settings.

    On a CPU torchrun starts the ranks, because `accelerate launch` would start a single process. Raises
    UsageError for a program whose ranks another starter must start.
    """
    if recipe.resources.device != "cuda":
        files = msgspec.structs.replace(files, notes=(*files.notes, _ON_CPU))
        return torchrun_files(recipe, files, SCRIPT, START_ALL_HOSTS)
    agent = accelerate_agent(recipe, CONFIG)
    files = with_agent(recipe, files, agent)
    settings = () if files.agent != agent else (Artifact(path=CONFIG, text=_config(recipe)),)
    return (*torchrun_files(recipe, files, SCRIPT, START_ALL_HOSTS, needs_guard=True), *settings)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts every rank of the job.

    Raises UsageError for several nodes without host names.
    """
    return start_torchrun(recipe, folder, arguments, SCRIPT, START_ALL_HOSTS)


def _config(recipe: Recipe) -> str:
    """Return settings that replace those of the user's cache, which accelerate would otherwise apply
    silently.

    The keys are those of accelerate 1.15.0 (`accelerate/commands/config/config_args.py`).
    """
    parallelism = recipe.parallelism
    precision = parallelism.precision if parallelism.precision in ("bf16", "fp16") else "no"
    return f"""\
# Settings of accelerate launch. The script states the numbers of machines and of processes.
compute_environment: LOCAL_MACHINE
distributed_type: {"MULTI_GPU" if parallelism.world_size > 1 else "'NO'"}
mixed_precision: '{precision}'
rdzv_backend: static
same_network: true
main_training_function: main
use_cpu: false
debug: false
"""
