"""Test launch scripts in a real bash; stand-ins for interpreter, scheduler and ssh record their calls."""

from __future__ import annotations

import importlib
import re
import shlex
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from probes.base.errors import UsageError
from recipes.launch.launch_files import launch_files
from recipes.launch.launcher_table import LAUNCHERS
from recipes.launch.recipe import Command, Environment
from recipes.launch.recipe_file import faults, load_recipe
from recipes.launch.reference_files import HELPER, helper_file
from recipes.launch.reserved_variables import SCRIPT_VARIABLES
from tests.support.launch_bench import NASTY, SLURM_JOB, option, program_of, put_files, render

nasty_text = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=20
)


comments = st.sampled_from(("one\ntouch injected", "a\r\n#SBATCH --wrap=x", "a\n\n#SBATCH --wrap=x", "\t\n"))


folders = st.sampled_from(("plain", "two words", "it's", "$(id)", "ü:漢", "-dash", "#hash", "a\\b", '"q"'))


user_texts = st.fixed_dictionaries(
    {"argument": nasty_text, "value": nasty_text, "title": comments | nasty_text, "folder": folders}
)
SELF_CONTAINED = [row.id for row in LAUNCHERS if not row.needs and "rank" in row.starts]


def test_one_node_starts_the_reference_program_beside_the_script(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe()))
    outcome = bench.run(str(script), "--", "--steps", "3", PYTHONPATH="/mine")
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    assert call.arguments[:3] == ["-m", "torch.distributed.run", "--standalone"]
    assert (option(call, "--nnodes"), option(call, "--nproc-per-node")) == ("1", "2")
    assert program_of(call) == ["-m", "rigtune_worker.train", "--config", "workload.json", "--steps", "3"]
    assert call.directory == str(tmp_path / "launch")
    assert call.environment["PYTHONPATH"] == f"{tmp_path / 'launch'}:/mine"
    assert (tmp_path / "launch" / "workload.json").exists()
    assert (tmp_path / "launch" / "rigtune_worker" / "train.py").exists()


def test_arguments_need_no_dashes_on_one_node(make_recipe, bench, tmp_path):
    script = put_files(tmp_path, render("torchrun", make_recipe()))
    assert program_of(bench.run(str(script), "--steps", "3").calls[0])[-2:] == ["--steps", "3"]


@pytest.mark.parametrize("launcher", SELF_CONTAINED)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=user_texts)
def test_no_text_of_the_user_is_read_by_the_shell(
    make_recipe, launch_bench, tmp_path_factory, launcher, text
):
    argument, value, title, folder = text["argument"], text["value"], text["title"], text["folder"]
    place = tmp_path_factory.mktemp("place") / folder
    work = place / folder
    doubled = argument.replace("{", "{{").replace("}", "}}")
    work.mkdir(parents=True)
    recipe = make_recipe(
        title=title,
        notes=(title, argument),
        environment=(Environment(name="MY_VALUE", value=value, why=title, source=title),),
        command=Command(
            kind="script", target=f"{folder}.py", arguments=(doubled, "{steps}"), working_directory=str(work)
        ),
        resources={"device_name": title},
    )
    artifacts = render(launcher, recipe)
    script = put_files(place, artifacts)
    outcome = launch_bench.run(
        "bash", str(script), "--", value, cwd=place, **SLURM_JOB, SLURM_JOB_NUM_NODES="1", COMMAND=str(script)
    )
    assert outcome.exit_code == 0, outcome.words
    (call,) = outcome.calls
    target = f"./{folder}.py" if folder.startswith("-") else f"{folder}.py"
    assert call.arguments[-4:] == [target, argument, "20", value]
    assert call.environment["MY_VALUE"] == value
    assert call.directory == str(work)
    assert not list(place.rglob("injected"))
    assert [
        line for line in artifacts[0].text.splitlines() if "--wrap" in line and line.startswith("#SBATCH")
    ] == []


def test_variables_of_the_recipe_win_over_the_shells(make_recipe, bench, tmp_path):
    recipe = make_recipe(environment=(Environment(name="OMP_NUM_THREADS", value="1", why="w", source="s"),))
    script = put_files(tmp_path, render("torchrun", recipe))
    assert bench.run(str(script), OMP_NUM_THREADS="64").calls[0].environment["OMP_NUM_THREADS"] == "1"


