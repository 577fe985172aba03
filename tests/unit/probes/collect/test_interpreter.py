"""Test the choice of the training interpreter among files that are laid out as installers do."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.collect import interpreter as collector
from probes.collect.collecting import CollectOptions
from probes.facts import TrainingPython
from probes.sources.base import CommandResult
from tests.support.fake_source import FakeSource

TORCH = "__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
CPU_TORCH = "__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\n"


def venv(
    prefix: str, torch: str | None = TORCH, *, system: bool = False, nccl: bool = True
) -> dict[str, str]:
    """Return the files of a virtual environment."""
    site = f"{prefix}/lib/python3.11/site-packages"
    files = {
        f"{prefix}/pyvenv.cfg": f"home = /usr/bin\ninclude-system-site-packages = "
        f"{str(system).lower()}\nversion = 3.11.7\n",
        f"{prefix}/bin/python": "",
        f"{site}/pip/__init__.py": "",
    }
    if torch is not None:
        files[f"{site}/torch/version.py"] = torch
        if nccl:
            files[f"{site}/nvidia_nccl_cu12-2.27.3.dist-info/METADATA"] = ""
    return files


def system_python(torch_folder: str | None = None) -> dict[str, str]:
    """Return the files of Debian's own Python."""
    files = {
        "/usr/bin/python3.11": "",
        "/usr/lib/python3.11/os.py": "",
        "/usr/lib/python3/dist-packages/yaml.py": "",
    }
    return files | ({f"{torch_folder}/torch/version.py": TORCH} if torch_folder else {})


PATH = {"PATH": "/nowhere:/usr/bin"}
LINKS = {"/usr/bin/python3": "/usr/bin/python3.11"}


def training(source: FakeSource, **options: object) -> TrainingPython:
    interpreter = collector.collect(source, CollectOptions(**options))["training"]  # type: ignore[arg-type]
    assert isinstance(interpreter, TrainingPython)
    return interpreter


def test_the_first_candidate_with_torch_wins() -> None:
    files = venv("/venv", torch=None) | venv("/conda") | venv("/home/me/.venv") | venv("/own")
    source = FakeSource(files=files, env={"VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"})
    interpreter = training(source, directory="/home/me", own_python="/own/bin/python")
    assert (interpreter.path, interpreter.found_by) == ("/conda/bin/python", "CONDA_PREFIX")
    assert (interpreter.torch_version, interpreter.torch_cuda_version, interpreter.nccl_version) == (
        "2.8.0+cu128",
        "12.8",
        "2.27.3",
    )
    assert interpreter.python_version == "3.11.7"
    assert interpreter.evidence[0].key == "/conda/lib/python3.11/site-packages/torch/version.py"
    assert source.asked == []


@pytest.mark.parametrize(
    ("prefix", "found_by"),
    [("/home/me/.venv", "./.venv"), ("/own", "rigtune's own")],
    ids=["working directory", "own"],
)
def test_later_candidates(prefix: str, found_by: str) -> None:
    interpreter = training(FakeSource(files=venv(prefix)), directory="/home/me", own_python="/own/bin/python")
    assert (interpreter.path, interpreter.found_by) == (f"{prefix}/bin/python", found_by)


@pytest.mark.parametrize(
    "folder",
    [
        "/usr/local/lib/python3.11/dist-packages",
        "/usr/lib/python3/dist-packages",
        "/home/user/.local/lib/python3.11/site-packages",
    ],
)
def test_the_systems_own_python(folder: str) -> None:
    source = FakeSource(files=system_python(folder), links=LINKS, env={**PATH, "HOME": "/home/user"})
    interpreter = training(source)
    assert (interpreter.path, interpreter.found_by, interpreter.python_version) == (
        "/usr/bin/python3",
        "PATH",
        "3.11",
    )
    assert interpreter.torch_version == "2.8.0+cu128"


