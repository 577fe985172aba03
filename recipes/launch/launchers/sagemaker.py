"""SageMaker: a Python script for version 3 of its SDK, and the script that every instance runs.

Source: aws/sagemaker-python-sdk at a2481266 (2026-08): sagemaker-train/src/sagemaker/train/model_trainer.py
(`SourceCode.command` is split at blanks and evaluated by a shell) and
container_drivers/scripts/environment.py (SM_CURRENT_HOST_RANK; the first host is algo-1).
"""

from recipes.launch.manifests.config_map import object_name
from recipes.launch.manifests.container_words import refuse_arguments
from recipes.launch.manifests.node_script import node_script
from recipes.launch.program_files import ProgramFiles
from recipes.launch.recipe import Artifact, Recipe
from recipes.launch.script_parts import render_script
from recipes.launch.slots import slot_value, time_limit_s

SCRIPT = "sagemaker_job.py"
NODE_SCRIPT = "sagemaker-node.sh"
_CHANNEL = "/opt/ml/input/data/rigtune"
_VOLUME_GB = 500
"""Size of each instance's volume. The number is a choice, and instances with local disks ignore it."""
_PLACE = """\
master=algo-1
node_rank=${SM_CURRENT_HOST_RANK:-$((${SM_CURRENT_HOST#algo-} - 1))}"""
_HOSTS = r"${SM_HOSTS//[][\" ]/}"
"""The JSON list of SM_HOSTS without brackets and quotes; its order is that of SM_CURRENT_HOST_RANK."""


def render(recipe: Recipe, files: ProgramFiles) -> tuple[Artifact, ...]:
    """Return the script that starts the job and the script of an instance."""
    node = node_script(
        recipe, files, script=NODE_SCRIPT, service="SageMaker", job=SCRIPT, place=_PLACE, hosts=_HOSTS
    )
    seconds, bucket = time_limit_s(recipe), slot_value(recipe, "bucket")
    names = ["Compute", "InputData", "SourceCode"]
    names += ["StoppingCondition"] if seconds else []
    names += ["CheckpointConfig"] if bucket else []
    text = render_script(
        "sagemaker.py.j2",
        recipe,
        files,
        script=SCRIPT,
        node=NODE_SCRIPT,
        name=object_name(recipe),
        inside=_CHANNEL,
        imports=sorted(names),
        seconds=seconds,
        volume_gb=_VOLUME_GB,
        quoted=repr,
    )
    return (Artifact(path=SCRIPT, text=text), node)


def start(recipe: Recipe, folder: str, arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that starts the job. Raises UsageError for extra arguments."""
    del recipe
    refuse_arguments(SCRIPT, arguments)
    return ("python3", f"{folder}/{SCRIPT}")
