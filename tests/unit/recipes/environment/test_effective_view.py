"""Test the merged view of variables: the plan wins over the process, then files, then presets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assistant.pages.training.environment_lines import environment_section
from probes.facts import EnvironmentVariable
from recipes.environment.effective import effective_view
from recipes.environment.environment_plan import EnvVar
from tests.support.platform_machines import PLATFORM_MACHINES, with_file
from tests.support.worlds import World, world


def variable(name: str, value: str, source: str = "") -> EnvVar:
    return EnvVar(name=name, value=value, why="", source=source)


def setting(name: str, value: str, origin: str) -> EnvironmentVariable:
    return EnvironmentVariable(name=name, value=value, origin=origin)


LAYERS = ("plan", "environment", "~/.nccl.conf", "/etc/nccl.conf", "plugin")


@given(st.dictionaries(st.sampled_from(LAYERS), st.sampled_from(("1", "2", "3")), min_size=1))
def test_the_first_layer_wins_and_hides_other_values(values):
    name = "NCCL_IB_TC"
    (row,) = effective_view(
        [variable(name, values["plan"])] if "plan" in values else [],
        [setting(name, values[layer], layer) for layer in LAYERS[1:4] if layer in values],
        [variable(name, values["plugin"], "plugin")] if "plugin" in values else [],
        {},
    )
    layers = [layer for layer in LAYERS if layer in values]
    assert (row.origin, row.value) == (layers[0], values[layers[0]])
    assert row.overridden == tuple(
        f"{layer}: {values[layer]}" for layer in layers[1:] if values[layer] != row.value
    )


def test_variables_of_other_programs_are_not_shown():
    names = ("http_proxy", "SLURM_NTASKS", "LD_LIBRARY_PATH", "CUDA_HOME", "NCCL_DEBUG")
    rows = effective_view([], [setting(name, "1", "environment") for name in names], [], {})
    assert [row.name for row in rows] == ["NCCL_DEBUG"]


def text(job: World) -> str:
    part = environment_section(job.plan, job.cluster)
    return str(part.title) + str(part.blocks)


def test_the_page_shows_what_the_machine_sets():
    job = world("azure", with_file(PLATFORM_MACHINES["azure-ndv5"], NCCL_IGNORE_CPU_AFFINITY="1"))
    assert "Azure ND H100 v5" in text(job)
    assert "set by /etc/nccl.conf" in text(job)
    shown = text(
        world("left over", with_file(PLATFORM_MACHINES["bare-dgx"], "environment", NCCL_DEBUG="INFO"))
    )
    assert "it hides environment: INFO" in shown


def test_the_page_is_empty_on_a_plain_machine():
    job = world("dgx", PLATFORM_MACHINES["bare-dgx"])
    section = environment_section(job.plan, job.cluster)
    assert not section.blocks


def test_on_roce_the_page_names_what_a_measurement_and_the_owner_of_the_network_decide():
    roce = PLATFORM_MACHINES["bare-roce"]
    assert "rigtune advise network" in text(world("roce", roce))
    assert "NCCL_IB_QPS_PER_CONNECTION=2" in text(world("roce", roce))
    assert "NCCL_IB_TC" not in text(world("one node", roce, nodes=1))
    assert "is not known" not in text(world("set", with_file(roce, NCCL_IB_TC="104")))
