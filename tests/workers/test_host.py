"""Run the workers of storage, host memory, CPU products and data loaders, also with faults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.workers.conftest import DEADLINE_S

Lines = list[dict[str, Any]]
IN_ORDER = {"operation": "read", "order": "sequential", "block_bytes": 1 << 20, "queue_depth": 4}
AT_RANDOM = {"operation": "read", "order": "random", "block_bytes": 1 << 17, "queue_depth": 4}
FILES = {"operation": "read_files", "order": "random", "queue_depth": 2}
WRITE = {"operation": "write", "order": "sequential", "block_bytes": 1 << 20, "queue_depth": 2}
MIB = 1 << 20
SHARED = "/dev/shm"  # noqa: S108 - where torch's workers pass batches
COPY = {"operation": "copy", "numa_node": 0, "memory_node": 0}


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts a benchmark's worker with one rank, which writes to `tmp_path`."""

    def begin(
        python: str, bench: str, cases: list[dict[str, Any]], budget_s: float = 0.6, **more: Any
    ) -> subprocess.Popen[str]:
        request = {"device": "cpu", "backend": "gloo", "budget_s": budget_s, "cases": cases, **more}
        (tmp_path / "request.json").write_text(json.dumps(request))
        argv = (
            python,
            "-m",
            "rigtune_worker",
            bench,
            "--request",
            str(tmp_path / "request.json"),
            "--out",
            str(tmp_path),
        )
        return subprocess.Popen(
            argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    return begin


@pytest.fixture
def answer(start: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> Callable[..., Lines]:
    def run(python: str, bench: str, cases: list[dict[str, Any]], **more: Any) -> Lines:
        with start(python, bench, cases, **more) as worker:
            worker.communicate(timeout=DEADLINE_S)
        return [json.loads(line) for line in (tmp_path / "rank0.jsonl").read_text().splitlines()]

    return run


@pytest.fixture
def stored(answer: Callable[..., Lines]) -> Callable[..., Lines]:
    """Return a function that measures storage; this needs no torch and runs in this interpreter."""

    def run(path: Path, *cases: dict[str, Any]) -> Lines:
        settings = {"data_path": str(path), "file_bytes": 64 * MIB}
        return answer(sys.executable, "storage", list(cases), settings=settings, needs_torch=False)

    return run


@pytest.fixture
def roomy(tmp_path: Path) -> Path:
    """Return a folder whose file system has room for the benchmark's file."""
    if shutil.disk_usage(tmp_path).free * 0.05 < 64 * MIB:
        pytest.skip("needs 1.3 GiB of free space for temporary files")
    folder = tmp_path / "data"
    folder.mkdir()
    return folder


def of(lines: Lines, event: str) -> Lines:
    return [line for line in lines if line["event"] == event]


def test_a_folder_is_read_through_a_file_that_is_gone_afterwards(stored, roomy):
    lines = stored(roomy, IN_ORDER, AT_RANDOM, WRITE)
    assert [line["case"] for line in of(lines, "sample")] == [IN_ORDER, AT_RANDOM, WRITE]
    assert [line["figures"]["bytes_per_call"] for line in of(lines, "sample")] == [1 << 20, 1 << 17, 1 << 20]
    assert all(min(line["durations_s"]) > 0 for line in of(lines, "sample"))
    (end,) = of(lines, "done")
    assert (end["conditions"]["own_file"], end["conditions"]["file_bytes"]) == (True, 64 * MIB)
    assert roomy.as_posix().startswith(end["conditions"]["mount_point"])
    assert list(roomy.iterdir()) == []


def test_a_users_file_is_read_as_it_is_and_writing_goes_elsewhere(stored, roomy):
    path = roomy / "records"
    path.write_bytes(os.urandom(MIB) * 64 + b"tail")
    before = path.stat().st_mtime_ns
    lines = stored(path, IN_ORDER, WRITE)
    assert len(of(lines, "sample")) == 2
    conditions = of(lines, "done")[0]["conditions"]
    assert (conditions["own_file"], conditions["file_bytes"]) == (False, 64 * MIB)
    assert path.stat().st_mtime_ns == before
    assert list(roomy.iterdir()) == [path]


def test_a_dataset_of_many_files_is_read_file_by_file(stored, roomy):
    for number in range(64):
        (roomy / f"{number}.jpg").write_bytes(b"x" * 1000)
    (line,) = of(stored(roomy, FILES), "sample")
    assert line["figures"]["bytes_per_call"] == 1000
    (roomy / "0.jpg").unlink()
    (line,) = of(stored(roomy, FILES), "skipped")
    assert "at least 64 files" in line["message"]


def test_memory_is_no_disk_even_where_it_accepts_direct_reads(stored):
    shared = Path(SHARED)
    if not shared.is_dir() or shutil.disk_usage(shared).free * 0.05 < 64 * MIB:
        pytest.skip("needs 1.3 GiB of free space in /dev/shm")
    lines = stored(shared, IN_ORDER)
    assert of(lines, "sample")[0]["figures"]["direct"] == 0
    assert of(lines, "done")[0]["conditions"]["file_system"] == "tmpfs"


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "there is no file or folder"), (b"x" * 1000, "has 1000 bytes"), (0, "mostly sparse")],
    ids=["absent", "small", "sparse"],
)
def test_a_file_unfit_to_measure_a_disk_is_refused_in_one_line(stored, tmp_path, content, words):
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content or b"x")
        os.truncate(path, len(content) if content else 64 * MIB)
    (line,) = of(stored(path, IN_ORDER), "failure")
    assert words in line["message"]
    assert "\n" not in line["message"]