def test_every_line_of_the_environment_has_a_short_reason_and_the_recipe_has_the_source(make_recipe):
    entry = Environment(
        name="NCCL_IB_HCA",
        value="=mlx5_0",
        why="The other port is down. It has no link.",
        source="finding ib-port-state",
    )
    files = {file.path: file.text for file in render("torchrun", make_recipe(environment=(entry,)))}
    assert "# The other port is down\nexport NCCL_IB_HCA='=mlx5_0'\n" in files["launch.sh"]
    assert load_recipe(files["recipe.toml"], "recipe.toml").environment == (entry,)


@pytest.mark.parametrize("launcher", SELF_CONTAINED)
def test_a_missing_interpreter_is_one_line_and_127(make_recipe, launch_bench, tmp_path, launcher):
    script = put_files(
        tmp_path / "launch", render(launcher, make_recipe(resources={"python": "/no/such python"}))
    )
    variables = {**SLURM_JOB, "SLURM_JOB_NUM_NODES": "1", "RIGTUNE_PYTHON": "", "COMMAND": str(script)}
    outcome = launch_bench.run("bash", str(script), **variables)
    assert outcome.exit_code == 127
    assert outcome.words.count("\n") == 1
    assert "no Python interpreter /no/such python on " in outcome.words
    assert "RIGTUNE_PYTHON" in outcome.words


def test_a_relative_interpreter_is_meant_from_the_callers_folder(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe()))
    outcome = bench.run(str(script), RIGTUNE_PYTHON="./python-stand-in")
    assert outcome.exit_code == 0, outcome.words


@pytest.mark.parametrize("shell", [("sh",), ("dash",), ("bash", "--posix"), ()])
def test_any_way_to_start_it_works_also_by_a_link(make_recipe, bench, tmp_path, shell):
    if shell and shutil.which(shell[0]) is None:
        pytest.skip(f"there is no {shell[0]} here")
    script = put_files(tmp_path / "a launch", render("torchrun", make_recipe()))
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "train"
    link.symlink_to(script)
    for words in ((str(link),), (str(script),)):
        outcome = bench.run(*shell, *words, "--", "a b")
        assert outcome.exit_code == 0, outcome.words
        assert outcome.calls[0].directory == str(tmp_path / "a launch")
        assert program_of(outcome.calls[0])[-1] == "a b"


def test_cdpath_does_not_lead_elsewhere(make_recipe, bench, tmp_path):
    put_files(tmp_path / "here" / "launch", render("torchrun", make_recipe()))
    (tmp_path / "there" / "launch").mkdir(parents=True)
    outcome = bench.run("launch/launch.sh", cwd=tmp_path / "here", CDPATH=str(tmp_path / "there"))
    assert outcome.calls[0].directory == str(tmp_path / "here" / "launch")


def test_several_nodes_meet_at_the_first_with_ranks_in_order(make_recipe, bench, tmp_path):
    recipe = make_recipe(nodes=3, resources={"hosts": ("a", "b", "c")})
    script = put_files(tmp_path / "launch", render("torchrun", recipe))
    calls = [
        bench.run(str(script), *arguments).calls[0]
        for arguments in (("0", "5"), ("2", "5", "--", "--steps", "1"), ("1", "6"))
    ]
    assert [option(call, "--node-rank") for call in calls] == ["0", "2", "1"]
    assert {option(call, "--master-addr") for call in calls} == {"a"}
    assert {option(call, "--nnodes") for call in calls} == {"3"}
    assert (
        option(calls[0], "--master-port")
        == option(calls[1], "--master-port")
        != option(calls[2], "--master-port")
    )
    assert [option(call, "--rdzv-id") for call in calls] == ["mini-5", "mini-5", "mini-6"]
    assert all(20000 <= int(option(call, "--master-port")) < 30000 for call in calls)
    assert program_of(calls[1])[-2:] == ["--steps", "1"]


