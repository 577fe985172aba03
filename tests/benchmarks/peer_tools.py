"""Measure with rigtune and with the field's own tools, for `measure_against_tools.py`."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from assistant.processes.interpreter import worker_environment
from assistant.processes.runner import worker_variables
from assistant.usecases.measure import MeasureOptions, measure_machine
from assistant.usecases.probe import probe_machine
from probes.base.units import MIB
from probes.bench.bench_requests import BenchSettings
from probes.collect.collecting import CollectOptions
from probes.facts import MachineFacts
from probes.facts.measurements import Measurement, MeasurementSet
from probes.sources.live import LiveSource
from tests.benchmarks.peer_programs import ALL_REDUCE, NUMPY, SGEMM, STREAM

PEER_S = 3
"""Number of seconds for which another tool measures each time."""
ARRAY_BYTES = 256 * MIB
FILE_BYTES = 1024 * MIB
GEMM_SIZE = 2048
ALL_REDUCE_BYTES = (1 * MIB, 64 * MIB)
"""Sizes of rigtune's sweep that are compared."""

BANDWIDTH = "memory_bandwidth_bytes_per_s"

Rates = dict[str, float]
"""Rates by the name of the row."""


class MissingError(Exception):
    """A tool or a permission that this machine lacks, or a measurement that failed."""


class Contest(NamedTuple):
    """Rows that one start of rigtune measures, and the peers that measure the same."""

    ours: Callable[[], Rates]
    peers: dict[str, Callable[[], Rates]]
    """Functions by the name of the peer; each returns the rates of some of the rows."""


# ---- rigtune's side: its public use-case


def facts_here() -> MachineFacts:
    return list(probe_machine(LiveSource(), CollectOptions()))[-1].result  # type: ignore[union-attr,return-value]


def measured(facts: MachineFacts, *only: str, ranks: int = 1, data_path: str = "") -> list[Measurement]:
    """Return rigtune's measurements. Raises MissingError with the message of the first failure."""
    options = MeasureOptions(
        only=only,
        force=True,
        ranks_per_node=ranks,
        settings=BenchSettings(data_path=data_path),
        python=facts_python(facts),
    )
    result = list(measure_machine(facts, options))[-1].result  # type: ignore[union-attr]
    assert isinstance(result, MeasurementSet)
    if result.failures:
        raise MissingError(f"rigtune: {result.failures[0].message}")
    return list(result.measurements)


def facts_python(facts: MachineFacts) -> str:
    return os.environ.get("RIGTUNE_TEST_PYTHON") or (
        facts.training.path if isinstance(facts.training.path, str) else sys.executable
    )


def rates_of(measurements: list[Measurement], rows: dict[str, dict[str, object]]) -> Rates:
    """Return the median of each row, selected by metric and parameters.

    A row for which a busy machine left no time is absent.
    """
    rates = {}
    for row, wanted in rows.items():
        entries = [
            m
            for m in measurements
            if all(
                {"metric": m.metric, "bench": m.bench_id, **m.parameters}.get(k) == v
                for k, v in wanted.items()
            )
        ]
        if entries:
            rates[row] = statistics.median(entry.median for entry in entries)
    return rates


# ---- the peers


def output_of(argv: list[str], *, deadline_s: float = 180.0, **variables: str) -> str:
    """Return the output of a program. Raises MissingError if the program is absent or fails."""
    if shutil.which(argv[0]) is None:
        raise MissingError(f"{argv[0]} is not installed")
    environment = {**os.environ, **variables}
    finished = subprocess.run(
        argv, env=environment, capture_output=True, text=True, timeout=deadline_s, check=False
    )
    if finished.returncode:
        words = (finished.stderr or finished.stdout).strip().splitlines()
        raise MissingError(f"{argv[0]} failed: {words[-1] if words else finished.returncode}")
    return finished.stdout


