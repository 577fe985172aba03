"""Test that a controller of 512 virtual nodes with eight GPUs each accepts the Slurm scripts that fit.

Needs root, slurmctld and munged.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from recipes.launch.slots import with_slots
from tests.support.slurm import slurm_controller

pytestmark = [pytest.mark.root, pytest.mark.slow]

SITE = {"partition": "main", "time": "12:00:00", "account": "lab", "mail": "me@example.org"}
RESOURCES = {"device": "cuda", "backend": "nccl", "cpus_per_node": 96}


@pytest.fixture(scope="module")
def controller() -> Iterator[dict[str, str]]:
    with slurm_controller(512, gpus=8, cpus=96) as environment:
        yield environment


@pytest.mark.parametrize("form", ["slurm", "slurm-ranks"])
@pytest.mark.parametrize(
    ("nodes", "gpus", "cpus", "fits"),
    [
        (1, 8, 96, True),
        (64, 8, 96, True),
        (512, 8, 96, True),
        (513, 8, 96, False),
        (2, 9, 96, False),
        (2, 8, 200, False),
    ],
)
@pytest.mark.parametrize("image", ["", "/images/train.sif"])
def test_a_controller_of_512_nodes_accepts_what_fits(  # noqa: PLR0917 - one case per line
    controller, make_recipe, export, tmp_path, form, nodes, gpus, cpus, fits, image
):
    slots = {**SITE, **({"container_image": image} if image else {})}
    recipe = make_recipe(nodes=nodes, ranks_per_node=gpus, resources={**RESOURCES, "cpus_per_node": cpus})
    script = export(form, with_slots(recipe, slots, "test"), tmp_path)
    tested = subprocess.run(
        ("sbatch", "--test-only", script), env=controller, capture_output=True, timeout=60, check=False
    )
    assert (tested.returncode == 0) == fits, tested.stderr
