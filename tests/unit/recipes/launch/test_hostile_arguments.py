"""Test that arguments of any bytes pass through every shell launcher unchanged and are never executed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recipes.launch.recipe import Command
from tests.support.launch_bench import NASTY, SLURM_JOB, Bench, put_files, render

VECTORS = 50
"""Lists of arguments in each start of a script; one start with many lists saves time."""
HOSTS = {"resources": {"hosts": ("a", "b")}, "nodes": 2}
GPU = {"resources": {"device": "cuda", "backend": "nccl"}}
SLURM = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1"}

CASES = {
    "torchrun": ("torchrun", {}, "launch.sh", {}),
    "torchrun, several nodes": ("torchrun", HOSTS, "launch-all.sh", {}),
    "torchrun-elastic": ("torchrun-elastic", {}, "launch-elastic.sh", {}),
    "torchrun-elastic, several nodes": ("torchrun-elastic", HOSTS, "launch-all-elastic.sh", {}),
    "accelerate": ("accelerate", GPU, "launch-accelerate.sh", {}),
    "deepspeed": ("deepspeed", {}, "launch-deepspeed.sh", {}),
    "deepspeed, several nodes": ("deepspeed", HOSTS, "launch-all-deepspeed.sh", {}),
    "slurm": ("slurm", {}, "train.sbatch", SLURM),
    "slurm-ranks": ("slurm-ranks", {}, "train-ranks.sbatch", SLURM),
    "mpi, Open MPI": ("mpi", {}, "launch-mpi.sh", {}),
    "mpi, MPICH": ("mpi", {}, "launch-mpi.sh", {"MPI_VERSION": "HYDRA build details:"}),
}
"""Launcher, fields of the recipe, script and environment by the name of a case."""

injections = st.sampled_from(
    (
        *NASTY,
        "$(touch injected)",
        "`touch injected`",
        '"; touch injected; "',
        "'$(touch injected)'",
        "\\$(touch injected)",
        "<(touch injected)",
        "x[$(touch injected)]",
        "-x",
        "--",
        "=x",
        "{{ recipe }}",
        "%h %p %j",
        "#SBATCH --wrap=x",
    )
)
printable = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp", "Cf")), max_size=12)
"""Text that a recipe can contain."""
any_bytes = st.binary(max_size=12).map(
    lambda data: data.replace(b"\0", b"\n").decode("utf-8", "surrogateescape")
)
"""Text that a command line can contain."""


def vectors(text: st.SearchStrategy[str]) -> st.SearchStrategy[list[list[str]]]:
    vector = st.lists(injections | text, max_size=6)
    return st.lists(vector, min_size=VECTORS, max_size=VECTORS)


def assert_pass(make_recipe, bench: Bench, place: Path, case: str, vectors_of: tuple[list, list]) -> None:
    launcher, fields, script, variables = CASES[case]
    # mpirun cannot take a lone colon; the test below covers it.
    in_recipe, at_start = (
        [word if word != ":" else "::" for vector in side for word in (*vector, "::")] for side in vectors_of
    )
    doubled = tuple(word.replace("{", "{{").replace("}", "}}") for word in in_recipe)
    command = Command(kind="script", target="train.py", arguments=doubled)
    put_files(place / "launch", render(launcher, make_recipe(command=command, **fields)))
    path = str(place / "launch" / script)
    outcome = bench.run("bash", path, "--", *at_start, cwd=place, COMMAND=path, **variables)
    assert outcome.exit_code == 0, outcome.words
    assert len(outcome.calls) == fields.get("nodes", 1)
    for call in outcome.calls:
        at = call.arguments.index("train.py")
        assert call.arguments[at + 1 :] == [*in_recipe, *at_start]
    assert not list(place.rglob("injected"))
    assert not list(bench.folder.rglob("injected"))


@pytest.fixture
def hosts(launch_bench: Bench) -> Bench:
    """Let ssh run its command here."""
    launch_bench.stand_in(
        "ssh", 'while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -o ]] && shift; shift; done\nexec sh -c "$3"'
    )
    return launch_bench


quick = settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
thorough = settings(quick, max_examples=100)


@pytest.mark.parametrize("case", CASES)
@quick
@given(texts=st.tuples(vectors(printable), vectors(any_bytes)))
def test_arguments_arrive_byte_for_byte(make_recipe, hosts, tmp_path_factory, case, texts):
    assert_pass(make_recipe, hosts, tmp_path_factory.mktemp("place"), case, texts)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
@thorough
@given(texts=st.tuples(vectors(printable), vectors(any_bytes)))
def test_thousands_of_vectors_arrive_byte_for_byte(make_recipe, hosts, tmp_path_factory, case, texts):
    assert_pass(make_recipe, hosts, tmp_path_factory.mktemp("place"), case, texts)


def test_mpirun_takes_no_lone_colon(make_recipe, launch_bench, tmp_path):
    script = put_files(tmp_path, render("mpi", make_recipe()))
    outcome = launch_bench.run(str(script), "--", "a", ":", "touch", "injected")
    assert (outcome.exit_code, outcome.calls) == (2, [])
    assert "a lone colon" in outcome.words
