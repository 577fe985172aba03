"""Test `rigtune explain`: its sources, its output and its exit codes."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import io
import json
import lzma
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest

from assistant.cli import command_line
from assistant.formats.schemas import schema_for
from assistant.usecases.explain_compared import differences_in, known_beside
from probes.logs.event import Event
from recipes.launch.recipe import Environment
from recipes.launch.recipe_file import dump_recipe
from tests.support.log_events import event as log_event
from tests.support.machines import h100_node

DUPLICATE = (
    "[1,2]<stdout>:trn-a7:4001:4008 [0] init.cc:497 NCCL WARN "
    "Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000\n"
    "[1,2]<stdout>:trn-a7:4001:4008 [0] NCCL INFO init.cc:867 -> 5\n"
)
HEALTHY = "".join(
    f"{rank}: trn-a{rank // 8}:40{rank}:41{rank} [{rank % 8}] NCCL INFO {message}\n"
    for message in (
        "Bootstrap : Using eth0:10.1.2.3<0>",
        "NCCL version 2.21.5+cuda12.4",
        "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.1.2.3<0>",
        "Using network IB",
        "comm 0x55 rank {rank} nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0xabc - Init COMPLETE",
    )
    for rank in range(16)
)


@pytest.fixture
def log(tmp_path: Path):
    def write(text: str | bytes, name: str = "job.log") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write


def explained(capsysbinary, *words: str) -> tuple[int, dict]:
    code = command_line(["explain", *words, "--format", "json", "-q"])
    answer = json.loads(capsysbinary.readouterr().out)
    jsonschema.validate(answer, json.loads(schema_for("explain")))
    return code, answer


def test_a_fault_is_reported_with_its_lines_in_place(log, capsysbinary) -> None:
    code, answer = explained(capsysbinary, log(DUPLICATE))
    first = answer["diagnoses"][0]
    assert code == 1
    assert (answer["state"], first["cause_id"], first["is_fault"]) == ("fault", "duplicate-gpu", True)
    assert first["evidence"][0]["line"] == 1
    assert first["evidence"][0]["rank"] == 2
    assert "Duplicate GPU" in first["evidence"][0]["text"]
    assert first["remedy"]


def test_the_report_for_people_shows_cause_line_and_remedy(log, capsysbinary) -> None:
    assert command_line(["explain", log(DUPLICATE + "\x1b]0;title\x07\n"), "-q"]) == 1
    text = capsysbinary.readouterr().out.decode()
    assert "duplicate-gpu" in text
    assert "  1 | trn-a7:4001:4008 [0] init.cc:497 NCCL WARN Duplicate GPU" in text
    assert "\n  do " in text
    failure = " ".join(text.partition("first failure: ")[2].split())
    assert failure.startswith("line 1 of ")
    assert ", host trn-a7, rank 2 failed ranks: 2" in failure
    assert "\x1b" not in text


def test_a_healthy_run_is_reported_with_its_facts(log, capsysbinary) -> None:
    code, answer = explained(capsysbinary, log(HEALTHY))
    assert (code, answer["state"], answer["diagnoses"][0]["cause_id"]) == (0, "healthy", "healthy")
    assert answer["lines_read"] == 80
    assert "2.21.5" in json.dumps(answer["facts"])


@pytest.mark.parametrize("text", ["", "step 1 loss 2.5\n", b"\x00\xff\xfe\x80" * 99])
def test_a_log_without_any_cause_is_unknown(log, capsysbinary, text: str | bytes) -> None:
    code, answer = explained(capsysbinary, log(text))
    assert (code, answer["state"], answer["diagnoses"]) == (3, "unknown", [])
    assert answer["collect_next"]


def test_the_report_states_what_its_numbers_are_and_that_there_is_something_to_look_at(
    log, capsysbinary
) -> None:
    start = "trn-a0:41:42 [0] NCCL INFO"
    path = log(
        f"{start} NET/IB : No device found.\n{start} NCCL_IB_DISABLE set by environment to 1.\n"
        f"{start} comm 0x55 rank 0 nranks 16 cudaDev 0 busId 1b000 commId 0xabc - Init START\n"
    )
    assert command_line(["explain", path, "-q"]) == 0
    text = capsysbinary.readouterr().out.decode()
    assert "the logs show no failure, but something that you should check" in text
    assert "  number of ranks that completed it: 0\n" in text
    assert "  ranks that wait during initialisation: 0\n" in text


def test_a_kernel_log_without_complaints_is_healthy(log, capsysbinary) -> None:
    code, answer = explained(
        capsysbinary, log("[    0.000000] Linux version 6.8\n[    1.500000] eth0: renamed from veth1\n")
    )
    assert (code, answer["state"]) == (0, "healthy")


def test_folders_and_several_files_are_read_together(log, tmp_path: Path, capsysbinary) -> None:
    (tmp_path / "ranks").mkdir()
    log(DUPLICATE, "ranks/0.log")
    log(HEALTHY, "ranks/1.log")
    log(b"\x1f\x8b\x08", "ranks/old.log.gz")
    code, answer = explained(capsysbinary, str(tmp_path / "ranks"))
    assert code == 1
    assert [Path(name).name for name in answer["sources"]] == ["0.log", "1.log"]
    assert answer["lines_read"] == 82


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsysbinary) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(DUPLICATE.encode())))
    code, answer = explained(capsysbinary, "-")
    assert (code, answer["sources"], answer["diagnoses"][0]["evidence"][0]["source"]) == (1, ["-"], "-")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "no log is named"),
        (["-", "-"], "standard input"),
        (["no-such.log"], "cannot read no-such.log"),
        (["a\0b"], "cannot read"),
        (["."], "contains no logs"),
    ],
)
def test_wrong_usage(
    words: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line(["explain", *words]) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, bz2.compress])
def test_compressed_logs_are_read(
    pack: Callable[[bytes], bytes], log, capsysbinary, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = pack((DUPLICATE + "step\n" * 9000).encode())
    code, answer = explained(capsysbinary, log(packed))
    assert (code, answer["diagnoses"][0]["cause_id"], answer["lines_read"]) == (1, "duplicate-gpu", 9002)
    assert explained(capsysbinary, log(packed), "-f")[0] == 1
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(packed)))
    assert explained(capsysbinary, "-")[0] == 1


def test_a_compressed_log_that_was_cut_is_read_to_there(log, capsysbinary) -> None:
    noise = b"".join(hashlib.sha256(bytes([number])).hexdigest().encode() for number in range(200))
    packed = gzip.compress(DUPLICATE.encode() + noise)
    assert explained(capsysbinary, log(packed[: len(packed) // 2]))[0] == 1
    code, answer = explained(capsysbinary, log(b"\x1f\x8b\x08" + b"x" * 99))
    assert (code, answer["lines_read"]) == (3, 0)


def test_a_file_that_cannot_be_unpacked_is_refused_with_a_command_that_unpacks_it(log, capsys) -> None:
    assert command_line(["explain", log(b"\x28\xb5\x2f\xfd" + b"x" * 99)]) == 2
    assert "zstdcat" in capsys.readouterr().err


def test_a_folder_of_compressed_logs_is_read(log, tmp_path: Path, capsysbinary) -> None:
    (tmp_path / "old").mkdir()
    log(gzip.compress(DUPLICATE.encode()), "old/0.log.gz")
    assert explained(capsysbinary, str(tmp_path / "old"))[0] == 1


def test_redaction_leaves_no_names(log, capsysbinary) -> None:
    text = (
        DUPLICATE + HEALTHY + "node-3:1:2 [0] NCCL WARN Cuda failure 'out of memory' /home/maria/train.py\n"
    )
    _, plain = explained(capsysbinary, log(text))
    code, answer = explained(capsysbinary, log(text), "--redact")
    words = json.dumps(answer["diagnoses"]) + json.dumps(answer["facts"])
    assert code == 1
    assert [each["cause_id"] for each in answer["diagnoses"]] == [
        each["cause_id"] for each in plain["diagnoses"]
    ]
    for name in ("trn-a", "10.1.2.3", "maria", "node-3"):
        assert name not in words
    assert answer["diagnoses"][0]["evidence"][0]["host"] in answer["diagnoses"][0]["evidence"][0]["text"]


def test_a_recipe_is_compared(log, make_recipe, tmp_path: Path, capsysbinary) -> None:
    recipe = make_recipe(
        nodes=4,
        ranks_per_node=8,
        environment=(
            Environment(name="NCCL_IB_HCA", value="=mlx5_0,mlx5_1", why="rails", source="rule"),
            Environment(name="NCCL_SOCKET_IFNAME", value="eth0", why="address", source="rule"),
        ),
    )
    (tmp_path / "recipe.toml").write_text(dump_recipe(recipe))
    text = HEALTHY + (
        "trn-a0:1:2 [0] NCCL INFO NCCL_IB_HCA set to mlx5_0\n"
        "trn-a0:1:2 [0] NCCL INFO NCCL_IB_TIMEOUT set by environment to 23.\n"
        "trn-a0:1:2 [0] NCCL INFO comm 0x55 rank 0 nranks 16 cudaDev 0 busId 1b000 commId 0xabc "
        "- Init START\n"
    )
    _, answer = explained(capsysbinary, log(text), "--recipe", str(tmp_path / "recipe.toml"))
    differences = answer["facts"]["differences"]
    assert "NCCL_IB_HCA: the recipe sets =mlx5_0,mlx5_1, the run had mlx5_0" in differences
    assert "NCCL_SOCKET_IFNAME: the recipe sets eth0, the log has no value" in differences
    assert "NCCL_IB_TIMEOUT: the run had 23, but the recipe does not set the variable" in differences
    assert "the recipe has 32 ranks, but the largest communicator of the run has 16" in differences


def test_a_machine_is_compared() -> None:
    def differences_of(*events: Event) -> str:
        return " ".join(differences_in(known_beside(events, None, h100_node())))

    def event(kind: str, **fields: str) -> Event:
        return log_event(kind, {**fields})

    assert "the run used sockets" in differences_of(event("nccl.network", name="Socket"))
    assert "did not use: " in differences_of(event("nccl.hcas", names="mlx5_0:1"))
    assert "does not have: mlx5_77" in differences_of(event("nccl.hcas", names="mlx5_77:1"))
    assert differences_of(event("nccl.network", name="IB")) == ""


WAIT_S = 120
"""Time limit for work that takes two seconds on an idle machine."""


@contextlib.contextmanager
def following(*words: str, **pipes) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "assistant", "explain", "-f", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[bytes], words: bytes) -> None:
    """Wait until `words` are on the standard error of `process`."""
    assert process.stderr is not None
    deadline, output = time.monotonic() + WAIT_S, b""
    while words not in output:
        assert select.select([process.stderr], [], [], max(deadline - time.monotonic(), 0))[0], output
        data = os.read(process.stderr.fileno(), 4096)
        assert data, output
        output += data


def test_following_a_pipe_reports_news_before_its_end() -> None:
    with following("-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(DUPLICATE.encode())
        process.stdin.flush()
        read_until(process, b"duplicate-gpu")
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
    assert b"duplicate-gpu" in out


def test_following_a_file_ends_with_the_answer_on_interrupt(log) -> None:
    path = log(HEALTHY)
    with following(path) as process:
        with Path(path).open("a") as file:
            file.write(DUPLICATE)
        read_until(process, b"duplicate-gpu")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=WAIT_S)
        assert process.returncode == 1
    assert b"duplicate-gpu" in out


ENVELOPED = """\
May  3 10:00:01 gpu01 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, \
GPU has fallen off the bus.
[pod/blue-heron-worker-0/main] trn-a7:4001:4008 [0] init.cc:497 NCCL WARN Duplicate GPU detected : \
rank 2 and rank 0 both on CUDA device 1000
(RayTrainWorker pid=77, ip=10.11.12.13) RuntimeError: CUDA error: out of memory in /home/maria/run/train.py
[1,3]<stderr>:slurmstepd: error: *** JOB 812 ON violet-n17 CANCELLED AT 2024-05-03T10:00:09 \
DUE TO TIME LIMIT ***
{"log":"trn-b8:1:2 [0] NCCL WARN NET/IB : Got completion from peer 2001:db8:77::21<4000> with status=12 \
opcode=0 len=0 vendor err 129 (Send) localGid fe80::ba59:9fff:fe01:203 hca mlx5_0",\
"time":"2024-05-03T10:00:03Z"}
srun: error: violet-n18: task 3: Exited with exit code 1
[W503 10:00:01.1 socket.cpp:767] [c10d] The client socket has failed to connect to \
[violet-n19]:29500 (errno: 111 - Connection refused).
mpirun noticed that process rank 3 with PID 4100 on node violet-n20 exited on signal 11 (Segmentation fault).
  host      : violet-n21
"""


@pytest.mark.parametrize("place", range(len(ENVELOPED.splitlines())))
def test_names_are_redacted_in_every_form_of_line(place: int, log, capsysbinary) -> None:
    path = log(ENVELOPED.splitlines()[place] + "\n")
    command_line(["explain", path, "--redact", "-q", "-v"])
    words = capsysbinary.readouterr().out.decode().replace(path, "")
    _, answer = explained(capsysbinary, path, "--redact")
    words += json.dumps([answer["diagnoses"], answer["facts"]])
    for name in (
        "gpu01",
        "trn-",
        "blue-heron",
        "10.11.12",
        "maria",
        "violet",
        "2001:db8:77",
        "ba59",
        "fe01:203",
    ):
        assert name not in words
