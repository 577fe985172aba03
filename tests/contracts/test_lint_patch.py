"""Apply the patches that `rigtune lint --diff` prints."""

import shutil
import subprocess
from pathlib import Path

import pytest

from assistant.usecases.lint import judge_documents
from recipes.lint.context import Context
from recipes.lint.document import Document, Place
from recipes.lint.editing import edited, patch
from recipes.lint.finding import Edit, LintFinding
from recipes.lint.reading import read_document
from tests.support.lint_command import ROOT, lint, write_examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_examples(tmp_path)
    return tmp_path


CASES = [
    path
    for path in sorted((ROOT / "tests" / "lint").glob("c*/**/*"))
    if path.is_file() and path.name != "rule"
]


@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_patches_of_all_cases_apply_and_take_their_findings_away(
    tmp_path: Path, line_break: str, end: str
) -> None:
    """Apply the patches of all cases with `git apply` and with `patch -p1`."""
    patches: dict[str, str] = {}
    for number, case in enumerate(CASES):
        document = read_document(
            f"{number}/{case.name}", case.read_text("utf-8").rstrip("\n").replace("\n", line_break) + end
        )
        if document is None:
            continue
        findings = judge_documents((document,), Context()).findings
        fixed = {finding.rule_id for finding in findings if finding.edits or finding.unsafe_edits}
        after = edited(document, findings, unsafe=True)
        if not fixed:
            continue
        patches[document.name] = after
        for tool in ("git", "patch"):
            file = tmp_path / tool / document.name
            file.parent.mkdir(parents=True)
            file.write_bytes(document.text.encode())
        (tmp_path / f"{number}.diff").write_bytes(patch(document, findings, unsafe=True).encode())
        again = read_document(document.name, after)
        left = (
            set() if again is None else {one.rule_id for one in judge_documents((again,), Context()).findings}
        )
        assert not fixed & left, case
    assert patches
    together = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.diff")))
    commands = {"git": ["git", "apply", "-"], "patch": ["patch", "-p1", "--binary"]}
    for tool, command in commands.items():
        if shutil.which(tool):
            subprocess.run(command, cwd=tmp_path / tool, input=together, check=True, capture_output=True)
            for name, after in patches.items():
                assert (tmp_path / tool / name).read_bytes().decode() == after, (tool, name)


def test_the_patch_applies_and_heals(folder: Path) -> None:
    done = lint("train.sbatch", "--diff", "--unsafe-fixes", cwd=folder)
    assert "-export NCCL_SOKET_IFNAME=eth0\n+export NCCL_SOCKET_IFNAME=eth0\n" in done.stdout
    if shutil.which("patch"):
        subprocess.run(
            ["patch", "-p1"], cwd=folder, input=done.stdout, text=True, check=True, capture_output=True
        )
        assert "variable-misspelt" not in lint("train.sbatch", cwd=folder).stdout


def test_patch_without_unsafe_fixes_keeps_what_may_change_the_job(folder: Path) -> None:
    done = lint("train.sbatch", "--diff", cwd=folder)
    assert (done.stdout, done.stderr) == (
        "",
        "no finding has a safe fix; --unsafe-fixes shows 1 that may change the job\n",
    )
    assert lint("train.sbatch", "--unsafe-fixes", cwd=folder).returncode == 2


def _finding(edits: tuple[Edit, ...]) -> LintFinding:
    place = edits[0].place
    return LintFinding(rule_id="x", severity="note", document="a", place=place, message="", edits=edits)


def test_edits_that_overlap_are_made_once() -> None:
    document = Document(name="a", kind="shell", text="one two\nthree")
    word = Edit(place=Place(line=1, column=5, end_line=1, end_column=8), text="2")
    line = Edit(place=Place(line=1, column=1, end_line=2, end_column=1), text="")
    assert edited(document, [_finding((word,)), _finding((line,)), _finding((word,))]) == "one 2\nthree"
    assert patch(document, [_finding((line,))]).endswith("-one two\n three\n\\ No newline at end of file\n")