def test_an_environment_with_access_to_system_packages_has_their_torch() -> None:
    files = system_python("/usr/local/lib/python3.11/dist-packages") | venv("/venv", torch=None, system=True)
    interpreter = training(FakeSource(files=files, env={"VIRTUAL_ENV": "/venv"}))
    assert interpreter.path == "/venv/bin/python"
    assert interpreter.torch_version == "2.8.0+cu128"


def test_an_environment_does_not_see_them_by_default() -> None:
    files = system_python("/usr/local/lib/python3.11/dist-packages") | venv("/venv", torch=None)
    assert training(FakeSource(files=files, env={"VIRTUAL_ENV": "/venv"})).path is None


def test_a_build_without_cuda_has_neither_cuda_nor_nccl() -> None:
    interpreter = training(FakeSource(files=venv("/venv", CPU_TORCH), env={"VIRTUAL_ENV": "/venv"}))
    assert (interpreter.torch_cuda_version, interpreter.nccl_version) == (None, None)


def test_nccl_inside_torch_is_unknown() -> None:
    interpreter = training(FakeSource(files=venv("/venv", nccl=False), env={"VIRTUAL_ENV": "/venv"}))
    assert isinstance(interpreter.nccl_version, Unknown)


def test_the_only_library_folder_names_the_version() -> None:
    files = {"/opt/py/bin/python": "", "/opt/py/lib/python3.11/site-packages/torch/version.py": TORCH}
    alone = training(FakeSource(files=files), python="/opt/py/bin/python", ask_interpreters=False)
    assert (alone.python_version, alone.torch_version) == ("3.11", "2.8.0+cu128")
    two = FakeSource(files=files | {"/opt/py/lib/python3.10/os.py": ""})
    ambiguous = training(two, python="/opt/py/bin/python", ask_interpreters=False)
    assert isinstance(ambiguous.python_version, Unknown)


def test_without_torch_anywhere_no_interpreter_is_chosen() -> None:
    interpreter = training(FakeSource(files=system_python(), links=LINKS, env=PATH))
    assert (interpreter.path, interpreter.torch_version) == (None, None)


@pytest.mark.parametrize("name", ["/venv/bin/python", "../venv/bin/python", "~/python", "python"])
def test_the_named_one_is_used_whatever_it_has(name: str) -> None:
    files = venv("/venv", torch=None) | venv("/other")
    source = FakeSource(
        files=files | {"/home/user/python": ""},
        links={"/home/user/python": "/venv/bin/python"} if name.startswith("~") else {},
        env={"VIRTUAL_ENV": "/other", "PATH": "/venv/bin", "HOME": "/home/user"},
    )
    interpreter = training(source, python=name, directory="/home", ask_interpreters=False)
    assert interpreter.found_by == "--python"
    assert interpreter.path == ("/home/user/python" if name.startswith("~") else "/venv/bin/python")
    assert interpreter.torch_version is None or isinstance(interpreter.torch_version, Unknown)


def test_a_named_one_that_does_not_exist() -> None:
    interpreter = training(
        FakeSource(files=venv("/venv"), env={"VIRTUAL_ENV": "/venv"}), python="/gone/python"
    )
    assert isinstance(interpreter.path, Unknown)
    assert "/gone/python does not exist" in interpreter.path.detail


WRAPPER = {"/opt/wrap/python3": "#!/bin/sh\n"}
QUESTION = "import sys; print(sys.prefix); print(sys.base_prefix); print(sys.version.split()[0])"


def test_a_wrapper_is_started_once() -> None:
    files = WRAPPER | {"/opt/real/lib/python3.12/site-packages/torch/version.py": TORCH}
    answer = {f"/opt/wrap/python3 -c {QUESTION}": "/opt/real\n/opt/real\n3.12.4\n"}
    source = FakeSource(files=files, commands=answer, env={"PATH": "/opt/wrap"})
    interpreter = training(source)
    assert (interpreter.path, interpreter.python_version, interpreter.torch_version) == (
        "/opt/wrap/python3",
        "3.12.4",
        "2.8.0+cu128",
    )
    assert len(source.asked) == 1


