"""Some predicates of environment rows, at their limits."""

from __future__ import annotations

import msgspec
import pytest

from probes.base.record import NOT_RECORDED
from probes.facts import Container, Gpu, Interface, MachineFacts, Software
from recipes.environment.predicates import PREDICATES
from recipes.job.candidate import Degrees
from tests.support.machines import h100_node
from tests.support.worlds import world


def _holds(name: str, facts: MachineFacts, **changes: object) -> bool:
    situation = msgspec.structs.replace(world("a node", h100_node()).situation, facts=facts, **changes)
    return PREDICATES[name](situation) is not None


@pytest.mark.parametrize(
    ("degrees", "sharding", "holds"),
    [
        (Degrees(), "none", False),
        (Degrees(tp=2), "none", True),
        (Degrees(cp=2), "none", True),
        (Degrees(pp=2), "none", False),
        (Degrees(tp=2), "zero3", False),
        (Degrees(tp=2), "zero1", True),
    ],
)
def test_layers_are_divided_by_tensor_or_context_parallelism(degrees: Degrees, sharding: str, holds: bool):
    assert _holds("divided_layers", h100_node(), degrees=degrees, sharding=sharding) is holds


@pytest.mark.parametrize(
    ("name", "gpus", "driver", "holds"),
    [
        ("NVIDIA GeForce RTX 4090", 2, "545.29.06", True),
        ("NVIDIA GeForce RTX 4090", 2, "550.40.07", False),
        ("NVIDIA GeForce RTX 4090", 2, NOT_RECORDED, False),
        ("NVIDIA GeForce RTX 4090", 1, "545.29.06", False),
        ("NVIDIA GeForce RTX 3090", 2, "545.29.06", False),
    ],
)
def test_two_boards_with_an_old_driver_only_seem_to_have_peers(name, gpus, driver, holds: bool):
    facts = MachineFacts(
        gpus=tuple(Gpu(index=index, name=name) for index in range(gpus)),
        software=Software(driver_version=driver),
    )
    assert _holds("broken_peer_access", facts) is holds


@pytest.mark.parametrize(
    ("speed", "holds"), [(25.0, False), (40.0, True), (100.0, True), (NOT_RECORDED, False)]
)
def test_an_interface_is_fast_from_40_gigabits(speed, holds: bool):
    face = Interface(
        name="ens3", up=True, speed_gbps=speed, addresses=("10.0.0.7/24",), is_default_route=True
    )
    facts = msgspec.structs.replace(h100_node(nics=()), interfaces=(face,))
    assert _holds("fast_interface", facts) is holds


@pytest.mark.parametrize(
    ("runtime", "capabilities", "holds"),
    [
        ("docker", (), True),
        ("docker", ("sys_nice",), False),
        (None, (), False),
        (NOT_RECORDED, (), False),
        ("docker", NOT_RECORDED, False),
    ],
)
def test_a_container_may_withhold_numa_calls(runtime, capabilities, holds: bool):
    facts = MachineFacts(container=Container(runtime=runtime, capabilities=capabilities))
    assert _holds("blocked_numa_calls", facts) is holds
