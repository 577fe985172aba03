"""Test that redacted explanations contain no name or secret of a log, wherever a line was cut."""

from __future__ import annotations

import re

import msgspec
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from assistant.pages.explain_page import explain_page
from assistant.text.plain_writer import text_of
from probes.logs.gather import LONGEST_TEXT
from probes.logs.reading import Reading
from probes.logs.redacting import LogRedactor

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALPHABET = LETTERS + LETTERS.upper() + "0123456789"

ENVELOPES = (
    "{host}:4001:4008 [0] train.cc:1 NCCL WARN {message}",
    "May  3 10:00:01 {host} kernel: {message}",
    "May  3 10:00:01 {host} trainer[77]: {message}",
    "2026-05-03T10:00:01.5+0000 {host} kernel: {message}",
    "[pod/{host}/main] {message}",
    "(RayTrainWorker pid=77, ip={host}) {message}",
    "[1,3]<stderr>:{host}:4001:4008 [0] NCCL WARN {message}",
    "srun: error: {host}: task 3: Exited with exit code 1\n{message}",
    "srun: error: Node failure on {host}\n{message}",
    "slurmstepd: error: *** JOB 812 ON {host} CANCELLED AT 2026-05-03T10:00:09 DUE TO TIME "
    "LIMIT ***\n{message}",
    "mpirun noticed that process rank 3 with PID 4100 on node {host} exited on signal 11 "
    "(Segmentation fault).\n{message}",
    "Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-03_10:00:01\n  host      : {host}\n"
    "  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 77)\n  error_file: <N/A>\n"
    "  traceback : To enable traceback see: https://pytorch.org/\n{message}",
    '{{"_HOSTNAME":"{host}","MESSAGE":"{message}","_TRANSPORT":"kernel"}}',
    "[W503 10:00:01.1 socket.cpp:767] [c10d] The client socket has failed to connect to [{host}]:29500 "
    "(errno: 111 - Connection refused).\n{message}",
    "[E1119 10:15:11.3 socket.cpp:957] [c10d] The client socket has timed out after 300000ms while trying "
    "to connect to "
    "({host}, 29400).\n{message}",
)
MESSAGES = (
    "RuntimeError: {filler} {said}",
    "[rank3]: ValueError: {filler} {said}",
    "torch.distributed.DistBackendError: {filler} {said}",
    "NCCL WARN Cuda failure 'out of memory' {filler} {said}",
    "NET/IB : Got completion from peer {said} with status=12 opcode=0 len=0 vendor err 129 (Recv)",
    "NVRM: Xid (PCI:0000:1b:00): 79, pid=4711, name=python, GPU has fallen off the bus. {said}",
    "terminate called after throwing\n  what():  {filler} {said}",
    "[rank3]:[E503 10:00:01.1 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective operation "
    "timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 "
    "milliseconds before timing "
    "out. {filler} {said}",
    "Health check failed: gpu_burn: {filler} {said}",
    "OSError: [Errno 28] No space left on device: {said}",
    "nvidia-container-cli: {filler} {said}",
    "NCCL INFO NCCL_SOCKET_IFNAME set by environment to {said}",
)
SECRETS = (
    ("hf_", "{}"),
    ("ghp_", "token {}"),
    ("", "https://store.example.com/ckpt?X-Amz-Signature={}"),
    ("", "https://store.example.com/ckpt?se=2026-01-01&sig={}&sp=r"),
    ("", "https://store.example.com/v1?token={}"),
    ("", "postgres://trainer:{}@db.example.com/runs"),
    ("", "Authorization: Bearer {}"),
    ("", "WANDB_API_KEY={}"),
    ("AKIA", "key {}"),
)

names = st.builds(
    "{}{}{}".format,
    st.text(LETTERS, min_size=1, max_size=8),
    st.sampled_from(["", "-", "0"]),
    st.integers(1, 999),
)
hosts = st.one_of(names, st.builds("{}.{}.corp".format, names, st.text(LETTERS, min_size=5, max_size=9)), st.sampled_from(
    ["gpu07", "n1", "node12", "gpu-7", "worker-3", "dgx-a12", "rank7"]
))  # fmt: skip
users = st.builds("wq{}z".format, st.text(LETTERS, min_size=3, max_size=9))
bodies = st.text(ALPHABET, min_size=20, max_size=48).filter(lambda text: any(map(str.isdigit, text)))


def everything_shown(text: str) -> str:
    """Return all output about a log, for people and for programs."""
    reading = Reading(LogRedactor(b"salt"))
    source = reading.source("job.log")
    reading.feed(source, text.encode())
    source.end()
    explanation = reading.explanation()
    return text_of(explain_page(explanation, verbose=True)) + msgspec.json.encode(explanation).decode()


def stands(name: str, text: str) -> bool:
    return re.search(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])", text, re.IGNORECASE) is not None


@settings(deadline=None)
@pytest.mark.slow
@given(
    envelope=st.sampled_from(ENVELOPES),
    message=st.sampled_from(MESSAGES),
    secret=st.sampled_from(SECRETS),
    body=bodies,
    host=hosts,
    user=users,
    filler=st.integers(0, 1200),
)
def test_names_and_secrets_of_a_log_are_reported_nowhere(
    *, envelope: str, message: str, secret: tuple[str, str], body: str, host: str, user: str, filler: int
) -> None:
    def log(host: str, user: str, body: str) -> str:
        said = f"{secret[1].format(secret[0] + body)} /home/{user}/run.py on {host}"
        return (
            envelope.format(host=host, message=message.format(filler="x " * (filler // 2), said=said)) + "\n"
        )

    plain = everything_shown(log("quux", "quux", "quux"))
    assume(not any(stands(part, plain) for name in (host, user) for part in name.split(".")))
    words = everything_shown(log(host, user, body))
    for name in (host.partition(".")[0], user):
        assert not stands(name, words)
    assert not any(body[:length] in words for length in range(6, 8))
    assert not any(body[start : start + 8] in words for start in range(len(body) - 7))


def longest_text(reading: Reading) -> int:
    reading.feed(reading.source("job.log"), b"RuntimeError: " + b"x" * 3000 + b"\n")
    return max(len(event.text) for event in reading.events())


def test_a_line_is_cut_only_after_its_names_are_removed() -> None:
    """A name that the cut splits would not be recognised."""
    assert longest_text(Reading()) == len("x" * LONGEST_TEXT + "…")
    assert longest_text(Reading(LogRedactor(b"salt"))) > 3000


@pytest.mark.parametrize("words", ["gpu[07-09]", "gpu[07,09]", "gpu[07-08,11]"])
def test_lists_of_nodes_are_taken_apart(words: str) -> None:
    text = everything_shown(
        f"srun: error: {words}: tasks 0-15: Killed\nsrun: error: Node failure on {words}\n"
        "RuntimeError: lost the connection to gpu07 and gpu08-ib0\n"
    )
    assert not stands("gpu07", text)
    assert "gpu[" not in text
    assert "host-" in text


def test_the_same_name_has_one_placeholder_in_all_that_is_reported() -> None:
    text = everything_shown(
        "trn-a7:4001:4008 [0] init.cc:497 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on "
        "CUDA device 1000\n"
        "[rank2]: RuntimeError: trn-a7 gave up\n"
    )
    assert len(set(re.findall(r"host-[0-9a-f]{8}", text))) == 1


def test_words_of_the_run_stay() -> None:
    text = everything_shown(
        "trn-a7:4001:4008 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB eth0:10.1.2.3<0>\n"
    )
    assert "mlx5_0" in text
