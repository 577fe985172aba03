"""Test that the exit code of `rigtune check` depends only on the verdict, the profile and `--fail-on`.

The format and the place of the output never change it.
"""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assistant.cli.check_command import Answer, write_verdict
from assistant.formats.check_formats import FORMATS
from assistant.usecases.learn import UnfitError, learn_policy, read_policy
from probes.base.errors import ExitCode, OutputError
from probes.base.record import to_json
from probes.facts import MachineFacts
from probes.judging.check_table import CHECKS
from probes.judging.findings import Status
from probes.judging.verdict import PROFILES, exit_status
from tests.contracts.test_wrong_input import assert_one_line, rigtune
from tests.support.machines import h100_node
from tests.support.measured import gemm, run_of
from tests.support.verdicts import STARTED, VERDICTS, finding, verdict_of

ONE_LINE = ("npd", "slurm", "nhc")


@pytest.mark.parametrize("name", VERDICTS)
def test_no_format_and_no_file_changes_the_exit_code(
    name: str, tmp_path: Path, capsysbinary: pytest.CaptureFixture
) -> None:
    verdict = VERDICTS[name]
    for profile, fail_on in itertools.product(PROFILES, ("fail", "warn")):
        code = exit_status(verdict, profile, fail_on)
        for output_format, file, quiet in itertools.product(
            (None, *FORMATS), (None, str(tmp_path / "out")), (False, True)
        ):
            answer = Answer(
                output_format=output_format, profile=profile, fail_on=fail_on, file=file, quiet=quiet
            )
            assert write_verdict(verdict, answer) == code
            said = capsysbinary.readouterr().out
            assert not (quiet and said)
            if not quiet and file is None and (output_format or profile not in ONE_LINE):
                assert said, "standard output is never empty"
            if not quiet and profile in ONE_LINE and output_format is None:
                assert (said.count(b"\n") == 1) == (code != 0)


_findings = st.lists(
    st.builds(
        finding,
        st.sampled_from([row.id for row in CHECKS]),
        st.text(max_size=20),
        st.sampled_from([status.value for status in Status]),
        st.text(max_size=40),
    ),
    max_size=5,
)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_findings, st.sampled_from(PROFILES), st.sampled_from((None, *FORMATS)))
def test_any_verdict(
    capsysbinary: pytest.CaptureFixture, findings: list, profile: str, output_format: str | None
) -> None:
    verdict = verdict_of(*findings)
    answer = Answer(profile=profile, output_format=output_format)  # type: ignore[arg-type]
    assert write_verdict(verdict, answer) == exit_status(verdict, profile)  # type: ignore[arg-type]
    said = capsysbinary.readouterr().out
    said.decode()
    assert said or output_format is None


def test_the_reader_of_the_profile_keeps_its_line_beside_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    file = tmp_path / "junit.xml"
    assert write_verdict(VERDICTS["bad"], Answer(profile="slurm", output_format="junit", file=str(file))) == 1
    said = capsys.readouterr()
    assert said.out.startswith("nvlink-active GPU3: ")
    assert said.err.startswith("rigtune: nvlink-active GPU3: ")
    assert ET.parse(file).getroot().tag == "testsuites"  # noqa: S314 - of our own making
    assert write_verdict(VERDICTS["good"], Answer(profile="nhc")) == 0
    assert capsys.readouterr().out == ""


def test_the_file_is_readable_by_the_collector(tmp_path: Path) -> None:
    file = tmp_path / "rigtune.prom"
    before = os.umask(0o077)
    try:
        write_verdict(VERDICTS["bad"], Answer(output_format="prometheus", file=str(file)))
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert [path.name for path in tmp_path.iterdir()] == ["rigtune.prom"]


def test_a_full_disk_leaves_the_file_of_before(tmp_path: Path) -> None:
    file = tmp_path / "rigtune.prom"
    file.write_text("before")
    program = (
        # Byte code that the limit cuts off would break every later test.
        "import resource, sys; sys.dont_write_bytecode = True;"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100));"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        "from assistant.cli import command_line; sys.exit(command_line(sys.argv[1:]))"
    )
    arguments = ("check", "--machine", "dgx-h100", "--format", "prometheus", "-o", str(file))
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert_one_line(done, "rigtune.prom", "file too large")
    assert file.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["rigtune.prom"]


def test_a_full_device_is_an_error() -> None:
    with pytest.raises(OutputError, match="no space left"):
        write_verdict(VERDICTS["good"], Answer(output_format="json", file="/dev/full"))


@pytest.mark.parametrize(
    ("profile", "code"), [("gate", 2), ("nagios", 3), ("npd", 2), ("slurm", 2), ("nhc", 2)]
)
@pytest.mark.parametrize(
    "wrong", [("--no-such-option",), ("--from", "nowhere"), ("--only", "nothing-like-it")]
)
def test_failures_of_the_call_by_profile(
    profile: str, code: int, wrong: tuple[str, ...], tmp_path: Path
) -> None:
    done = rigtune("check", f"--exit-profile={profile}", *wrong, cwd=tmp_path)
    assert done.returncode == code
    assert done.stderr.startswith("rigtune: ")
    assert done.stdout.startswith("RIGTUNE UNKNOWN - ") if profile == "nagios" else done.stdout == ""


