"""Run `rigtune lint`: its exit codes, settings and waivers, the files that it reads, and its errors."""

import json
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from assistant.usecases.lint import judge_documents
from recipes.lint.context import Context
from recipes.lint.editing import edited
from recipes.lint.reading import read_document
from tests.support.lint_command import ROOT, SCRIPT, lint, write_examples


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_examples(tmp_path)
    return tmp_path


def test_clean_files_give_0(folder: Path) -> None:
    done = lint("clean.sh", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "read: 1 variable\nnothing found in 1 file\n"


def test_a_broken_file_gives_1_and_the_rest_is_judged(folder: Path) -> None:
    (folder / "zero2.json").write_text('{"zero_optimization": {"stage": 2,, }}\n')
    done = lint("zero2.json", "train.sbatch", cwd=folder)
    assert done.returncode == 1
    assert "zero2.json:1:35: error: not valid JSON: " in done.stdout
    assert "[variable-misspelt]" in done.stdout


def test_a_broken_file_of_no_known_kind_gives_2_with_the_line(folder: Path) -> None:
    (folder / "other.json").write_text('{"name": [1, 2}\n')
    done = lint("other.json", cwd=folder)
    assert done.returncode == 2
    assert "line 1, not valid JSON: " in done.stderr


@pytest.mark.parametrize(
    "form", ["env_file: job.env", "env_file:\n      - job.env", "env_file:\n      - path: job.env"]
)
def test_files_of_variables_that_a_compose_file_names_are_judged(folder: Path, form: str) -> None:
    (folder / "job.env").write_text("NCCL_SOKET_IFNAME=eth0\n")
    (folder / "compose.yaml").write_text(f"services:\n  train:\n    image: a:1\n    {form}\n")
    report = json.loads(lint("compose.yaml", "--format", "json", cwd=folder).stdout)
    assert report["documents"] == ["compose.yaml", "job.env"]
    assert [(one["document"], one["rule_id"]) for one in report["findings"]] == [
        ("job.env", "variable-misspelt")
    ]


_MANY = "export NCCL_SOKET_IFNAME=eth0\nexport NCCL_ALGO=Rings\n"


def _found(folder: Path, *arguments: str, file: str = "a.sh") -> set[str]:
    report = json.loads(lint(file, "--format", "json", *arguments, cwd=folder).stdout)
    return {finding["rule_id"] for finding in report["findings"]}


def test_rules_are_selected_and_ignored(folder: Path) -> None:
    (folder / "a.sh").write_text(_MANY)
    assert _found(folder) == {"variable-misspelt", "value-algorithm"}
    assert _found(folder, "--select", "value-*") == {"value-algorithm"}
    assert _found(folder, "--ignore", "value-algorithm,slurm-time") == {"variable-misspelt"}
    assert (
        "1 left out because their rules are ignored or not selected"
        in lint("a.sh", "--ignore", "value-*", cwd=folder).stdout
    )


@pytest.mark.parametrize("name", ["rigtune-lint.toml", "pyproject.toml"])
def test_settings_of_the_nearest_file_apply(folder: Path, name: str) -> None:
    inner = folder / "jobs"
    inner.mkdir()
    (inner / "a.sh").write_text(_MANY)
    (inner / "old.sh").write_text(_MANY)
    head = "[tool.rigtune.lint]\n" if name == "pyproject.toml" else ""
    table = "[tool.rigtune.lint.per-file-ignores]" if head else "[per-file-ignores]"
    (folder / name).write_text(
        f'{head}ignore = ["value-algorithm"]\nfail-on = "warning"\n{table}\n"old*" = ["variable-*"]\n'
    )
    assert _found(inner) == {"variable-misspelt"}
    assert _found(inner, file="old.sh") == set()
    assert _found(inner, "--ignore", "variable-misspelt") == set()
    assert lint("a.sh", cwd=inner).returncode == 1
    assert lint("a.sh", "--fail-on", "error", cwd=inner).returncode == 0
    (inner / "own.toml").write_text("")
    assert _found(inner, "--config", "own.toml") == {"variable-misspelt", "value-algorithm"}


def test_settings_stop_at_the_root_of_the_repository(folder: Path) -> None:
    (folder / "rigtune-lint.toml").write_text('ignore = ["*"]\n')
    inner = folder / "repository"
    (inner / ".git").mkdir(parents=True)
    (inner / "a.sh").write_text(_MANY)
    assert _found(inner) == {"variable-misspelt", "value-algorithm"}


def test_files_of_a_folder_are_judged(folder: Path) -> None:
    (folder / "jobs" / "old").mkdir(parents=True)
    (folder / "jobs" / ".hidden").mkdir()
    for name in ("a.sh", "old/b.sh", ".hidden/c.sh"):
        (folder / "jobs" / name).write_text(_MANY)
    (folder / "jobs" / "notes.yaml").write_text("a: 1\n")
    (folder / "jobs" / "binary.sh").write_bytes(b"\x7fELF\0\0")
    (folder / "jobs" / "again").symlink_to(folder / "jobs")
    report = json.loads(lint("jobs", "--format", "json", cwd=folder).stdout)
    assert report["documents"] == ["jobs/a.sh", "jobs/old/b.sh"]
    assert report["notes"] == []
    assert [part["settings"] for part in report["understood"]] == [2, 2]
    (folder / "rigtune-lint.toml").write_text('exclude = ["*/old/*"]\n')
    report = json.loads(lint("jobs", "--format", "json", cwd=folder).stdout)
    assert report["documents"] == ["jobs/a.sh"]


def test_files_of_unknown_kind_can_be_skipped(folder: Path) -> None:
    (folder / "values.yaml").write_text("a: 1\n")
    assert lint("values.yaml", cwd=folder).returncode == 2
    done = lint("values.yaml", "--skip-unknown", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


def test_rule_is_explained_with_a_bad_and_a_good_example(folder: Path) -> None:
    text = lint("--explain", "slurm-time", cwd=folder).stdout
    assert "--time=2days" in text
    assert "--time=2-00:00:00" in text
    assert "https://slurm.schedmd.com/sbatch.html" in text
    rule = json.loads(lint("--explain", "slurm-time", "--format", "json", cwd=folder).stdout)["rule"]
    assert rule["example"]["good"].endswith("--time=2-00:00:00\n")


def test_hook_of_pre_commit_names_the_files_that_lint_knows() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert hook["entry"].startswith("rigtune lint ")
    names = ["a/b.sbatch", "train.sh", "ds.json", "conf/nccl.conf", "Dockerfile.gpu", "hostfile", "pod.yaml"]
    assert [name for name in names if not re.search(hook["files"], name)] == []
    assert re.search(hook["files"], "train.py") is None


def test_waivers_are_counted(folder: Path) -> None:
    script = SCRIPT.replace("=eth0", "=eth0  # rigtune: ignore=variable-misspelt the wrapper reads it")
    (folder / "train.sbatch").write_text(script)
    report = json.loads(lint("train.sbatch", "--format", "json", cwd=folder).stdout)
    assert report["waived"] == 1
    assert "variable-misspelt" not in {one["rule_id"] for one in report["findings"]}


@pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("note", 1), ("never", 0)])
def test_fail_on(folder: Path, fail_on: str, code: int) -> None:
    (folder / "a.sh").write_text("export NCCL_SOKET_IFNAME=eth0\n")
    assert lint("a.sh", "--fail-on", fail_on, cwd=folder).returncode == code


