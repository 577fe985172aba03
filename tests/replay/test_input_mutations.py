"""Give damaged files to commands: each ends soon with a documented exit code and clean output.

The number of mutations is RIGTUNE_INPUT_MUTATIONS; RIGTUNE_INPUT_SEED gives other mutations.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import pytest

from assistant.cli import command_line
from assistant.formats.check_formats import FORMATS
from probes.base.errors import ExitCode
from probes.base.record import to_json
from tests.support.hostile_values import changed_json, changed_table, changed_toml, changed_words
from tests.support.measured import measured, run_of
from tests.support.mutations import Mutation, mutated
from tests.support.recordings import MACHINES

QUICK, MANY = 400, 20_000
SEED = 20261122
LONGEST_S = 5.0
STOP_S = 4 * LONGEST_S
"""Time after which a command is stopped."""
LARGEST = 20_000
"""Size in bytes of the piece that is cut out of a longer text."""
TESTS = Path(__file__).parents[1]
UNWANTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")
ENDS = frozenset(int(code) for code in ExitCode) - {int(ExitCode.BUG), int(ExitCode.INTERRUPTED)}
MODELS = TESTS.parent / "recipes/data/models"
MACHINE = "--machine dgx-h100"
ADVICE = tuple(
    f"advise {subject} --from @ {option}"
    for subject in ("install", "hardware", "mig --model gpt2", "container", "kubelet", "network --dscp 26")
    for option in ("", "--format json")
)
"""Commands that advise on the facts of a file; after the damage, some facts contradict each other."""


CONFIG = (
    b'{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_attention_heads": 32, '
    b'"num_hidden_layers": 16, "num_key_value_heads": 8, "vocab_size": 128256, "torch_dtype": "bfloat16", '
    b'"tie_word_embeddings": true, "max_position_embeddings": 8192, "architectures": ["LlamaForCausalLM"]}'
)
DUMP = (
    b'{"version": "2.5", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}, '
    b'"entries": [{"frames": [], "record_id": 0, "pg_id": 0, "process_group": ["0", "default_pg"], '
    b'"collective_seq_id": 1, "p2p_seq_id": 0, "op_id": 1, "profiling_name": "nccl:all_reduce", '
    b'"time_created_ns": 1724000000000000000, "input_sizes": [[3]], "input_dtypes": ["Float"], '
    b'"output_sizes": [[3]], "output_dtypes": ["Float"], "state": "scheduled", "retired": false, '
    b'"time_discovered_started_ns": null, "time_discovered_completed_ns": null, "timeout_ms": 600000, '
    b'"is_p2p": false}]}'
)
"""A dump of torch's flight recorder."""


class Input(NamedTuple):
    """A kind of input: correct files, commands (`@` is the file, `%` an output), and the kind of damage."""

    files: tuple[tuple[str, bytes], ...]
    commands: tuple[str, ...]
    damage: Mutation = changed_words


def end_of(*arguments: str) -> tuple[int | None, str]:
    """Return the exit code and all that the command printed."""
    out, errors = io.BytesIO(), io.BytesIO()
    streams = [
        io.TextIOWrapper(each, "utf-8", "backslashreplace", write_through=True) for each in (out, errors)
    ]
    with contextlib.redirect_stdout(streams[0]), contextlib.redirect_stderr(streams[1]):
        code = command_line(list(arguments))
    # An id of a table and a line of a patch keep bytes that are not UTF-8; JSON must not contain them.
    handling = "strict" if "json" in arguments or "sarif" in arguments else "surrogateescape"
    return code, (out.getvalue() + errors.getvalue()).decode("utf-8", handling)


def written_by(folder: Path, name: str, command: str) -> tuple[str, bytes]:
    path = folder / name
    _, words = end_of(*command.replace("@", str(path)).split())
    assert path.exists(), words
    return name, path.read_bytes()


def texts_below(folder: Path, *suffixes: str) -> tuple[tuple[str, bytes], ...]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple((path.name, path.read_bytes()) for path in paths if not suffixes or path.suffix in suffixes)


def recorded(*folders: str) -> tuple[tuple[str, bytes], ...]:
    """Return recorded texts, or texts of this repository if the folder of recordings is missing."""
    rows = [row for folder in folders for row in texts_below(MACHINES / folder) if len(row[1]) < 200_000]
    return tuple(rows) or texts_below(TESTS / "golden" / "text", ".txt")