def memory(facts: MachineFacts, folder: Path) -> Contest:
    cores = max(1, len(os.sched_getaffinity(0)))
    if shutil.which("gcc") is not None:
        (folder / "stream.c").write_text(STREAM)
        output_of(
            [
                "gcc",
                "-O3",
                "-march=native",
                "-fopenmp",
                "-o",
                str(folder / "stream"),
                str(folder / "stream.c"),
            ]
        )

    places = {"memory-copy": "one rank", "host-memory": "NUMA node"}
    rows: dict[str, dict[str, object]] = {
        f"memory {operation}, {name}": {"metric": BANDWIDTH, "bench": bench_id, "operation": operation}
        for operation in ("copy", "triad")
        for bench_id, name in places.items()
    }

    def ours() -> Rates:
        return rates_of(measured(facts, *places), rows)

    def stream() -> Rates:
        if not (folder / "stream").exists():
            raise MissingError("gcc, which compiles STREAM, is not installed")
        copy, triad, _ = output_of(
            [str(folder / "stream"), str(ARRAY_BYTES), str(PEER_S)], OMP_NUM_THREADS=str(cores)
        ).split()
        both = {"copy": float(copy), "triad": float(triad)}
        return {row: both[str(wanted["operation"])] for row, wanted in rows.items()}

    return Contest(ours, {"STREAM": stream})


