"""Test that a number of GPUs that no board has is a failure, and that stated expectations are compared."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from probes.base.errors import ExitCode
from tests.contracts.test_wrong_input import assert_one_line, rigtune
from tests.support.recordings import MACHINES, needs_recordings

BOARDS = ("hw-h100.xml", "hw-b200.xml")
WHOLE = (1, 2, 4, 8)


def report(folder: Path, board: str, count: int) -> Path:
    """Write the complete `nvidia-smi -q -x` of a recorded board of which `count` GPUs are left."""
    text = (MACHINES / "nvsmi_xml" / board).read_text(encoding="utf-8")
    gpus = re.findall(r"\t?<gpu id=.*?</gpu>\n", text, re.DOTALL)
    head, tail = text[: text.index(gpus[0])], text[text.index(gpus[-1]) + len(gpus[-1]) :]
    head = re.sub(r"(<attached_gpus>)\d+", rf"\g<1>{count}", head)
    path = folder / "node.xml"
    path.write_text(head + "".join(gpus[:count]) + tail)
    return path


def checked(folder: Path, *arguments: str | Path) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Return the process, and the checks that failed."""
    done = rigtune("check", "--format", "json", *arguments, cwd=folder)
    findings = json.loads(done.stdout)["findings"]
    return done, {finding["check_id"] for finding in findings if finding["status"] == "FAIL"}


@needs_recordings
@pytest.mark.parametrize(
    ("board", "count"), [*((BOARDS[0], count) for count in range(9)), (BOARDS[1], 7), (BOARDS[1], 8)]
)
def test_a_board_fails_unless_1_2_4_or_8_gpus_are_left(board: str, count: int, tmp_path: Path) -> None:
    path = report(tmp_path, board, count)
    done, failed = checked(tmp_path, "--from", path)
    assert failed & {"gpu-count", "gpu-driver"} == (
        set() if count in WHOLE else {"gpu-count"} if count else {"gpu-driver"}
    )
    assert (done.returncode == ExitCode.FINDINGS) is bool(failed)


@needs_recordings
@pytest.mark.parametrize("profile", ["slurm", "npd", "nhc", "nagios"])
def test_every_hook_learns_of_the_missing_gpu(profile: str, tmp_path: Path) -> None:
    path = report(tmp_path, BOARDS[0], 7)
    done = rigtune("check", "--from", path, "--exit-profile", profile, cwd=tmp_path)
    assert done.returncode == (2 if profile == "nagios" else 1)
    assert "gpu-count host: no SXM board has this number of GPUs (7 GPUs)" in done.stdout


@needs_recordings
@pytest.mark.parametrize(
    ("count", "arguments", "fails"),
    [
        (8, ("--expect", "dgx-h100"), False),
        (4, ("--expect", "dgx-h100"), True),
        (8, ("--expect", "dgx-a100"), True),
        (4, ("--expect-gpus", "4"), False),
        (2, ("--expect-gpus", "4"), True),
        (0, ("--expect-gpus", "8"), True),
        (3, ("--expect-gpus", "3"), False),
        (4, ("--expect", "dgx-h100", "--expect-gpus", "4"), False),
    ],
)
def test_a_machine_that_differs_from_the_expected_one_fails(
    count: int, arguments: tuple[str, ...], fails: bool, tmp_path: Path
) -> None:
    path = report(tmp_path, "hw-h100.xml", count)
    done, failed = checked(tmp_path, "--from", path, *arguments, "--mode", "accept")
    assert ("policy-gpus" in failed) is fails
    assert not fails or " ".join(arguments) in done.stdout


def test_a_machine_without_gpus_fails_if_gpus_are_expected(tmp_path: Path) -> None:
    recording = Path(__file__).parents[1] / "machines" / "cpu-vm" / "recording.json"
    assert checked(tmp_path, "--from", recording.resolve(), "--expect-gpus", "8")[1] == {"policy-gpus"}
    assert "policy-gpus" not in checked(tmp_path, "--from", recording.resolve())[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--mode", "accept"), "--expect-gpus N"),
        (("--expect", "dgx-h10"), "dgx-h100"),
        (("--expect-gpus", "-1"), "--expect-gpus"),
    ],
)
def test_an_acceptance_without_valid_expectations_is_refused(
    arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    assert_one_line(rigtune("check", "--machine", "dgx-h100", *arguments, cwd=tmp_path), words)


def test_a_hook_is_not_written_without_expectations(tmp_path: Path) -> None:
    done = rigtune("export", "--provision", "slurm-health", cwd=tmp_path)
    assert_one_line(done, "--expect MACHINE, --expect-gpus N or --policy")
    assert list(tmp_path.iterdir()) == []
    done = rigtune("export", "--provision", "slurm-health", "--expect", "dgx-h100", cwd=tmp_path)
    assert "--mode monitor" in (tmp_path / "provision" / "rigtune-health").read_text()