@pytest.mark.parametrize("answer", ["", "garbage", "/opt/real\n", "relative\nx\n3.12.4\n"])
def test_a_wrapper_that_answers_nonsense(answer: str) -> None:
    source = FakeSource(
        files=WRAPPER, commands={f"/opt/wrap/python3 -c {QUESTION}": answer}, env={"PATH": "/opt/wrap"}
    )
    interpreter = training(source)
    assert isinstance(interpreter.path, Unknown)
    assert interpreter.path.reason is Reason.UNPARSABLE


def test_a_wrapper_that_must_not_be_started() -> None:
    source = FakeSource(files=WRAPPER, env={"PATH": "/opt/wrap"})
    interpreter = training(source, ask_interpreters=False)
    assert isinstance(interpreter.path, Unknown)
    assert "wrapper" in interpreter.path.detail
    assert source.asked == []


@pytest.mark.parametrize(
    ("files", "env"),
    [
        ({"/r/version": "3.11.7\n"}, {}),
        ({"/r/version": "3.9.1\n", "/home/.python-version": "3.11.7\n"}, {}),
        ({"/home/me/.python-version": "3.9.1\n"}, {"PYENV_VERSION": "3.11.7"}),
    ],
    ids=["global", "on the way up", "variable"],
)
def test_a_pyenv_shim_is_followed_without_starting_it(files: dict[str, str], env: dict[str, str]) -> None:
    versions = {
        "/r/versions/3.11.7/lib/python3.11/site-packages/torch/version.py": TORCH,
        "/r/versions/3.9.1/bin/python3": "",
    }
    source = FakeSource(
        files={"/r/shims/python3": "#!/bin/sh", **versions, **files},
        links={"/r/versions/3.11.7/bin/python3": "/r/versions/3.11.7/bin/python3.11"},
        env={"PATH": "/r/shims", **env},
    )
    interpreter = training(source, directory="/home/me")
    assert (interpreter.path, interpreter.python_version) == ("/r/shims/python3", "3.11")
    assert source.asked == []