def memory_one_thread(facts: MachineFacts, folder: Path) -> Contest:
    del folder
    single = msgspec.structs.replace(facts.cpu, allowed_cpus=1, logical_cpus=1, physical_cores=1)
    alone = msgspec.structs.replace(facts, cpu=single)

    row = "memory copy, 1 thread, bytes once"

    def ours() -> Rates:
        rates = rates_of(
            measured(alone, "host-memory"), {row: {"metric": BANDWIDTH, "operation": "copy", "threads": 1}}
        )
        return {name: rate / 2 for name, rate in rates.items()}

    def mbw() -> Rates:
        text = output_of(["mbw", "-t0", "-n", "40", str(ARRAY_BYTES // MIB)])
        rates = [
            float(rate) for line, rate in re.findall(r"^(\d+)\s.*Copy: ([\d.]+) MiB/s", text, re.MULTILINE)
        ]
        return {row: statistics.median(rates) * MIB}

    return Contest(ours, {"mbw": mbw})


def storage(facts: MachineFacts, folder: Path) -> Contest:
    path = folder / "records"
    with path.open("wb") as file:
        for _ in range(FILE_BYTES // (16 * MIB)):
            file.write(os.urandom(16 * MIB))
        file.flush()
        os.fsync(file.fileno())
    shapes = {
        "storage, in order, 1 MiB": ("sequential", "read", 1024, 16),
        "storage, at random, 128 KiB": ("random", "randread", 128, 32),
    }

    def ours() -> Rates:
        rates = measured(facts, "storage", data_path=str(path))
        if any(not m.parameters["direct"] for m in rates):
            raise MissingError(f"{folder} does not support direct reads: name another --folder")
        reading = "read_bandwidth_bytes_per_s"
        return rates_of(
            rates, {name: {"metric": reading, "order": order} for name, (order, *_) in shapes.items()}
        )

    def fio() -> Rates:
        rates = {}
        for name, (_, pattern, kib, depth) in shapes.items():
            options = {
                "name": "peer",
                "filename": path,
                "rw": pattern,
                "bs": f"{kib}k",
                "iodepth": depth,
                "ioengine": "libaio",
            }
            options |= {
                "direct": 1,
                "runtime": PEER_S,
                "ramp_time": 0.5,
                "time_based": 1,
                "size": FILE_BYTES,
                "output-format": "json",
            }
            text = output_of(["fio", *(f"--{option}={value}" for option, value in options.items())])
            rates[name] = float(json.loads(text[text.index("{") :])["jobs"][0]["read"]["bw_bytes"])
        return rates

    return Contest(ours, {"fio": fio})


NAMESPACES = (f"peer{os.getpid()}a", f"peer{os.getpid()}b")
ADDRESSES = ("10.213.77.1", "10.213.77.2")
PORT = 5299


@contextlib.contextmanager
def two_namespaces() -> Iterator[None]:
    """Create two network namespaces joined by a veth pair. Raises MissingError without root."""
    if os.geteuid() != 0:
        raise MissingError("network namespaces need root")
    first, second = NAMESPACES
    try:
        for name in NAMESPACES:
            output_of(["ip", "netns", "add", name])
        output_of(
            [
                "ip",
                "link",
                "add",
                "rt-a",
                "netns",
                first,
                "type",
                "veth",
                "peer",
                "name",
                "rt-b",
                "netns",
                second,
            ]
        )
        for name, device, address in zip(NAMESPACES, ("rt-a", "rt-b"), ADDRESSES, strict=True):
            output_of(["ip", "-n", name, "addr", "add", f"{address}/24", "dev", device])
            output_of(["ip", "-n", name, "link", "set", device, "up"])
            output_of(["ip", "-n", name, "link", "set", "lo", "up"])
        yield
    finally:
        for name in NAMESPACES:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def in_namespace(number: int, *argv: str) -> list[str]:
    return ["ip", "netns", "exec", NAMESPACES[number], *argv]


def serve(number: int, *argv: str) -> subprocess.Popen[str]:
    """Start a server and wait until it listens, for at most 20 s."""
    server = subprocess.Popen(
        in_namespace(number, *argv),
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **worker_environment()},
    )
    deadline = time.monotonic() + 20
    while str(PORT) not in output_of(in_namespace(number, "ss", "-Hltn")) and time.monotonic() < deadline:
        time.sleep(0.1)
    return server


def tcp(facts: MachineFacts, folder: Path) -> Contest:
    del facts, folder
    module = (sys.executable, "-m", "rigtune_worker.bench.network")
    row = "TCP, 1 stream"

    def ours() -> Rates:
        with serve(1, *module, "--serve", str(PORT)) as server:
            client = (*module, "--connect", f"{ADDRESSES[1]}:{PORT}", "--seconds", str(PEER_S + 1))
            output_of(in_namespace(0, *client), **worker_environment())
            text, _ = server.communicate(timeout=60)
        return {row: json.loads(text)["median_bytes_per_s"]}

    def iperf3() -> Rates:
        if shutil.which("iperf3") is None:
            raise MissingError("iperf3 is not installed")
        with serve(1, "iperf3", "-s", "-1", "-J", "-i", "0.2", "-p", str(PORT)) as server:
            output_of(in_namespace(0, "iperf3", "-c", ADDRESSES[1], "-p", str(PORT), "-t", str(PEER_S + 1)))
            text, _ = server.communicate(timeout=60)
        # The rate of each fifth of a second, without the first second; rigtune also reports their median.
        windows = [
            window["sum"]["bits_per_second"] / 8
            for window in json.loads(text)["intervals"]
            if window["sum"]["start"] >= 1
        ]
        return {row: statistics.median(windows)}

    return Contest(ours, {"iperf3": iperf3})


def gemm(facts: MachineFacts, folder: Path) -> Contest:
    (folder / "numpy_gemm.py").write_text(NUMPY)
    (folder / "sgemm.py").write_text(SGEMM)
    python, threads = facts_python(facts), str(len(os.sched_getaffinity(0)))
    row = f"CPU GEMM, fp32, {GEMM_SIZE}"

    def ours() -> Rates:
        wanted = {
            "metric": "gemm_flops_per_s",
            "dtype": "fp32",
            "m": GEMM_SIZE,
            "n": GEMM_SIZE,
            "k": GEMM_SIZE,
        }
        return rates_of(measured(facts, "gemm"), {row: wanted})

    def peer(script: str) -> Callable[[], Rates]:
        variables = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
        argv = [python, str(folder / script), str(GEMM_SIZE), str(PEER_S)]
        return lambda: {row: float(output_of(argv, **variables))}

    return Contest(ours, {"numpy": peer("numpy_gemm.py"), "torch's BLAS alone": peer("sgemm.py")})


def all_reduce(facts: MachineFacts, folder: Path) -> Contest:
    (folder / "all_reduce.py").write_text(ALL_REDUCE)
    names = {size: f"all-reduce, gloo, 2 ranks, {size // MIB} MiB" for size in ALL_REDUCE_BYTES}
    threads = max(1, len(os.sched_getaffinity(0)) // 2)

    def ours() -> Rates:
        wanted = {"metric": "algorithm_bandwidth_bytes_per_s", "collective": "all_reduce"}
        rates = measured(facts, "collectives", ranks=2)
        return rates_of(rates, {name: {**wanted, "bytes": size} for size, name in names.items()})

    def plain() -> Rates:
        agent = [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--local-addr",
            "127.0.0.1",
            "--nproc-per-node",
            "2",
        ]
        argv = [
            facts_python(facts),
            *agent,
            str(folder / "all_reduce.py"),
            json.dumps(ALL_REDUCE_BYTES),
            "40",
        ]
        rates = json.loads(output_of(argv, **worker_variables(threads)))
        return {names[int(size)]: rate for size, rate in rates.items()}

    return Contest(ours, {"plain torch": plain})