def test_a_pipe_is_no_file_and_is_not_waited_for(stored, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (line,) = of(stored(tmp_path / "pipe", IN_ORDER), "failure")
    assert "not a regular file" in line["message"]


def left_over(folder: Path) -> list[str]:
    """Return the paths below the folder that any process has open, and the names in the folder."""
    held = [
        file.path for process in psutil.process_iter() if process.is_running() for file in open_files(process)
    ]
    return [path for path in held if path.startswith(str(folder))] + [path.name for path in folder.iterdir()]


def open_files(process: psutil.Process) -> list[Any]:
    try:
        return process.open_files()
    except psutil.Error:
        return []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_a_killed_worker_leaves_neither_its_file_nor_its_readers(start, roomy, tmp_path, number):
    settings = {"data_path": str(roomy), "file_bytes": 64 * MIB}
    cases = [IN_ORDER, AT_RANDOM]
    with start(
        sys.executable, "storage", cases, budget_s=DEADLINE_S, settings=settings, needs_torch=False
    ) as worker:
        watched = psutil.Process(worker.pid)
        deadline = time.monotonic() + DEADLINE_S
        while not (below := watched.children()):
            assert time.monotonic() < deadline
        worker.send_signal(number)
    _, alive = psutil.wait_procs(below, timeout=DEADLINE_S)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]
    assert left_over(roomy) == []


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "tiny"
    folder.mkdir()
    subprocess.run(("mount", "-t", "tmpfs", "-o", "size=4m", "rigtune-test", str(folder)), check=True)
    yield folder
    subprocess.run(("umount", str(folder)), check=True)


@pytest.mark.root
@pytest.mark.parametrize("used", [0, 4 * MIB], ids=["small", "full"])
def test_a_disk_without_room_is_one_clear_line_and_nothing_is_left(stored, tiny, used):
    if used:
        (tiny / "theirs").write_bytes(b"x" * used)
    before = sorted(tiny.iterdir())
    (line,) = of(stored(tiny, IN_ORDER), "failure")
    assert f"has {4 - used // MIB} MiB free" in line["message"]
    assert "\n" not in line["message"]
    assert sorted(tiny.iterdir()) == before