@pytest.mark.parametrize(("profile", "code"), [("gate", 70), ("nagios", 3), ("npd", 2), ("slurm", 70)])
def test_a_bug_never_reads_as_a_bad_machine(profile: str, code: int, tmp_path: Path) -> None:
    program = (
        "import sys, assistant.cli.check_command as check; check.select = None;"
        "from assistant._entry import main; main()"
    )
    argv = [sys.executable, "-c", program, "check", "--machine", "dgx-h100", "--exit-profile", profile]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code
    assert "Traceback" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[gpu]\ncuont = 8", ("site.toml", "gpu.cuont", "count")),
        ("[checks]\nrequired = ['nofil']", ("site.toml", "nofil", "nofile")),
        ("[[waivers]]\ncheck = 'nofile'\nreason = 'x'", ("site.toml", "expires")),
        ("x = [", ("site.toml", "TOML")),
        ("\udcff", ("site.toml", "UTF-8")),
    ],
)
def test_wrong_policies(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert_one_line(rigtune("check", "--machine", "dgx-h100", "--policy", "site.toml", cwd=tmp_path), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "nowhere.toml"), ("nowhere.toml", "no such file")),
        (("--policy", "."), ("folder",)),
        (("--policy", "a.toml", "--learn", "b.toml"), ("--policy", "--learn")),
        (("--tier", "quikc"), ("--tier", "quick")),
        (("--budget", "0"), ("--budget", "0")),
        (("--only", "nvlink-activ"), ("nvlink-activ", "did you mean nvlink-active")),
        (("--skip", "netwrok"), ("netwrok", "did you mean network")),
        (("--exit-profile", "nagois"), ("--exit-profile", "nagios")),
        (("--format", "xml"), ("--format", "junit")),
        (("-o", "/proc/rigtune.prom"), ("/proc/rigtune.prom",)),
    ],
)
def test_wrong_arguments_of_check(arguments: tuple[str, ...], words: tuple[str, ...], tmp_path: Path) -> None:
    assert_one_line(rigtune("check", "--machine", "dgx-h100", *arguments, cwd=tmp_path), *words)


def test_learning(tmp_path: Path) -> None:
    learned = rigtune("check", "--machine", "dgx-h100", "--learn", "site.toml", "-q", cwd=tmp_path)
    assert (learned.returncode, learned.stdout, learned.stderr) == (ExitCode.UNKNOWN, "", "")
    text = (tmp_path / "site.toml").read_text()
    assert 'model = "h100-sxm"' in text
    again = rigtune("check", "--machine", "dgx-h100", "--learn", "site.toml", cwd=tmp_path)
    assert_one_line(again, "site.toml exists", "--force")
    forced = rigtune("check", "--machine", "dgx-h100", "--learn", "site.toml", "--force", cwd=tmp_path)
    assert "site.toml" in forced.stderr
    policy = ("--policy", "site.toml", "--only", "policy")
    same = rigtune("check", "--machine", "dgx-h100", *policy, cwd=tmp_path)
    assert (same.returncode, same.stdout.split()[1]) == (0, "PASS")
    other = rigtune("check", "--machine", "dgx-a100", *policy, cwd=tmp_path)
    assert other.returncode == ExitCode.FINDINGS
    assert "the model differs from the policy" in other.stdout


def test_a_policy_of_a_windows_editor_is_read(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_bytes(b"\xef\xbb\xbf[gpu]\r\ncount = 8\r\n")
    assert read_policy(path).gpu.count == 8


def test_nothing_is_learned_from_a_machine_that_fails(tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    with pytest.raises(UnfitError, match="the machine fails nvlink-active") as caught:
        list(learn_policy(h100_node(), VERDICTS["bad"], path, force=False, today=STARTED.date()))
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert not path.exists()
    *_, finished = learn_policy(h100_node(), VERDICTS["bad"], path, force=True, today=STARTED.date())
    assert read_policy(path) == finished.result  # type: ignore[attr-defined]
    with pytest.raises(OutputError, match="nothing is known"):
        list(
            learn_policy(
                MachineFacts(), VERDICTS["empty"], tmp_path / "other.toml", force=True, today=STARTED.date()
            )
        )


def test_measurements_are_judged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "slow.json").write_bytes(to_json(run_of(gemm(720.0, 430.0, 720.0, 720.0))))
    done = rigtune(
        "check", "--machine", "dgx-h100", "--only", "measured", "--measurements", "slow.json", cwd=tmp_path
    )
    assert done.returncode == ExitCode.FINDINGS
    assert "measured-gemm" in done.stdout
    (tmp_path / "fine.json").write_bytes(to_json(run_of(gemm(720.0))))
    done = rigtune(
        "check", "--machine", "dgx-h100", "--only", "measured", "--measurements", "fine.json", cwd=tmp_path
    )
    assert (done.returncode, done.stdout.split()[1]) == (0, "PASS")
    (tmp_path / "odd.json").write_text("[]")
    assert_one_line(
        rigtune("check", "--machine", "dgx-h100", "--measurements", "odd.json", cwd=tmp_path), "odd.json"
    )