def test_standard_input_and_the_environment(folder: Path) -> None:
    assert "-:1:8: warning" in lint("-", cwd=folder, stdin="export NCCL_SOKET_IFNAME=eth0\n").stdout
    assert "NCCL_SOKET_IFNAME" in lint("--environment", cwd=folder, NCCL_SOKET_IFNAME="eth0").stdout


def test_a_version_and_a_machine_make_it_sharper(folder: Path) -> None:
    (folder / "a.sh").write_text("export NCCL_MNNVL_CLIQUE_ID=1\n")
    late = lint("a.sh", "--nccl-version", "2.27.5", "--format", "json", cwd=folder)
    early = lint("a.sh", "--nccl-version", "2.18.1", "--format", "json", cwd=folder)
    assert len(json.loads(early.stdout)["findings"]) > len(json.loads(late.stdout)["findings"])
    assert lint("a.sh", "--machine", "dgx-h100", cwd=folder).returncode in (0, 1)


def test_names_and_addresses_can_be_replaced(folder: Path) -> None:
    (folder / "a.sh").write_text(
        "export NCCL_SOKET_IFNAME=eth0\nexport NCCL_IB_GID_INDX=10.20.30.40\nexport NCCL_ALGO=10.20.30.40\n"
    )
    redacted = lint("a.sh", "--redact", cwd=folder)
    assert "[variable-misspelt]" in redacted.stdout
    assert "10.20.30.40" not in redacted.stdout