def test_memory_counts_for_the_node_on_which_it_lies(answer, torch_python):
    """Nodes 40 and 41 are invented. Node 40 has this host's CPUs, but no memory can be placed on it.

    Node 41 has only CPUs that this process may not use.
    """
    if not Path("/proc/self/numa_maps").exists():
        pytest.skip("needs a kernel with NUMA")
    cpus = sorted(os.sched_getaffinity(0))
    own = [COPY, {**COPY, "operation": "triad"}]
    elsewhere, barred = ({**COPY, "numa_node": node, "memory_node": node} for node in (40, 41))
    nodes = {"0": cpus, "40": cpus, "41": [100_000]}
    lines = answer(
        torch_python,
        "host-memory",
        [*own, elsewhere, barred],
        threads_per_rank=2,
        numa_cpus=nodes,
        budget_s=10.0,
    )
    assert [line["case"] for line in of(lines, "sample")] == own
    assert all(line["figures"]["array_bytes"] >= 64 * MIB for line in of(lines, "sample"))
    assert [line["case"] for line in of(lines, "skipped")] == [barred]
    (line,) = of(lines, "failure")
    assert line["case"] == elsewhere
    assert "only 0% of the memory could be placed on NUMA node 40" in line["message"]


def test_products_of_one_node(answer, torch_python):
    case = {"numa_node": 0, "dtype": "fp32", "m": 256, "n": 256, "k": 256}
    (line,) = of(answer(torch_python, "cpu-gemm", [case], threads_per_rank=1, numa_cpus={}), "sample")
    assert line["figures"]["threads"] == 1


def test_loaders_with_and_without_workers_deliver(answer, torch_python):
    cases = [{"num_workers": workers, "batch_size": 2} for workers in (0, 1)]
    lines = answer(torch_python, "data-loader", cases, settings={"data_path": ""})
    assert [line["case"] for line in of(lines, "sample")] == cases
    assert of(lines, "done")[0]["conditions"]["data"] == "synthetic"


IN_TROUBLE = """
import os, signal, types
from rigtune_worker.bench import data_loader
from rigtune_worker.image_data import ImageLike, read_cold
from rigtune_worker.protocol import CaseError

class Killed(ImageLike):
    def __getitem__(self, index):
        os.kill(os.getpid(), self.number)

class Bad(ImageLike):
    def __getitem__(self, index):
        raise ValueError("bad file")

def ends(call, *arguments):
    try:
        call(*arguments)
        return ["", ""]
    except CaseError as error:
        return [error.kind, str(error)]

Killed.number = signal.SIGKILL
killed = ends(data_loader.measure, Killed([]), 1, 2, 1.0)
Killed.number = signal.SIGBUS
bus = ends(data_loader.measure, Killed([]), 1, 2, 1.0)
bad = ends(data_loader.measure, Bad([]), 1, 2, 1.0)
os.statvfs = lambda path: types.SimpleNamespace(f_bavail=64 * 256, f_frsize=4096)
room = [ends(data_loader.check_room, workers, 32, 1) for workers in (0, 1, 2)]
reads = [list(ImageLike([{path!r}])[7].shape), read_cold({path!r}), read_cold({path!r} + ".gone")]
answer = dict(killed=killed, bus=bus, bad=bad, room=room, reads=reads)
"""


@pytest.fixture(scope="module")
def in_trouble(in_torch, tmp_path_factory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("files") / "a.jpg"
    path.write_bytes(b"x" * 5000)
    return in_torch(IN_TROUBLE.replace("{path!r}", repr(str(path))))


@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("killed", "out_of_memory", "was killed"),
        ("bus", "out_of_memory", f"{SHARED} is too small"),
        ("bad", "crashed", "bad file"),
    ],
)
def test_a_loaders_worker_that_ends_has_one_line_of_cause(in_trouble, what, kind, words):
    result, message = in_trouble[what]
    assert (result, "\n" in message) == (kind, False)
    assert words in message


def test_batches_that_do_not_fit_into_shared_memory_are_not_tried(in_trouble):
    assert [kind for kind, _ in in_trouble["room"]] == ["", "", "out_of_memory"]
    assert f"{SHARED} is too small" in in_trouble["room"][2][1]


def test_files_are_read_where_the_data_lies(in_trouble):
    assert in_trouble["reads"] == [[3, 224, 224], 5000, 0]