def test_node_rank_master_and_port_may_come_from_the_environment(make_recipe, bench, tmp_path):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe(nodes=2)))
    outcome = bench.run(str(script), NODE_RANK="1", ATTEMPT="08", MASTER_ADDR="10.0.0.1", MASTER_PORT="4000")
    (call,) = outcome.calls
    assert [
        option(call, name) for name in ("--node-rank", "--master-addr", "--master-port", "--rdzv-id")
    ] == [*("1", "10.0.0.1", "4000", "mini-8")]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "NODE_RANK is missing"),
        (("--", "x"), "NODE_RANK is missing"),
        (("one",), "NODE_RANK one is not a number"),
        (("-1",), "NODE_RANK -1 is not a number"),
        (("2",), "NODE_RANK 2 is larger than 1"),
        (("99999999999999999999",), "is not a number"),
        (("1", "x[$(touch injected)]"), "ATTEMPT x[$(touch injected)] is not a number"),
        (("1", "2", "3"), "unexpected argument 3"),
        (("1",), "MASTER_ADDR is not set"),
    ],
)
def test_wrong_calls_on_several_nodes_are_reported(make_recipe, bench, tmp_path, arguments, complaint):
    script = put_files(tmp_path / "launch", render("torchrun", make_recipe(nodes=2)))
    outcome = bench.run(str(script), *arguments)
    assert outcome.exit_code == 2
    assert complaint in outcome.words
    assert "usage: launch.sh NODE_RANK [ATTEMPT]" in outcome.words
    assert not outcome.calls
    assert not list(tmp_path.rglob("injected"))


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_all_hosts_are_started_in_order_whatever_their_shell(make_recipe, bench, tmp_path, shell):
    bench.stand_in(
        "ssh",
        f"while [[ $1 == -* && $1 != -- ]]; do [[ $1 == -o ]] && shift; shift; done\nHOST=$2 exec {shell} -c "
        '"$3"',
    )
    recipe = make_recipe(nodes=2, resources={"hosts": ("a", "b")})
    folder = tmp_path / "it's a $folder"
    put_files(folder, render("torchrun", recipe))
    outcome = bench.run(str(folder / "launch-all.sh"), "--", *NASTY)
    assert outcome.exit_code == 0, outcome.words
    calls = sorted(outcome.calls, key=lambda call: call.environment["HOST"])
    assert [(call.environment["HOST"], option(call, "--node-rank")) for call in calls] == [
        ("a", "0"),
        ("b", "1"),
    ]
    assert len({option(call, "--rdzv-id") for call in calls}) == 1
    assert all(tuple(call.arguments[-len(NASTY) :]) == NASTY for call in calls)


def test_a_users_program_starts_in_the_callers_folder_on_every_host(make_recipe, bench, tmp_path):
    bench.stand_in("ssh", 'cd / && sh -c "${@: -1}"')
    recipe = make_recipe(
        nodes=2, resources={"hosts": ("a", "b")}, command=Command(kind="module", target="pkg.train")
    )
    put_files(tmp_path / "launch", render("torchrun", recipe))
    here = tmp_path / "my folder"
    here.mkdir()
    outcome = bench.run(str(tmp_path / "launch" / "launch-all.sh"), cwd=here)
    assert [call.directory for call in outcome.calls] == [str(here)] * 2
    assert all(program_of(call)[:2] == ["-m", "pkg.train"] for call in outcome.calls)


def test_one_failing_host_ends_the_others(make_recipe, bench, tmp_path):
    bench.stand_in("ssh", '[[ $* == *"-- b"* ]] && exit 7\nexec sleep 1000')
    put_files(tmp_path, render("torchrun", make_recipe(nodes=2, resources={"hosts": ("a", "b")})))
    outcome = bench.run(str(tmp_path / "launch-all.sh"))
    assert outcome.exit_code == 7
    assert "exit code 7" in outcome.words


@pytest.mark.parametrize(
    ("master", "endpoint"), [("head", "head:"), ("fd00::1", "[fd00::1]:"), ("[fd00::1]", "[fd00::1]:")]
)
def test_the_port_of_a_rendezvous_is_apart_from_an_ipv6_address(
    make_recipe, bench, tmp_path, master, endpoint
):
    script = put_files(tmp_path, render("torchrun-elastic", make_recipe(nodes=2)))
    (call,) = bench.run(str(script), "0", MASTER_ADDR=master).calls
    assert re.fullmatch(re.escape(endpoint) + r"2\d{4}", option(call, "--rdzv-endpoint"))