def test_nothing_recorded() -> None:
    result = training(FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(result.path, Unknown)
    assert result.path.reason is Reason.NOT_RECORDED


class Host(FakeSource):
    """A live machine on which all files belong to root, except those in `owners`."""

    is_live = True

    def __init__(self, *, uid: int, owners: dict[str, str] | None = None, **facts: object) -> None:
        files = {"/proc/self/status": f"Uid:\t{uid}\t{uid}\t{uid}\t{uid}\n", **facts.pop("files", {})}  # type: ignore[dict-item]
        super().__init__(files=files, **facts)  # type: ignore[arg-type]
        self._owners = owners or {}

    def run(self, argv: tuple[str, ...], *, timeout_s: float = 10.0) -> CommandResult:
        if argv[0] != "stat":
            return super().run(argv, timeout_s=timeout_s)
        rows = [self._owners.get(path, "0 0 41ed") for path in argv[4:]]
        return CommandResult(stdout="\n".join(rows).encode())


FOREIGN, PUBLIC, MINE = "2000 2000 41ed", "0 0 41ff", "1000 1000 41ed"


@pytest.mark.parametrize("uid", [0, 1000])
@pytest.mark.parametrize("owner", [FOREIGN, PUBLIC])
def test_nothing_that_others_can_write_is_started_from_the_current_folder(uid: int, owner: str) -> None:
    source = Host(uid=uid, files={"/shared/.venv/bin/python": "#!/bin/sh\n"}, owners={"/shared": owner})
    result = training(source, directory="/shared")
    assert isinstance(result.path, Unknown)
    assert result.path.reason is Reason.PERMISSION
    (why,) = result.refused
    assert why.startswith("/shared/.venv/bin/python is not started: ")
    assert why.endswith("--python /shared/.venv/bin/python")
    assert source.asked == []


def test_a_refused_one_gives_way_to_the_next_and_is_named() -> None:
    files = venv("/shared/.venv") | venv("/own")
    result = training(
        Host(uid=1000, files=files, owners={"/shared": FOREIGN}),
        directory="/shared",
        own_python="/own/bin/python",
    )
    assert (result.path, result.found_by) == ("/own/bin/python", "rigtune's own")
    assert "/shared belongs to user 2000" in result.refused[0]


def test_an_interpreter_without_torch_is_not_reported_as_refused() -> None:
    result = training(
        Host(uid=1000, files=venv("/shared/.venv", torch=None), owners={"/shared": FOREIGN}),
        directory="/shared",
    )
    assert (result.path, result.refused) == (None, ())


def test_an_interpreter_in_a_folder_of_the_caller_is_accepted() -> None:
    result = training(
        Host(uid=1000, files=venv("/home/me/.venv"), owners={"/home/me": MINE}), directory="/home/me"
    )
    assert (result.path, result.found_by, result.refused) == ("/home/me/.venv/bin/python", "./.venv", ())


def test_root_starts_nothing_from_its_own_current_folder_unasked() -> None:
    host = Host(uid=0, files=venv("/srv/training/.venv"))
    assert "unless you name it" in training(host, directory="/srv/training").refused[0]
    named = training(host, directory="/srv/training", python=".venv/bin/python")
    assert (named.path, named.refused) == ("/srv/training/.venv/bin/python", ())


@pytest.mark.parametrize(
    ("uid", "path", "owners", "is_refused"),
    [
        (1000, "/usr/bin", {"/venv": FOREIGN}, False),
        (0, "/venv/bin:/usr/bin", {}, False),
        (0, "/usr/bin", {}, True),
        (0, "/venv/bin:/usr/bin", {"/venv": FOREIGN}, True),
        (0, "/venv/bin:/usr/bin", {"/venv/bin/python": "0 0 81ff"}, True),
    ],
)
@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_root_wants_more_of_an_active_environment(
    variable: str, uid: int, path: str, owners: dict[str, str], is_refused: bool
) -> None:
    result = training(
        Host(uid=uid, files=venv("/venv"), owners=owners, env={variable: "/venv", "PATH": path})
    )
    assert bool(result.refused) is is_refused
    assert result.path == "/venv/bin/python" or is_refused


@pytest.mark.parametrize(
    ("uid", "owner", "path"), [(0, FOREIGN, None), (0, MINE, None), (1000, FOREIGN, None), (1000, MINE, "/s")]
)
def test_an_interpreter_of_another_user_is_refused_although_it_is_on_the_path(
    uid: int, owner: str, path: str | None
) -> None:
    files = {"/s/bin/python3.11": "", "/s/lib/python3.11/site-packages/torch/version.py": TORCH}
    links = {"/s/bin/python3": "/s/bin/python3.11"}
    result = training(Host(uid=uid, files=files, links=links, owners={"/s": owner}, env={"PATH": "/s/bin"}))
    assert result.path == (f"{path}/bin/python3" if path else result.path)
    assert bool(result.refused) is (path is None)


@pytest.mark.parametrize("version", ["../../srv/evil", "/srv/evil", ".."])
def test_a_folder_names_no_path_to_pyenv(version: str) -> None:
    files = {
        "/r/shims/python3": "#!/bin/sh",
        "/home/.python-version": version,
        "/srv/evil/bin/python3": "#!/bin/sh",
    }
    target = f"/r/versions/{version}/bin/python3"
    source = FakeSource(files=files, links={target: "/srv/evil/bin/python3"}, env={"PATH": "/r/shims"})
    training(source, directory="/home")
    assert all("/r/shims/python3" in question for question in source.asked)


def test_an_interpreter_of_a_recording_without_owners_is_accepted() -> None:
    files = venv("/shared/.venv") | {"/proc/self/status": "Uid:\t0\t0\t0\t0\n"}
    source = FakeSource(files=files, missing=Reason.NOT_RECORDED, env={"VIRTUAL_ENV": "", "CONDA_PREFIX": ""})
    result = training(source, directory="/shared")
    assert result.path == "/shared/.venv/bin/python"
