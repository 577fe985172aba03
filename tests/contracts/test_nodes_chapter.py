"""Test that the ways of installation in `assistant/docs/nodes.md` work without a network."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
CHAPTER = (ROOT / "assistant" / "docs" / "nodes.md").read_text()


def run(*argv: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **variables}
    return subprocess.run(
        [str(word) for word in argv],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def block_with(word: str) -> str:
    """Return the first block of the chapter's commands that contains `word`."""
    blocks = re.findall(r"(?:^    .*\n)+", CHAPTER, re.MULTILINE)
    return textwrap.dedent(next(block for block in blocks if word in block))


@pytest.fixture(scope="module")
def wheelhouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nodes") / "wheelhouse"
    argv = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
    done = run(*argv, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def packages_of(name: str) -> set[str]:
    """Return the names of the installed packages that `name` needs, itself not included."""
    needed: set[str] = set()
    for text in importlib.metadata.requires(name) or ():
        requirement = Requirement(text)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if applies and requirement.name not in needed:
            needed |= {requirement.name, *packages_of(requirement.name)}
    return needed


@pytest.fixture(scope="module")
def archive(wheelhouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the archive from the wheel and from the packages that the tests use, instead of downloads."""
    pytest.importorskip("shiv", reason="shiv is not installed")
    folder = tmp_path_factory.mktemp("archive")
    (wheel,) = wheelhouse.glob("*.whl")
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    done = run(*pip, "install", "--no-deps", "--no-index", "--target", folder / "site", wheel, cwd=folder)
    assert done.returncode == 0, done.stderr
    for name in packages_of("rigtune"):
        for file in importlib.metadata.files(name) or ():
            if ".." not in file.parts and file.suffix != ".pyc":
                target = folder / "site" / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(file.locate()), target)
    command = block_with("shiv --reproducible").partition("\n")[2].partition("./rigtune.pyz")[0]
    command = command.replace("--no-index --find-links wheelhouse rigtune", "--site-packages site")
    command = command.replace("shiv ", f"{sys.executable} -m shiv.cli ", 1)
    done = run("bash", "-ec", command.replace("/usr/bin/env python3", sys.executable), cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "rigtune.pyz"


def test_an_archive_names_its_version_and_checks_the_machine(archive: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    version = run(archive, "--version", cwd=tmp_path, SHIV_ROOT=str(root))
    assert re.fullmatch(r"rigtune \S+ \(commit ([0-9a-f]{12}|unknown)\)\n", version.stdout), version.stderr
    checked = run(archive, "check", "--format", "json", cwd=tmp_path, SHIV_ROOT=str(root))
    assert checked.returncode in (0, 1, 3), checked.stderr
    verdict = json.loads(checked.stdout)
    assert verdict["findings"]
    assert version.stdout == "rigtune {version} (commit {commit})\n".format(**verdict["rigtune"])
    assert [path.name.partition("_")[0] for path in root.iterdir() if path.is_dir()] == ["rigtune.pyz"]


def test_an_archive_that_cannot_be_unpacked_gives_no_verdict(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run(archive, "check", "--format", "nagios", cwd=tmp_path, SHIV_ROOT=str(tmp_path / "file" / "x"))
    assert done.returncode not in (0, 2)
    assert "RIGTUNE" not in done.stdout


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_wheelhouse_is_installed_by_hash(wheelhouse: Path, tmp_path: Path, is_changed: bool) -> None:
    folder = tmp_path / "wheelhouse"
    shutil.copytree(wheelhouse, folder)
    assert run("bash", "-ec", block_with("--hash=sha256"), cwd=tmp_path).returncode == 0
    if is_changed:
        (wheel,) = folder.glob("*.whl")
        wheel.write_bytes(wheel.read_bytes() + b"\0")
    install = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--require-hashes")
    done = run(*install, "--target", tmp_path / "site", "-r", "requirements.txt", cwd=folder)
    assert (done.returncode != 0) is is_changed
    assert ("DO NOT MATCH THE HASHES" in done.stderr) is is_changed