def test_output_goes_to_a_file(folder: Path) -> None:
    done = lint("train.sbatch", "--format", "sarif", "-o", "out.sarif", cwd=folder)
    assert (done.stdout, done.returncode) == ("", 1)
    assert json.loads((folder / "out.sarif").read_text())["version"] == "2.1.0"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no file is given"),
        (("missing.sh",), "missing.sh"),
        (("nothing",), "nothing contains no launch file"),
        (("clean.sh", "--select", "slurm-tyme"), "slurm-time"),
        (("clean.sh", "--config", "bad.toml"), "bad.toml"),
        (("--explain", "slurm-tim?"), "slurm-time"),
        (("notes.md",), "notes.md"),
        (("binary.sh",), "binary.sh"),
        (("clean.sh", "--nccl-version", "new"), "new"),
        (("clean.sh", "--machine", "dgx-h1000"), "dgx-h1000"),
    ],
)
def test_bad_input_is_one_line(folder: Path, arguments: tuple[str, ...], words: str) -> None:
    (folder / "notes.md").write_text("Hello there.\n")
    (folder / "nothing").mkdir()
    (folder / "bad.toml").write_text("selected = []\n")
    (folder / "binary.sh").write_bytes(b"\x7fELF\0\0")
    done = lint(*arguments, cwd=folder)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1), done.stderr
    assert words in done.stderr


def test_a_service_that_is_no_mapping_breaks_no_rule() -> None:
    document = read_document("compose.yaml", "services:\n  a:\n    env")
    assert document is not None
    assert judge_documents((document,), Context()).notes == ()


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_file_breaks_a_rule(data: st.DataObject) -> None:
    words = [
        "export ", "NCCL_", "IB_HCA", "SOCKET_IFNAME", "=", "^", "mlx5_0", ",", "\n", "srun ", "torchrun ",
        "--nnodes", "2", " ", "#SBATCH -N 2\n", "$SLURM_PROCID", "mpirun -x ", "'", '"',
        "accelerate launch ", "--", ":", "0x", "-1", "{", "}",
    ]  # fmt: skip
    text = "".join(data.draw(st.lists(st.sampled_from(words) | st.text(max_size=3), max_size=40)))
    kind = data.draw(
        st.sampled_from(("shell", "dotenv", "nccl-conf", "kubernetes", "deepspeed", "dockerfile"))
    )
    document = read_document("file", text, kind)
    assert document is not None
    report = judge_documents(
        (document,), Context(nccl_version=data.draw(st.sampled_from((None, "2.20.5", "2.27.5"))))
    )
    assert report.notes == ()
    edited(document, report.findings)


def test_files_that_a_script_reads_are_judged_too(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "env.sh").write_text("export NCCL_SHM_DISABLE=1\n")
    (tmp_path / "hosts.txt").write_text("n1 slots=4\n")
    (tmp_path / "secret.sh").write_text("export NCCL_P2P_DISABLE=1\n")
    script = (
        "source env.sh\nsource $WHERE/secret.sh\nsource ../secret.sh\nsource gone.sh\nmpirun -np 8 "
        "--hostfile hosts.txt a.out\n"
    )
    (tmp_path / "jobs" / "train.sh").write_text(script)
    done = lint("jobs/train.sh", "--format", "json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["documents"] == ["jobs/train.sh", "jobs/env.sh", "hosts.txt"]
    assert {finding["rule_id"] for finding in report["findings"]} == {"shm-disabled", "hostfile-few"}


@pytest.mark.parametrize("started", ["./launch.sh", "bash -c ./launch.sh", "bash -lc 'cd x; ./launch.sh 8'"])
def test_script_that_a_step_starts_is_judged_with_the_job(started: str, tmp_path: Path) -> None:
    (tmp_path / "launch.sh").write_text("#!/bin/bash\ntorchrun --nproc-per-node 8 train.py\n")
    requests = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\n"
    (tmp_path / "job.sbatch").write_text(f"{requests}srun {started}\n")
    report = json.loads(lint("job.sbatch", "--format", "json", cwd=tmp_path).stdout)
    assert report["documents"] == ["job.sbatch", "launch.sh"]
    assert [(each["rule_id"], each["document"]) for each in report["findings"]] == [
        ("slurm-launcher-per-task", "launch.sh")
    ]


def test_a_script_may_source_a_name_of_any_length(tmp_path: Path) -> None:
    (tmp_path / "a.sh").write_text(f"#!/bin/bash\nsource {'a' * 5000}\n")
    assert lint("a.sh", cwd=tmp_path).returncode == 0
