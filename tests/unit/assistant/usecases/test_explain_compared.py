"""Test a log beside a machine and a recipe, as `rigtune explain --from ... --recipe ...` reads them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from assistant.usecases.events import StageFinished
from assistant.usecases.explain import explain_logs
from probes.facts import MachineFacts
from probes.logs.diagnosis import Explanation
from recipes.launch.recipe import Environment, Recipe
from tests.support.machines import h100_node

AT = "node17:31:32 [0] "
SHAPE = f"{AT}NCCL INFO comm 0x2 rank 0 nRanks 32 nNodes 4 localRanks 8 localRank 0 MNNVL 0\n"
SOCKETS = (
    f"{AT}NCCL INFO NET/Socket : Using [0]eno1:10.1.0.17<0>\n{AT}NCCL INFO Using network Socket\n{SHAPE}"
)
STAGED = f"{SHAPE}{AT}NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/IB/0\n"
ONE_PORT = f"{AT}NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eno1:10.1.0.17<0>\n"
ALL_PORTS = ONE_PORT.replace(" [RO]", "".join(f" [{n}]mlx5_{n}:1/IB" for n in range(1, 8)) + " [RO]")
SEGMENT = f"{AT}misc/ibvwrap.cc:200 NCCL WARN Call to ibv_reg_mr failed\n"


@pytest.fixture
def explained(tmp_path: Path):
    def run(text: str, recipe: Recipe | None = None, machine: MachineFacts | None = None) -> Explanation:
        path = tmp_path / "job.log"
        path.write_text(text)
        *_, last = explain_logs([str(path)], recipe=recipe, machine=machine)
        assert isinstance(last, StageFinished)
        assert isinstance(last.result, Explanation)
        return last.result

    return run


def first(explanation: Explanation) -> tuple[str, bool]:
    diagnosis = explanation.diagnoses[0]
    return diagnosis.cause_id, diagnosis.is_fault


def software(**changes: object) -> MachineFacts:
    node = h100_node()
    return msgspec.structs.replace(node, software=msgspec.structs.replace(node.software, **changes))


def test_a_machine_without_the_module_explains_missing_gpudirect(explained) -> None:
    before = explained(STAGED, machine=h100_node())
    after = explained(STAGED, machine=software(peermem_loaded=False, driver_open_module=False))
    assert first(after) == ("gdr-off-driver", True)
    assert after.diagnoses[0].confidence > before.diagnoses[0].confidence
    assert {line.source for line in after.diagnoses[0].evidence} == {"machine", str(after.sources[0])}
    assert after.diagnoses[0].evidence[-1].host == "node17"


def test_sockets_on_a_machine_with_adapters_are_a_fault(explained) -> None:
    assert first(explained(SOCKETS))[1] is False
    explanation = explained(SOCKETS, machine=h100_node())
    assert first(explanation) == ("rdma-not-used", True)
    assert "9 active RDMA ports" in explanation.diagnoses[0].summary
    assert explained(SOCKETS, machine=h100_node(nics=())).state == explained(SOCKETS).state


def test_a_recipe_that_switches_rdma_off_is_the_reason(explained, make_recipe) -> None:
    off = Environment(name="NCCL_IB_DISABLE", value="1", why="", source="rule")
    recipe = make_recipe(nodes=4, ranks_per_node=8, environment=(off,))
    explanation = explained(SOCKETS, recipe, h100_node())
    assert first(explanation) == ("rdma-not-used", True)
    assert "the recipe sets NCCL_IB_DISABLE=1" in explanation.diagnoses[0].summary


def test_a_run_with_one_of_eight_adapters_is_a_fault(explained) -> None:
    explanation = explained(ONE_PORT + SHAPE, machine=h100_node())
    assert first(explanation) == ("wrong-hca-selected", True)
    assert "mlx5_7" in explanation.diagnoses[0].summary
    assert "mlx5_8" not in explanation.diagnoses[0].summary, "a port for storage"
    assert explained(ALL_PORTS + SHAPE, machine=h100_node()).state == "healthy"
    most = explained(ALL_PORTS.replace(" [7]mlx5_7:1/IB", "") + SHAPE, machine=h100_node())
    assert most.state == "healthy"
    assert "wrong-hca-selected" in [diagnosis.cause_id for diagnosis in most.diagnoses]


def test_a_small_limit_explains_a_failed_registration(explained) -> None:
    node = h100_node()
    small = msgspec.structs.replace(node, limits=msgspec.structs.replace(node.limits, memlock_bytes=64 << 10))
    explanation = explained(SEGMENT, machine=small)
    assert first(explanation) == ("memlock", True)
    assert explanation.diagnoses[0].confidence > explained(SEGMENT).diagnoses[0].confidence


def test_a_fabric_manager_that_hangs(explained) -> None:
    text = "RuntimeError: No CUDA GPUs are available\n"
    assert first(explained(text))[0] == "cuda-init-failed"
    assert first(explained(text, machine=software(fabric_manager="inactive"))) == ("fabric-manager", True)


def test_a_healthy_run_on_a_faulty_machine_is_healthy(explained) -> None:
    text = ALL_PORTS + SHAPE.replace("nRanks 32 nNodes 4", "nRanks 8 nNodes 1") + "step 1\n" * 60
    sick = software(fabric_manager="inactive", peermem_loaded=False, driver_open_module=False)
    explanation = explained(text, machine=sick)
    assert explanation.state == "healthy"


def test_library_version_interface_and_rank_count_are_compared(explained) -> None:
    text = (
        f"{AT}NCCL INFO NCCL version 2.18.3+cuda12.1\n{AT}NCCL INFO Bootstrap : Using ens9:10.1.0.17<0>\n"
        + SHAPE
    )
    explanation = explained(text + "step 1\n" * 60, machine=h100_node())
    differences = explanation.facts["differences"]
    assert "the run loaded NCCL 2.18.3, but the training interpreter contains 2.21.5" in differences
    assert "the ranks connected over the interface ens9, which the machine does not have" in differences
    assert explanation.state == "healthy"
    assert "library-conflict" in [diagnosis.cause_id for diagnosis in explanation.diagnoses]
    crowded = explained(SHAPE.replace("localRanks 8", "localRanks 16"), machine=h100_node())
    assert first(crowded) == ("duplicate-gpu", True)
    assert "16 ranks run on a node, but the machine has 8 GPUs" in crowded.diagnoses[0].summary
    same = explained(
        text.replace("2.18.3", "2.21.5").replace("ens9", "eno1") + "step 1\n" * 60, machine=h100_node()
    )
    assert "differences" not in same.facts
