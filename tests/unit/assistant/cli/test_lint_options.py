"""Test the options of `rigtune lint` within this process: settings, outputs and exit codes."""

from __future__ import annotations

import json

import pytest

from assistant.cli import command_line
from tests.support.lint_command import CLEAN, SCRIPT

MANY = "#!/bin/bash\nexport NCCL_SOKET_IFNAME=eth0\nexport NCCL_ALGO=Rings\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.sh").write_text(MANY)
    (tmp_path / "clean.sh").write_text(CLEAN)
    (tmp_path / "train.sbatch").write_text(SCRIPT)
    return tmp_path


def lint(capsys, *words: str) -> tuple[int, str, str]:
    code = command_line(["lint", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rules_of(capsys, *words: str) -> set[str]:
    return {each["rule_id"] for each in json.loads(lint(capsys, *words, "--format", "json")[1])["findings"]}


def test_rules_are_chosen_by_options_and_by_the_settings_of_the_folder(capsys, folder):
    both = {"variable-misspelt", "value-algorithm"}
    assert rules_of(capsys, "a.sh") == both
    assert rules_of(capsys, "a.sh", "--select", "value-*") == {"value-algorithm"}
    assert rules_of(capsys, "a.sh", "--ignore", "value-algorithm,slurm-time") == {"variable-misspelt"}
    (folder / "rigtune-lint.toml").write_text('select = ["value-*"]\n')
    assert rules_of(capsys, "a.sh") == {"value-algorithm"}
    assert rules_of(capsys, "a.sh", "--select", "variable-*") == {"variable-misspelt"}


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["clean.sh"], 0),
        (["a.sh"], 1),
        (["a.sh", "--fail-on", "never"], 0),
        (["a.sh", "--ignore", "variable-*,value-*"], 0),
        ([], 2),
        (["a.sh", "--unsafe-fixes"], 2),
        (["a.sh", "--diff", "--redact"], 2),
        (["a.sh", "--nccl-version", "new"], 2),
        (["a.sh", "--torch-version", "new"], 2),
        (["a.sh", "--slurm-version", "new"], 2),
        (["a.sh", "--select", "no-such-rule"], 2),
        (["missing.sh"], 2),
    ],
)
def test_the_exit_code_states_whether_something_was_found(capsys, words, code):
    assert lint(capsys, *words)[0] == code


def test_the_limit_of_the_settings_applies_unless_an_option_has_another(capsys, folder):
    (folder / "rigtune-lint.toml").write_text('fail-on = "never"\n')
    assert lint(capsys, "a.sh")[0] == 0
    assert lint(capsys, "a.sh", "--fail-on", "error")[0] == 1


def test_a_report_in_a_file_is_summed_up_on_the_terminal(capsys, folder):
    _, out, err = lint(capsys, "a.sh", "-o", "report.txt")
    assert out == ""
    assert err.startswith("1 error, 1 warning in 1 file")
    assert err.endswith("; wrote report.txt\n")
    assert "[variable-misspelt]" in (folder / "report.txt").read_text()
    assert lint(capsys, "a.sh", "-o", "report.txt", "-q")[2] == ""


def test_a_patch_changes_only_what_is_safe(capsys):
    rest = "no finding has a safe fix; --unsafe-fixes shows 1 that may change the job\n"
    assert lint(capsys, "a.sh", "--diff") == (1, "", rest)
    code, out, err = lint(capsys, "a.sh", "--diff", "--unsafe-fixes")
    assert (code, err) == (1, "")
    assert "+export NCCL_SOCKET_IFNAME=eth0" in out
    assert lint(capsys, "clean.sh", "--diff")[1:] == ("", "no finding has a safe fix\n")
    nothing = ("", "no finding has a fix that can be printed\n")
    assert lint(capsys, "clean.sh", "--diff", "--unsafe-fixes")[1:] == nothing
    assert lint(capsys, "clean.sh", "--diff", "-q")[1:] == ("", "")


def test_a_rule_is_explained_in_both_formats(capsys):
    code, out, _ = lint(capsys, "--explain", "variable-misspelt")
    assert (code, out.partition(":")[0]) == (0, "variable-misspelt")
    assert json.loads(lint(capsys, "--explain", "variable-misspelt", "--format", "json")[1])["rule"][
        "id"
    ] == ("variable-misspelt")


def test_the_formats_of_other_tools(capsys):
    assert json.loads(lint(capsys, "a.sh", "--format", "sarif")[1])["version"] == "2.1.0"
    assert lint(capsys, "a.sh", "--format", "github")[1].startswith("::warning file=a.sh,line=2,col=8,")
    assert "    why: " in lint(capsys, "a.sh", "-v")[1]
    assert "    why: " not in lint(capsys, "a.sh")[1]


def test_folders_are_searched_for_launch_files(capsys, folder):
    for name in ("venv/x.sh", ".hidden/x.sh", "sub/job.slurm", "sub/notes.md", "sub/train.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(MANY)
    (folder / "sub" / "link.sh").symlink_to(folder / "a.sh")
    documents = json.loads(lint(capsys, ".", "--format", "json")[1])["documents"]
    assert documents == ["a.sh", "clean.sh", "train.sbatch", "sub/job.slurm"]
    (folder / "rigtune-lint.toml").write_text('exclude = ["sub/*", "a.sh"]\n')
    documents = json.loads(lint(capsys, ".", "--format", "json")[1])["documents"]
    assert documents == ["clean.sh", "train.sbatch"]


def test_files_of_unknown_kind_are_named_unless_they_may_be_skipped(capsys, folder):
    (folder / "notes.txt").write_text("hello\n")
    code, _, err = lint(capsys, "notes.txt")
    assert code == 2
    assert "not a launch file of a known kind" in err
    assert lint(capsys, "notes.txt", "--skip-unknown")[:2] == (0, "nothing found in 0 files\n")
    assert "note: notes.txt is not a launch file" in lint(capsys, "notes.txt", "clean.sh")[1]
    (folder / "empty").mkdir()
    assert "empty contains no launch file of a known kind" in lint(capsys, "empty")[2]


def test_a_sourced_file_is_judged_with_its_script(capsys, folder):
    (folder / "main.sh").write_text("#!/bin/bash\nsource env.sh\nsource missing.sh\n")
    (folder / "env.sh").write_text(MANY)
    documents = json.loads(lint(capsys, "main.sh", "--format", "json")[1])["documents"]
    assert documents == ["main.sh", "env.sh"]
    documents = json.loads(lint(capsys, "main.sh", "env.sh", "--format", "json")[1])["documents"]
    assert documents == ["main.sh", "env.sh"]


def test_variables_of_the_process_are_judged_on_request(capsys, monkeypatch):
    monkeypatch.setenv("NCCL_SOKET_IFNAME", "eth0")
    assert lint(capsys, "clean.sh", "--fail-on", "warning")[0] == 0
    code, out, _ = lint(capsys, "clean.sh", "--environment", "--fail-on", "warning")
    assert code == 1
    assert "environment:" in out
