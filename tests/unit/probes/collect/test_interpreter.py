"""The training interpreter, from files that are laid out as installers do."""

from __future__ import annotations

import pytest

from probes.base.record import Reason, Unknown
from probes.collect import interpreter as collector
from probes.collect.collecting import CollectOptions
from probes.facts import TrainingPython
from tests.support.fake_source import FakeSource

TORCH = "__version__ = '2.8.0+cu128'\ncuda: Optional[str] = '12.8'\nhip: Optional[str] = None\n"
CPU_TORCH = "__version__ = '2.8.0+cpu'\ncuda: Optional[str] = None\n"


def venv(
    prefix: str, torch: str | None = TORCH, *, system: bool = False, nccl: bool = True
) -> dict[str, str]:
    """The files of a virtual environment."""
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
    """Debian's own Python."""
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
        "/root/.local/lib/python3.11/site-packages",
    ],
)
def test_the_systems_own_python(folder: str) -> None:
    source = FakeSource(files=system_python(folder), links=LINKS, env={**PATH, "HOME": "/root"})
    interpreter = training(source)
    assert (interpreter.path, interpreter.found_by, interpreter.python_version) == (
        "/usr/bin/python3",
        "PATH",
        "3.11",
    )
    assert interpreter.torch_version == "2.8.0+cu128"


def test_an_environment_that_sees_the_systems_packages() -> None:
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


def test_nobody_has_torch() -> None:
    interpreter = training(FakeSource(files=system_python(), links=LINKS, env=PATH))
    assert (interpreter.path, interpreter.torch_version) == (None, None)


@pytest.mark.parametrize("name", ["/venv/bin/python", "../venv/bin/python", "~/python", "python"])
def test_the_named_one_is_used_whatever_it_has(name: str) -> None:
    files = venv("/venv", torch=None) | venv("/other")
    source = FakeSource(
        files=files | {"/root/python": ""},
        links={"/root/python": "/venv/bin/python"} if name.startswith("~") else {},
        env={"VIRTUAL_ENV": "/other", "PATH": "/venv/bin", "HOME": "/root"},
    )
    interpreter = training(source, python=name, directory="/home", ask_interpreters=False)
    assert interpreter.found_by == "--python"
    assert interpreter.path == ("/root/python" if name.startswith("~") else "/venv/bin/python")
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
    interpreter = training(FakeSource(missing=Reason.NOT_RECORDED))
    assert isinstance(interpreter.path, Unknown)
    assert interpreter.path.reason is Reason.NOT_RECORDED