@pytest.mark.parametrize("launcher", [row.id for row in LAUNCHERS if not row.software])
def test_the_folder_of_an_exported_helper_is_searched_for_modules(make_recipe, launcher):
    slots = {"container_image": "image:1", "role": "r", "instance_type": "ml.p5.48xlarge"}
    recipe = make_recipe(command=Command(kind="script", target="train.py"), slots=slots)
    helper = helper_file()
    with_helper = launch_files(recipe, launcher, helper)
    assert not any("PYTHONPATH" in file.text for file in launch_files(recipe, launcher))
    assert any("PYTHONPATH" in file.text for file in with_helper)
    assert helper in with_helper
    carrier = next((file.text for file in with_helper if "kind: ConfigMap" in file.text), HELPER)
    assert HELPER in carrier


def test_the_program_gets_the_folder_of_the_helper_first(make_recipe, bench, tmp_path):
    recipe = make_recipe(command=Command(kind="script", target="train.py"))
    script = put_files(tmp_path / "a b", launch_files(recipe, "torchrun", helper_file()))
    (call,) = bench.run(str(script), PYTHONPATH="/mine").calls
    assert call.environment["PYTHONPATH"] == f"{script.parent}:/mine"


@pytest.mark.parametrize("launcher", SELF_CONTAINED)
def test_a_contradictory_recipe_is_not_rendered(make_recipe, launcher):
    with pytest.raises(UsageError, match=r"parallelism\.global_batch"):
        render(launcher, make_recipe(parallelism={"global_batch": 7}))


@pytest.mark.parametrize("launcher", SELF_CONTAINED)
def test_unknown_placeholders_are_not_rendered(make_recipe, launcher):
    with pytest.raises(UsageError, match=r"no placeholder \{batch\}"):
        render(launcher, make_recipe(command=Command(kind="script", target="t.py", arguments=("{batch}",))))


@pytest.mark.parametrize("launcher", SELF_CONTAINED)
def test_the_scripts_own_variables_are_closed_to_recipes(make_recipe, launcher):
    """A recipe that sets `python` would start another program: names that a script assigns are refused."""
    recipe = make_recipe(nodes=2, resources={"hosts": ("a", "b"), "cpus_per_node": 1})
    for artifact in render(launcher, recipe):
        if artifact.path.endswith((".sh", ".sbatch")):
            assigned = set(re.findall(r"^\s*(?:local )?([a-z_]+)\+?=", artifact.text, re.MULTILINE))
            assigned |= set(re.findall(r"^\s*(?:for|read -r) ([a-z_]+)\b", artifact.text, re.MULTILINE)) - {
                "_"
            }
            assert assigned <= SCRIPT_VARIABLES, artifact.path
    entry = Environment(name="python", value="evil", why="", source="")
    assert [fault.place for fault in faults(make_recipe(environment=(entry,)))] == ["environment[0].name"]


@pytest.mark.parametrize(
    ("launcher", "nodes", "hosts", "command"),
    [
        ("torchrun", 1, (), ("/f/launch.sh", "--", "a b")),
        ("torchrun", 2, ("x", "y"), ("/f/launch-all.sh", "--", "a b")),
        ("slurm", 2, (), ("sbatch", "/f/train.sbatch", "--", "a b")),
        ("mpi", 2, (), ("/f/launch-mpi.sh", "--", "a b")),
    ],
)
def test_how_a_job_is_started(make_recipe, launcher, nodes, hosts, command):
    module = importlib.import_module(f"recipes.launch.launchers.{launcher}")
    assert module.start(make_recipe(nodes=nodes, resources={"hosts": hosts}), "/f", ("a b",)) == command


@pytest.mark.parametrize(
    ("nodes", "hosts", "has_script"),
    [(1, (), False), (1, ("a",), False), (2, (), False), (2, ("a", "b"), True)],
)
def test_all_hosts_have_a_script_only_if_there_are_several(make_recipe, nodes, hosts, has_script):
    files = render("torchrun", make_recipe(nodes=nodes, resources={"hosts": hosts}))
    assert ("launch-all.sh" in [file.path for file in files]) == has_script


def test_several_nodes_without_hosts_cannot_be_started_from_here(make_recipe):
    with pytest.raises(UsageError, match="names no hosts"):
        importlib.import_module("recipes.launch.launchers.torchrun").start(make_recipe(nodes=2), "/f", ())


def test_the_stand_in_itself_records_words_exactly(bench):
    """Guard the tests above: a recorder that loses characters would hide injections."""
    outcome = bench.run("bash", "-c", f"{shlex.quote(bench.recorder)} {' '.join(map(shlex.quote, NASTY))}")
    assert tuple(outcome.calls[0].arguments) == NASTY
