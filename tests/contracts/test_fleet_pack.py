"""Test that `rigtune fleet pack` builds an archive which `fleet check` sends to nodes and starts there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from assistant.cli import command_line
from assistant.formats.build import build_labels, build_line
from assistant.usecases.fleet.archives import archives_of, build_archive, read_archive
from probes.base.errors import InputError, OutputError, UsageError, WorkerError

pytest.importorskip("ClusterShell")
ROOT = Path(__file__).resolve().parents[2]
LARGEST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("shiv", reason="shiv is not installed")
    folder = tmp_path_factory.mktemp("archives")
    return build_archive(folder, build_labels()).path


def test_a_packed_archive_is_small_and_has_the_version_of_this_program(packed, tmp_path):
    assert packed.stat().st_size <= LARGEST_BYTES
    environment = {**os.environ, "SHIV_ROOT": str(tmp_path)}
    version = subprocess.run(
        (sys.executable, packed, "--version"), capture_output=True, text=True, env=environment, check=True
    )
    assert version.stdout == f"{build_line()}\n"
    assert [archive.path for archive in archives_of(packed.parent, build_labels())] == [packed]


def test_a_check_sends_the_archive_to_nodes_without_this_program(packed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    local = tmp_path / "local"
    local.mkdir()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / f"python{sys.version_info.major}.{sys.version_info.minor}").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    words = ["fleet", "check", "--engine", "exec", "-w", "n[1-2]", "--rigtune", "/nowhere/rigtune", "-q"]
    words += ["--ship", str(packed), "--node-folder", str(local), "--format", "json"]
    command_line(words)
    result = json.loads(capsys.readouterr().out)
    assert [node["outcome"] for node in result["nodes"]] == ["ok", "ok"], result["nodes"]
    assert all(node["verdict"] for node in result["nodes"])
    assert not [note for note in result["notes"] if "runs on" in note]
    assert not list(local.iterdir())


def test_a_changed_file_and_another_file_are_no_archives(packed, tmp_path):
    changed = tmp_path / packed.name
    changed.write_bytes(packed.read_bytes() + b"x")
    with pytest.raises(InputError, match="was changed"):
        read_archive(changed)
    with pytest.raises(InputError, match="is no archive"):
        read_archive(ROOT / "pyproject.toml")


def test_another_python_needs_a_wheelhouse(tmp_path):
    with pytest.raises(UsageError, match=r"not for 3\.1"):
        build_archive(tmp_path, build_labels(), "3.1")


def wheelhouse_of(folder: Path, commit: str | None) -> Path:
    """Return a new folder with a wheel of rigtune 9.1, which states `commit` unless this is None."""
    information = "rigtune-9.1.dist-info"
    files = {
        "rigtune/__init__.py": "def main():\n    print('from the wheelhouse')\n",
        **({"rigtune/_app/assistant/COMMIT": f"{commit}\n"} if commit else {}),
        f"{information}/METADATA": "Metadata-Version: 2.1\nName: rigtune\nVersion: 9.1\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{information}/RECORD"))
    wheelhouse = folder / "wheelhouse"
    wheelhouse.mkdir()
    with zipfile.ZipFile(wheelhouse / "rigtune-9.1-py3-none-any.whl", "w") as wheel:
        for name, text in (*files.items(), (f"{information}/RECORD", record)):
            wheel.writestr(name, text)
    return wheelhouse


def test_an_archive_for_another_python_is_built_from_a_wheelhouse(tmp_path, capsys):
    pytest.importorskip("shiv", reason="shiv is not installed")
    wheelhouse = wheelhouse_of(tmp_path, "0123456789abcdef")
    words = ["fleet", "pack", "--python-version", "3.13", "--wheelhouse", str(wheelhouse)]
    assert command_line([*words, "--out", str(tmp_path)]) == 0
    path = Path(capsys.readouterr().out.splitlines()[0])
    assert path.name.startswith("rigtune-9.1-0123456789ab-py313-")
    assert read_archive(path).python == "3.13"
    done = subprocess.run(
        (sys.executable, path),
        capture_output=True,
        text=True,
        env={**os.environ, "SHIV_ROOT": str(tmp_path)},
        check=True,
    )
    assert done.stdout == "from the wheelhouse\n"


def test_a_wheelhouse_without_rigtune_is_an_error(tmp_path):
    pytest.importorskip("shiv", reason="shiv is not installed")
    with pytest.raises(WorkerError, match="pip failed"):
        build_archive(tmp_path, build_labels(), "3.13", tmp_path)
    assert not list(tmp_path.iterdir())


def test_an_old_wheel_without_a_commit_is_named(tmp_path):
    pytest.importorskip("shiv", reason="shiv is not installed")
    with pytest.raises(InputError, match=r"rigtune 9\.1 does not state the commit"):
        build_archive(tmp_path, build_labels(), "3.13", wheelhouse_of(tmp_path, None))


def test_a_source_tree_that_is_not_installed_needs_a_wheelhouse(tmp_path, monkeypatch):
    pytest.importorskip("shiv", reason="shiv is not installed")

    def missing(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", missing)
    with pytest.raises(UsageError, match="source tree") as caught:
        build_archive(tmp_path, build_labels())
    assert "--wheelhouse" in caught.value.hint


def test_a_machine_without_a_temporary_folder_says_so(tmp_path, monkeypatch):
    pytest.importorskip("shiv", reason="shiv is not installed")
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    with pytest.raises(OutputError, match="cannot make a temporary folder"):
        build_archive(tmp_path, build_labels())


@pytest.mark.root
@pytest.mark.slow
def test_a_full_temporary_folder_is_named_once(tmp_path, monkeypatch):
    pytest.importorskip("shiv", reason="shiv is not installed")
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=1m", "none", small), check=True)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(small))
        with pytest.raises(OutputError, match="no space left on device") as caught:
            build_archive(tmp_path, build_labels())
        assert len(caught.value.message) < 200
        assert not list(small.iterdir())
    finally:
        subprocess.run(("umount", small), check=True)
