"""Test that the wheel owns only the name `rigtune`, and works beside a package with a folder `recipes`.

Removing rigtune must not remove that folder.
"""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

FOREIGN = {
    "pyproject.toml": '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    '[project]\nname = "foreign-recipes"\nversion = "1"\n[tool.hatch.build]\nonly-include = ["recipes"]\n',
    "recipes/__init__.py": 'raise ImportError("the foreign recipes package was imported")\n',
}


def _run(*argv: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in argv], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def _wheel(project: Path, out: Path) -> Path:
    done = _run(
        sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, project, cwd=project
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _wheel(ROOT, tmp_path_factory.mktemp("wheel"))


def test_the_wheel_owns_one_top_level_name(wheel: Path) -> None:
    tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rigtune"}


def test_the_wheel_carries_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for data in (
        ROOT / "probes" / "data",
        ROOT / "recipes" / "data",
        ROOT / "recipes" / "templates",
        ROOT / "probes" / "workers",
    ):
        for path in data.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                assert f"rigtune/_app/{path.relative_to(ROOT)}" in names
    assert not [name for name in names if "/tests/" in name]


def test_rigtune_works_beside_a_package_named_recipes(wheel: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    for name, text in FOREIGN.items():
        (foreign / name).parent.mkdir(parents=True, exist_ok=True)
        (foreign / name).write_text(text)
    foreign_wheel = _wheel(foreign, tmp_path / "dist")
    site = tmp_path / "venv"
    assert (
        _run(
            sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", site, cwd=tmp_path
        ).returncode
        == 0
    )
    python = site / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check")
    done = _run(*pip, "install", "--no-deps", "--no-index", foreign_wheel, wheel, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # The dependencies come from the interpreter that runs the tests.
    dependencies = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    (next((site / "lib").glob("python3*")) / "site-packages" / "dependencies.pth").write_text(
        f"{dependencies}\n"
    )

    (tmp_path / "elsewhere" / "recipes").mkdir(parents=True)
    (tmp_path / "elsewhere" / "recipes" / "__init__.py").write_text(
        'raise ImportError("the folder of the user was imported")\n'
    )
    listed = _run(site / "bin" / "rigtune", "list", "launchers", cwd=tmp_path / "elsewhere")
    assert listed.returncode == 0, listed.stderr
    assert "torchrun" in listed.stdout

    assert _run(*pip, "uninstall", "--yes", "rigtune", cwd=tmp_path).returncode == 0
    owned = next((site / "lib").glob("python3*")) / "site-packages"
    assert (owned / "recipes" / "__init__.py").read_text() == FOREIGN["recipes/__init__.py"]
    assert not (owned / "rigtune" / "__init__.py").exists()
