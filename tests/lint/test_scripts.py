"""Rules use the whole script, its waivers, and the list of hosts that the script names."""

from __future__ import annotations

import pytest

from recipes.lint.finding import idle_waivers
from tests.support.linting import judge, read, rule_ids


def test_step_on_one_node_does_not_limit_the_job():
    text = (
        "ip=$(srun --nodes=1 --ntasks=1 -w $first hostname -I)\nexport NCCL_IB_DISABLE=1\nsrun bash run.sh\n"
    )
    assert "ib-disabled" in rule_ids("a.sh", text, only=["ib-disabled"])


def test_waiver_that_waives_nothing_is_reported():
    text = (
        "export NCCL_SHM_DISABLE=1  # rigtune: ignore=shm-disabled\n"
        "# rigtune: ignore=ib-disabled\n"
        "torchrun --nnodes 2 --rdzv-backend c10d \\\n  --rdzv-endpoint $h:29400 t.py\n"
    )
    document = read("a.sh", text)
    assert idle_waivers(judge(document), (document,)) == (
        "a.sh, line 3: the waiver of ib-disabled waives no finding",
    )


def test_late_requests_are_one_finding():
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2\nmodule load a\n#SBATCH --gpus-per-node=8\n"
        "#SBATCH --mem=0\npython t.py\n"
    )
    (finding,) = judge(read("a.sh", text), only=["slurm-directive-late"])
    assert (finding.place.line, "--gpus-per-node, --mem come" in finding.message) == (4, True)


@pytest.mark.parametrize(
    ("option", "words"),
    [("", "without --nnodes torchrun assumes one node"), ("--nnodes 1 ", "--nnodes is 1")],
)
def test_the_message_about_one_node_names_the_option_only_if_the_script_has_it(option: str, words: str):
    text = (
        "#!/bin/bash\n#SBATCH --nodes=2\n"
        f"srun torchrun {option}--rdzv-backend c10d --rdzv-endpoint $h:29400 t.py\n"
    )
    (finding,) = judge(read("a.sh", text), only=["slurm-nodes-differ"])
    assert finding.message == f"the job requests 2 nodes, but {words}"


@pytest.mark.parametrize(
    ("option", "severity"), [("nodes", "error"), ("gres", "error"), ("output", "warning")]
)
def test_variable_in_a_request_is_an_error_if_sbatch_refuses_the_text(option: str, severity: str):
    (finding,) = judge(read("a.sh", f"#!/bin/bash\n#SBATCH --{option}=$N\npython t.py\n"))
    assert (finding.rule_id, finding.severity) == ("slurm-directive-variable", severity)


def _together(*files: tuple[str, str]) -> list[str]:
    documents = [read(name, text) for name, text in files]
    return [finding.rule_id for finding in judge(*documents)]


_DEEPSPEED = ("a.sh", "deepspeed --hostfile /job/hostfile --num_nodes 2 t.py\n")
_MPIRUN = ("a.sh", "mpirun -np 16 --hostfile hosts.txt -x PATH all_reduce_perf -b 8\n")


@pytest.mark.parametrize(
    ("script", "name", "text", "rules"),
    [
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\ngpu-b slots=8\n", []),
        (_DEEPSPEED, "hostfile", "# ours\ngpu-a slots=8\ngpu-a slots=8\n", ["hostfile-refused"]),
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\ngpu-b:8\n", ["hostfile-refused"]),
        (_DEEPSPEED, "hostfile", "gpu-a slots=8\n", ["hostfile-few"]),
        (_MPIRUN, "hosts.txt", "10.0.0.1 slots=8\n10.0.0.2 slots=8\n", []),
        (_MPIRUN, "hosts.txt", "10.0.0.1\n10.0.0.2\n", []),
        (_MPIRUN, "hosts.txt", "10.0.0.1 slots=4\n10.0.0.2 slots=4\n", ["hostfile-few"]),
        (_MPIRUN, "hostfile", "10.0.0.1 slots=4\n", []),
    ],
)
def test_list_of_hosts_is_compared_with_its_command(
    script: tuple[str, str], name: str, text: str, rules: list[str]
):
    assert _together(script, (name, text)) == rules
