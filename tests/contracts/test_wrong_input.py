"""Test that wrong input gives one line with the input and a remedy, and the documented exit code.

No file is left incomplete.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from probes.base.errors import ExitCode

ROOT = Path(__file__).resolve().parents[2]


def rigtune(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(cwd / "state")}
    argv = [sys.executable, "-m", "assistant", *(str(argument) for argument in arguments)]
    return subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def assert_one_line(
    done: subprocess.CompletedProcess[str], *words: str, code: ExitCode = ExitCode.USAGE
) -> None:
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert done.stderr.startswith("rigtune: ")
    assert "hint: " in done.stderr
    for word in words:
        assert word in done.stderr


def test_exit_codes_are_frozen() -> None:
    assert {code.name: int(code) for code in ExitCode} == {
        "OK": 0, "FINDINGS": 1, "USAGE": 2, "UNKNOWN": 3, "WORKER": 4, "NO_PLAN": 5,
        "BUG": 70, "INTERRUPTED": 130,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan", "lama-3-8b", "--machine", "dgx-h100"), ("lama-3-8b", "llama-3-8b")),
        (("plan", "llama-3-8b", "--machine", "dgx-h1000"), ("dgx-h1000", "dgx-h100")),
        (("plan", "llama-3-8b", "--machine", "dgx-h100", "--nodes", "0"), ("--nodes", "0")),
        (("plan", "llama-3-8b", "--machine", "dgx-h100", "--nodes", "99999999"), ("--nodes", "100000")),
        (("plan", "llama-3-8b", "--machine", "dgx-h100", "--micro-batch", "-1"), ("--micro-batch", "-1")),
        (("plan", "missing.toml", "--machine", "dgx-h100"), ("missing.toml", "no such file")),
        (("export", "missing.toml"), ("missing.toml", "no such file")),
        (("run", "missing.toml"), ("missing.toml",)),
        (("verify", "missing.toml"), ("missing.toml",)),
        (("tune", "missing.toml"), ("missing.toml",)),
        (("probe", "--from", "nowhere.json"), ("nowhere.json",)),
        (("check", "--from", "."), ("folder",)),
        (("tui",), ("terminal", "rigtune auto")),
        (("chek",), ("chek", "check")),
        (("check", "--no-such-option"), ("--no-such-option",)),
        (("check", "stray"), ("stray",)),
        (("check", "--budget", "nan"), ("--budget", "nan")),
        (("check", "--budget", "inf"), ("--budget", "inf")),
        (("advise", "install", "--gpu", "h100-sxm", "--supplies-watts", "nan"), ("--supplies-watts", "nan")),
        (("advise", "hardware", "--gpu", "H1OO"), ("H1OO", "list gpus")),
        (("advise", "hardware", "--gpu", "H100", "--gpus", "0"), ("--gpus", "0", "1024")),
        (("advise", "hardware", "--gpu", "H100", "--cpu", "fast"), ("--cpu", "fast", "EPYC")),
        (("advise", "hardware", "--gpu", "H100", "--network", "fast"), ("--network", "fast")),
        (("advise", "hardware", "--machine", "dgx-h100", "--memory", "2048"), ("--memory", "dgx-h100")),
        (("advise", "mig", "--gpu", "H100", "--model", "lama-3-8b"), ("lama-3-8b", "llama-3-8b")),
        (("advise", "mig", "--gpu", "H100", "--model", "gpt2", "--memory-gib", "5"), ("--memory-gib",)),
        (("advise", "container", "--gpu", "H100", "--machine", "dgx-h100"), ("--gpu", "--machine")),
        (("advise", "kubelet", "--machine", "dgx-h1000"), ("dgx-h1000", "dgx-h100")),
        (("advise", "network", "--machine", "l40s-pcie-8", "--dscp", "104"), ("--dscp", "104", "63")),
        (("advise", "network", "--machine", "l40s-pcie-8", "--priority", "3"), ("--priority", "--dscp")),
        (("advise", "mig", "--machine", "l40s-pcie-8", "--model", "9" * 400), ("no model", "list models")),
        (("plan", "9" * 400, "--machine", "dgx-h100"), ("no model", "list models")),
        (("plan", "resnet-50", "--gpu", "H100", "--steps", "9" * 400), ("--steps", "at most 1000000000")),
        (("plan", "gpt2", "--gpu", "H100", "--tuning", "lora", "--lora-rank", "9" * 20), ("--lora-rank",)),
        (("plan", "gpt2", "--machine", "dgx-h100", "--node-mtbf", "1e-320"), ("--node-mtbf", "1e-12")),
        (("plan", "gpt2", "--machine", "dgx-h100", "-o", "9" * 400), ("--output", "too long")),
        (("tune", "missing.toml", "--out", "9" * 400), ("--out", "too long")),
        (("check", "--policy", "/dev/zero"), ("/dev/zero", "larger")),
        (("list", "nothing"), ("nothing",)),
        (("plan", "llama-3-8b", "--machine", "dgx-h100", "--from", "x"), ("--from", "--machine")),
    ],
)  # fmt: skip
def test_wrong_names_and_paths(arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    assert_one_line(rigtune(*arguments, cwd=tmp_path), *words)


def test_a_working_folder_that_is_gone(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'rmdir "$PWD" && exec "$0" -m assistant bench --list', sys.executable]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert_one_line(done, "folder was removed")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ("recipe.toml",)),
        ("name = [", ("recipe.toml",)),
        ('name = "x"\nmicrobatch = 3\n', ("recipe.toml",)),
        ("schema_version = 99\n", ("recipe.toml", "99")),
        ("\x00\xff", ("recipe.toml",)),
    ],
)
def test_unreadable_recipes(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    assert_one_line(rigtune("export", "recipe.toml", "--out", "out", cwd=tmp_path), *words)
    assert not (tmp_path / "out").exists()


def _recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.toml"
    done = rigtune("plan", "llama-3-8b", "--machine", "dgx-h100", "-o", path, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return path


def test_an_unknown_launcher(tmp_path: Path) -> None:
    done = rigtune("export", _recipe(tmp_path), "--to", "slrum", "--out", "out", cwd=tmp_path)
    assert_one_line(done, "slrum", "slurm")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--from"),
        ("check", "--policy"),
        ("check", "--measurements"),
        ("plan", "--machine", "dgx-h100"),
        ("export",),
        ("predict",),
        ("lint",),
        ("import",),
    ],
    ids=" ".join,
)
def test_an_empty_file_is_called_empty(arguments: tuple[str, ...], tmp_path: Path) -> None:
    # The usual cause is a command that wrote nothing to its output, or a full disk.
    (tmp_path / "empty.toml").touch()
    assert_one_line(rigtune(*arguments, "empty.toml", cwd=tmp_path), "empty.toml is empty")


@pytest.mark.parametrize(
    "arguments",
    [("explain",), ("diff", "live"), ("predict", "--set", "gpu=H100", "--model-file")],
    ids=" ".join,
)
def test_a_path_that_no_file_can_have(arguments: tuple[str, ...], tmp_path: Path) -> None:
    done = rigtune(*arguments, "a" * 300, cwd=tmp_path)
    assert_one_line(done, "aaa: file name too long")


def test_an_empty_log_is_named_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "job.log").touch()
    done = rigtune("explain", "job.log", cwd=tmp_path)
    assert done.returncode == 3
    assert "The logs are empty" in done.stdout


def test_a_damaged_recording(tmp_path: Path) -> None:
    recording = tmp_path / "node.json"
    assert (
        rigtune("probe", "--machine", "dgx-h100", "--record", recording, "-q", cwd=tmp_path).returncode == 0
    )
    assert rigtune("probe", "--from", recording, cwd=tmp_path).returncode == 0
    data = recording.read_bytes()
    for damaged in (data[: len(data) // 2], b"", data.replace(b"NVIDIA H100", b"NVIDIA H999", 1)):
        recording.write_bytes(damaged)
        assert_one_line(rigtune("probe", "--from", recording, cwd=tmp_path), "node.json")


def test_a_file_where_the_output_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    done = rigtune("export", _recipe(tmp_path), "--out", "out", cwd=tmp_path)
    assert_one_line(done, "out")
    assert (tmp_path / "out").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert_one_line(
        rigtune("auto", "--machine", "dgx-h100", "--out", locked / "run", "-q", cwd=tmp_path),
        "locked",
        "permission denied",
    )


def test_a_read_only_place(tmp_path: Path) -> None:
    done = rigtune("auto", "--machine", "dgx-h100", "--out", "/proc/rigtune", "-q", cwd=tmp_path)
    assert_one_line(done, "/proc/rigtune")


def test_a_model_that_cannot_fit(tmp_path: Path) -> None:
    done = rigtune("plan", "llama-3.1-405b", "--machine", "rtx4090-2", cwd=tmp_path)
    assert_one_line(done, "GiB", code=ExitCode.NO_PLAN)
