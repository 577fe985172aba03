"""Fixtures that several test folders use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, settings

from assistant.processes.interpreter import vet
from probes.base.errors import InterpreterError
from recipes.launch.recipe import Command, Convergence, Parallelism, Recipe, Resources
from tests.support.model_shapes import decoder_shape

# No test depends on the speed of the machine, and the same tree gives the same result each time.
# `pytest --hypothesis-profile=explore` draws new examples at each run.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rigtune", _UNTIMED, derandomize=True)
settings.register_profile("explore", _UNTIMED)
settings.load_profile("rigtune")

# Under nohup, all processes of the tests would inherit that SIGHUP is ignored, so that traps never run.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A shell starts background jobs with ignored interrupts, which tests of Ctrl-C would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test uses the states, histories and packed archives of the user who runs the tests.
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="rigtune-test-state-")
os.environ["XDG_DATA_HOME"] = tempfile.mkdtemp(prefix="rigtune-test-data-")

NvmlStandin = Callable[[str], dict[str, str]]
"""Function that installs the NVML stand-in for a scenario and returns its environment variables."""

_SOURCE = Path(__file__).parent / "native" / "nvml_standin.c"


@pytest.fixture(scope="session")
def nvml_library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that contains libnvidia-ml.so.1; the test is skipped without a C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the NVML stand-in")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(target), str(_SOURCE)],
        check=True,
        timeout=120,
    )
    return folder


@pytest.fixture
def nvml_standin(
    nvml_library_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> NvmlStandin:
    """Return a function that makes this process and its children see the machine of a scenario.

    Example: `nvml_standin("gpu_count = 8\\nhang = nvmlDeviceGetTemperature")`.
    """

    def use(scenario: str) -> dict[str, str]:
        file = tmp_path_factory.mktemp("scenario") / "scenario.txt"
        file.write_text(scenario)
        path = ":".join(filter(None, (str(nvml_library_folder), os.environ.get("LD_LIBRARY_PATH", ""))))
        variables = {"LD_LIBRARY_PATH": path, "RIGTUNE_NVML_SCENARIO": str(file)}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return variables

    return use


@pytest.fixture(scope="session")
def torch_python() -> str:
    """Return the first interpreter with torch: RIGTUNE_TEST_PYTHON, the environment's, this one, python3."""
    environments = [os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX")]
    candidates = [
        os.environ.get("RIGTUNE_TEST_PYTHON"),
        *(f"{path}/bin/python" for path in environments if path),
    ]
    for candidate in (*candidates, sys.executable, shutil.which("python3")):
        if candidate:
            try:
                return vet(candidate).path
            except InterpreterError:
                continue
    pytest.skip("needs an interpreter with torch: set RIGTUNE_TEST_PYTHON to one")


MakeRecipe = Callable[..., Recipe]


@pytest.fixture
def make_recipe() -> MakeRecipe:
    """Return a function that makes a small valid CPU recipe with the given values: `make_recipe(nodes=2)`."""

    def make(
        *,
        nodes: int = 1,
        ranks_per_node: int = 2,
        parallelism: dict[str, object] | None = None,
        resources: dict[str, object] | None = None,
        **fields: object,
    ) -> Recipe:
        recipe = Recipe(
            name="mini",
            title="rigtune-mini on a CPU",
            model=decoder_shape(
                "mini",
                layers=2,
                hidden=64,
                heads=4,
                kv_heads=2,
                head_dim=16,
                ffn_hidden=128,
                vocab=256,
                sequence_length=32,
            ),
            parallelism=msgspec.structs.replace(
                Parallelism(
                    strategy="ddp",
                    nodes=nodes,
                    ranks_per_node=ranks_per_node,
                    micro_batch=2,
                    grad_accum=2,
                    global_batch=4 * nodes * ranks_per_node,
                    precision="fp32",
                ),
                **(parallelism or {}),
            ),
            convergence=Convergence(learning_rate=3e-3, warmup_steps=2, steps=20),
            resources=Resources(**{"device": "cpu", "backend": "gloo", **(resources or {})}),
            command=Command(kind="reference"),
        )
        return msgspec.structs.replace(recipe, **fields)

    return make