def inputs(folder: Path) -> dict[str, Input]:
    """Return every kind of input; the files that rigtune writes are written to `folder`."""
    snapshots = (
        written_by(folder, "snap.json", f"probe {MACHINE} -q --record @"),
        ("vm.json", (TESTS / "machines/cpu-vm/recording.json").read_bytes()),
        ("link.json", (TESTS / "machines/h100-dead-link/recording.json").read_bytes()),
    )
    # A recording whose checksum is empty may be changed.
    snapshots = tuple(
        (name, re.sub(rb'"checksum": *"[\w:]+"', b'"checksum":""', data)) for name, data in snapshots
    )
    recipe = (
        written_by(folder, "a.toml", f"plan llama-3-8b {MACHINE} --nodes 2 -q -o @"),
        written_by(folder, "b.toml", f"plan llama-3.2-1b {MACHINE} -q -o @ -- t.py {{micro_batch}}"),
        written_by(
            folder,
            "c.toml",
            f"plan gpt2 {MACHINE} -q -o @ --node-mtbf 1000 --checkpoint-write 60 --known-batch 64 "
            "--known-lr 1e-4 --program reference",
        ),
    )
    rates = run_of(
        measured("gemm", "flops_per_s", "GPU0", 7e14, dtype="bf16", m=8192, n=8192, k=8192),
        measured("memory-bandwidth", "bytes_per_s", "GPU0", 2.9e12, operation="copy", bytes=1 << 30),
        measured("collectives", "bus_bytes_per_s", "8 ranks", 4e11, collective="all_reduce", bytes=1 << 30),
    )
    policy = written_by(folder, "policy.toml", f"check {MACHINE} -q --learn @")
    lines = (TESTS / "quantities/cases.csv").read_bytes().splitlines(keepends=True)
    cases = tuple(
        (f"cases{at}.csv", b"".join([lines[0], *lines[at : at + 3]])) for at in range(1, len(lines), 3)
    )
    models = tuple(
        (f"{at}.toml", b"[[models]]" + model)
        for at, model in enumerate((MODELS / "llama.toml").read_bytes().split(b"[[models]]"))
        if b"\ndate" in model and at
    )
    launch_files = (
        *texts_below(TESTS / "lint/clean"),
        *texts_below(TESTS / "lint/cases"),
        *_scripts(folder, recipe[0]),
    )
    texts = recorded("nvsmi_text", "nvsmi_xml", "topo_m", "pci", "ib", "dcgm", "hwloc", "nvlink", "nccl_topo")
    texts += recorded("machines", "nvbandwidth", "perftest", "nccl_tests")
    settings = (
        b'select = ["slurm-*"]\nignore = ["image-*"]\nfail-on = "warning"\nnccl-version = "2.27.5"\n'
        b'exclude = ["old/*"]\n[per-file-ignores]\n"*.sh" = ["nccl-*"]\n'
    )
    logs = recorded("nccl_log", "kernel_log", "dcgm", "nccl_tests")
    script = TESTS / "lint/clean/megatron.sh"
    predict = "predict --model-file @ --set gpu=H100-SXM-80GB --set n_gpus=8"
    return {
        "snapshot": Input(
            snapshots,
            (
                *(f"{command} --from @" for command in ("check", "probe -v", "plan", "capture -o %")),
                *(f"{command} --format json --from @" for command in ("check", "probe")),
                "diff @ machine:dgx-h100",
                "check --from @ --learn %",
                "predict --from @ --set model=llama-3-8b",
                *ADVICE,
                "plan --from @ --node-mtbf 1000 --checkpoint-write 60",
            ),
            changed_json,
        ),
        "pasted text": Input(
            texts,
            (
                *(f"check --from @ --format {name}" for name in FORMATS),
                *(f"{command} --from @" for command in ("check -v", "probe -v", "capture -o %", "plan")),
                "probe --from @ --format json",
                *ADVICE,
            ),
        ),
        "log": Input(logs, ("explain @", "explain @ -v", "explain @ --format json --redact")),
        "dump": Input((("nccl_trace_rank_0.json", DUMP),), ("explain @ -v", "explain @"), changed_json),
        "launch file": Input(
            launch_files,
            (
                *(f"lint @ --format {name}" for name in ("text", "json", "sarif", "github")),
                *(f"lint @ {option}" for option in ("-v", "--diff --unsafe-fixes", "--redact")),
            ),
        ),
        "lint settings": Input(
            (("rigtune-lint.toml", settings),), (f"lint --config @ {script}",), changed_toml
        ),
        "recipe": Input(
            recipe,
            (
                *(f"export @ --to {to} --out %" for to in ("slurm", "torchrun", "mpi")),
                *(f"tune @ --dry-run {option}" for option in ("", "--reference", "--try A=1 --format json")),
            ),
            changed_toml,
        ),
        "model of a TOML": Input(models, (f"plan @ {MACHINE}", predict), changed_toml),
        "config.json": Input((("config.json", CONFIG),), (f"plan @ {MACHINE}", predict), changed_json),
        "cases": Input(
            cases,
            (
                *(f"predict @ --format {name}" for name in ("csv", "json", "text")),
                "predict @ --collectives",
                "predict @ -o %",
            ),
            changed_table,
        ),
        "policy": Input(
            (policy,),
            tuple(f"check {MACHINE} --policy @ {more}" for more in ("-v", "--format json", "--format junit")),
            changed_toml,
        ),
        "measurements": Input(
            (("measurements.json", to_json(rates)),),
            (
                f"plan {MACHINE} --measurements @",
                f"check {MACHINE} --measurements @",
                f"predict {MACHINE} --measurements @ --set model=llama-3-8b",
            ),
            changed_json,
        ),
    }


