"""Fixtures that several test folders use."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

NvmlStandin = Callable[[str], dict[str, str]]
"""Takes the text of a scenario, puts the stand-in in force and returns the environment variables that do so."""

_SOURCE = Path(__file__).parent / "native" / "nvml_standin.c"


@pytest.fixture(scope="session")
def nvml_library_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds libnvidia-ml.so.1; skips where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler for the NVML stand-in")
    folder = tmp_path_factory.mktemp("nvml")
    target = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-o", str(target), str(_SOURCE)], check=True, timeout=120
    )
    return folder


@pytest.fixture
def nvml_standin(
    nvml_library_folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> NvmlStandin:
    """`nvml_standin("gpu_count = 8\\nhang = nvmlDeviceGetTemperature")` makes this process and its children see that machine."""

    def use(scenario: str) -> dict[str, str]:
        file = tmp_path_factory.mktemp("scenario") / "scenario.txt"
        file.write_text(scenario)
        path = ":".join(filter(None, (str(nvml_library_folder), os.environ.get("LD_LIBRARY_PATH", ""))))
        variables = {"LD_LIBRARY_PATH": path, "RIGTUNE_NVML_SCENARIO": str(file)}
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return variables

    return use