def _scripts(folder: Path, recipe: tuple[str, bytes]) -> tuple[tuple[str, bytes], ...]:
    (folder / recipe[0]).write_bytes(recipe[1])
    code, words = end_of(
        "export", str(folder / recipe[0]), "--to", "slurm", "--to", "mpi", "--out", str(folder / "out")
    )
    assert code == 0, words
    return texts_below(folder / "out")


def damaged(rng: random.Random, data: bytes, damage: Mutation) -> bytes:
    """Return one file after damage that fits its kind, damage that fits none, or both."""
    if len(data) > LARGEST and damage is changed_words and rng.random() < 0.9:
        start = rng.randrange(len(data) - LARGEST)
        data = data[start : start + LARGEST]
    way = rng.random()
    data = damage(rng, data) if way < 0.9 else data
    return mutated(rng, data) if way > 0.8 else data


def _stop(number: int, frame: FrameType | None) -> None:
    raise AssertionError(f"no end after {STOP_S:.0f} s")


def faults(arguments: list[str], folder: Path) -> Iterator[str]:
    """Yield the faults of a run: an exception, a long time, a wrong exit code, control characters."""
    before = time.process_time()
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, STOP_S)
    try:
        code, words = end_of(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever it is, it is a fault
        yield f"{type(error).__name__}: {error}"[:500]
        return
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    took_s = time.process_time() - before
    if took_s > LONGEST_S:
        yield f"{took_s:.1f} s"
    if code not in ENDS:
        yield f"exit code {code}"
    texts = [("output", words)]
    texts += [
        (path.name, path.read_text("utf-8", "surrogateescape"))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]
    for name, text in texts:
        unwanted = UNWANTED.search(text)
        if unwanted:
            yield f"{unwanted[0]!r} in {name}: {text[max(0, unwanted.start() - 60) : unwanted.end() + 60]!r}"


@pytest.fixture
def quiet_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the program a folder and a state of its own; signals are as before afterwards."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGALRM)
    handlers = [signal.getsignal(number) for number in numbers]
    yield tmp_path
    for number, handler in zip(numbers, handlers, strict=True):
        signal.signal(number, handler)


def hold(folder: Path, count: int, seed: int) -> None:
    """Run `count` damaged inputs, and report all faults at the end."""
    made = folder / "made"
    made.mkdir()
    kinds = inputs(made)
    everything: list[str] = []
    for number in range(count):
        rng = random.Random(seed * 1_000_003 + number)  # noqa: S311 - it only has to repeat
        kind = rng.choice(list(kinds))
        row = kinds[kind]
        name, data = rng.choice(row.files)
        place = folder / f"case{number}"
        path = place / "in" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(damaged(rng, data, row.damage))
        result = place / "out" / "result"
        result.parent.mkdir()
        command = rng.choice(row.commands)
        arguments = command.replace("@", str(path)).replace("%", str(result)).split()
        case = f"mutation {number} of seed {seed}, {kind} {name}, {command}"
        everything += [f"{case}: {words}" for words in faults(arguments, result.parent)]
        shutil.rmtree(place)
    assert not everything, "\n".join(everything)


@pytest.mark.slow
def test_damaged_inputs(quiet_surroundings: Path) -> None:
    count = int(os.environ.get("RIGTUNE_INPUT_MUTATIONS", QUICK))
    hold(quiet_surroundings, count, int(os.environ.get("RIGTUNE_INPUT_SEED", SEED)))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("hundredth", range(100))
def test_many_damaged_inputs(quiet_surroundings: Path, hundredth: int) -> None:
    hold(quiet_surroundings, MANY // 100, SEED + 1 + hundredth)
