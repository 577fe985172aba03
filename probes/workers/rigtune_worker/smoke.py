"""Prove a launch before training: every rank reports where it runs, and all ranks add numbers of this run.

    torchrun --nproc-per-node 2 -m rigtune_worker.smoke --nonce 4711 --backend gloo --report smoke.jsonl

The launcher sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. `--nonce` is a
number that only the ranks of this run know, so that a process of another job is detected. Rank 0 collects
the records through the store and writes the report: one JSON object per line, each with `event`:

    rank     the place, the backend, the sums of the all-reduce, and NCCL's transports of one rank
    done     always last; a report without it is incomplete

A rank that fails writes one line with `failed` to the file `REPORT.rankN` (N is its rank).
"""

from __future__ import annotations

import argparse
import datetime
import glob
import json
import os
import shutil
import socket
import sys
import tempfile
import threading
from typing import Any

import torch
import torch.distributed as dist

from .protocol import dump_line, first_line
from .transport_log import transport_lines
from .worker_process import die_with_parent, run_and_leave

LARGE_ELEMENTS = 1 << 20
"""Elements of the second all-reduce: 4 MiB, for which NCCL uses its rings and opens all its channels."""
LONGEST_MESSAGE = 1000


class LaunchError(Exception):
    """A fault of the launch; `kind` is the name under which rigtune explains the fault."""

    def __init__(self, kind: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.kind, self.details = kind, details


class Place:
    """The place of this process in its job, as the launcher states it."""

    def __init__(self) -> None:
        self.is_launched = "RANK" in os.environ
        self.rank = int(os.environ.get("RANK", "0"))
        self.world_size = int(os.environ.get("WORLD_SIZE", "1"))
        self.local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self.local_world_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        # Slurm's name of a node distinguishes several virtual nodes on one machine.
        self.host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()

    @property
    def has_agent(self) -> bool:
        """Return whether torchrun's agent, and not rank 0, keeps the store."""
        return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"

    @property
    def master(self) -> str:
        return f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"


class Smoke:
    """One rank of the smoke test."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.place = options, Place()
        self.stage = "connect"
        """The part of the test that runs; a rank that hangs reports this name."""
        self.joined: list[int] = []
        self.limit = datetime.timedelta(seconds=options.limit_s)
        self.log_folder = ""

    def run(self) -> None:
        """Carry out the test. Raises LaunchError."""
        place = self.place
        why_not = "" if self.options.backend == "gloo" else reason_against_nccl(place)
        if self.options.backend == "nccl" and not why_not:
            self.log_nccl()
        store = self.open_store()
        self.stage = "hello"
        reasons = self.meet(store, why_not)
        backend = self.options.backend if not any(reasons) else "gloo"
        self.stage = "group"
        # NCCL needs a GPU for each rank, and a plan for gloo trains on CPUs.
        device = torch.device("cuda", local_gpu(place)) if backend == "nccl" else torch.device("cpu")
        if device.type == "cuda":
            torch.cuda.set_device(device)
        options = {"device_id": device} if device.type == "cuda" else {}
        group_store = dist.PrefixStore("group", store)
        dist.init_process_group(
            backend,
            store=group_store,
            rank=place.rank,
            world_size=place.world_size,
            timeout=self.limit,
            **options,
        )
        self.stage = "all-reduce"
        sums = self.add(device)
        self.stage = "report"
        reason = next(filter(None, reasons), "") if backend != self.options.backend else ""
        self.collect(store, self.record(device, reason, sums))

    def open_store(self) -> Any:
        """Return the store of this job. Raises LaunchError."""
        place = self.place
        if not place.is_launched:
            return dist.HashStore()
        try:
            store = dist.TCPStore(
                os.environ["MASTER_ADDR"],
                int(os.environ["MASTER_PORT"]),
                is_master=place.rank == 0 and not place.has_agent,
                timeout=self.limit,
                wait_for_workers=False,
            )
        except (RuntimeError, ValueError, KeyError) as error:
            is_taken = "in use" in str(error) or "EADDRINUSE" in str(error)
            kind = "port_in_use" if is_taken else "unreachable"
            raise LaunchError(kind, f"the store at {place.master}: {first_line(error)}") from error
        # An elastic agent keeps the store when it starts the ranks again.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        owner = dist.PrefixStore(f"rigtune-smoke-{attempt}", store)
        nonce = str(self.options.nonce)
        if owner.compare_set("nonce", "", nonce).decode() != nonce:
            raise LaunchError(
                "foreign_world", f"another run of this test answers at {place.master}: its number is not ours"
            )
        return dist.PrefixStore(nonce, owner)

    def meet(self, store: Any, why_not: str) -> list[str]:
        """Wait for all ranks; return why each cannot use the planned backend, empty if it can.
        Raises LaunchError.
        """
        place = self.place
        mine = json.dumps(
            {"host": place.host, "pid": os.getpid(), "world_size": place.world_size, "why_not": why_not}
        )
        if not place.is_launched:
            return [why_not]
        holder = store.compare_set(f"hello/{place.rank}", "", mine).decode()
        if holder != mine:
            other = json.loads(holder)
            raise LaunchError(
                "rank_twice",
                f"rank {place.rank} is also process {other['pid']} on {other['host']}",
            )
        keys = [f"hello/{rank}" for rank in range(place.world_size)]
        try:
            store.wait(keys, self.limit)
        except RuntimeError as error:
            # One question per key: `check` of several keys answers only whether all exist.
            try:
                self.joined = [rank for rank, key in enumerate(keys) if store.check([key])]
            except RuntimeError:
                lost = f"the store at {place.master} ended while this rank waited for the others"
                raise LaunchError("lost_store", lost) from error
            if place.rank and not place.has_agent and 0 not in self.joined:
                # Rank 0 keeps this store, so a store without rank 0 belongs to another job.
                raise LaunchError(
                    "foreign_world", f"a process of another job answers at {place.master}", joined=self.joined
                ) from error
            raise LaunchError(
                "missing_ranks",
                f"{len(self.joined)} of {place.world_size} ranks joined within {self.options.limit_s:g} s",
                joined=self.joined,
            ) from error
        hellos = [json.loads(store.get(key)) for key in keys]
        sizes = {hello["world_size"] for hello in hellos}
        if len(sizes) > 1:
            raise LaunchError("sizes_differ", f"the ranks have different world sizes: {sorted(sizes)}")
        self.joined = list(range(place.world_size))
        return [hello["why_not"] for hello in hellos]

    def add(self, device: torch.device) -> list[float]:
        """Return the sums over all ranks of rank + 1, of the nonce, and of 1. Raises LaunchError."""
        values = torch.tensor(
            [self.place.rank + 1, self.options.nonce, 1], dtype=torch.float64, device=device
        )
        dist.all_reduce(values)
        large = torch.ones(LARGE_ELEMENTS, dtype=torch.float32, device=device)
        dist.all_reduce(large)
        if large.min().item() != large.max().item() or large[0].item() != values[2].item():
            raise LaunchError("wrong_sum", "the all-reduce of 4 MiB has wrong elements")
        return values.tolist()

    def record(self, device: torch.device, reason: str, sums: list[float]) -> dict[str, Any]:
        """Return what this rank reports."""
        place = self.place
        properties = torch.cuda.get_device_properties(device) if device.type == "cuda" else None
        pattern = os.environ.get("NCCL_DEBUG_FILE", "") if self.log_folder else ""
        return {
            "event": "rank",
            "rank": dist.get_rank(),
            "world_size": dist.get_world_size(),
            "local_rank": place.local_rank,
            "local_world_size": place.local_world_size,
            "host": place.host,
            "backend": dist.get_backend(),
            "backend_reason": reason,
            "device": str(device),
            "device_name": "" if properties is None else properties.name,
            "device_id": "" if properties is None else str(getattr(properties, "uuid", "")),
            "threads": torch.get_num_threads(),
            "torch_version": torch.__version__,
            "rank_sum": sums[0],
            "nonce_sum": sums[1],
            "one_sum": sums[2],
            "nccl_log": transport_lines(pattern, os.getpid()),
        }

    def collect(self, store: Any, record: dict[str, Any]) -> None:
        """Pass the record to rank 0, which writes the report. Raises LaunchError."""
        store.set(f"record/{self.place.rank}", json.dumps(record))
        if self.place.rank:
            return
        records = []
        for rank in range(self.place.world_size):
            try:
                store.wait([f"record/{rank}"], self.limit)
            except RuntimeError as error:
                raise LaunchError("silent_rank", f"rank {rank} ended before it reported") from error
            records.append(json.loads(store.get(f"record/{rank}")))
        # If N processes run as N jobs of one rank each, all append to this file, which shows the mistake.
        with open(self.options.report, "a", encoding="utf-8") as file:
            for each in records:
                dump_line(file, each)
            dump_line(file, {"event": "done"})

    def log_nccl(self) -> None:
        """Let NCCL write its log to a file of this process, which the record quotes."""
        self.log_folder = tempfile.mkdtemp(prefix="rigtune-smoke-")
        os.environ["NCCL_DEBUG"] = "INFO"
        os.environ["NCCL_DEBUG_SUBSYS"] = "INIT,ENV,GRAPH,P2P,SHM,NET,NVLS"
        os.environ["NCCL_DEBUG_FILE"] = os.path.join(self.log_folder, "nccl.%h.%p")

    def print_nccl_log(self) -> None:
        """Print NCCL's log, so that `rigtune explain` can read the output of the run."""
        for path in glob.glob(os.path.join(self.log_folder, "nccl.*")) if self.log_folder else ():
            with open(path, encoding="utf-8", errors="replace") as file:
                shutil.copyfileobj(file, sys.stdout)
        sys.stdout.flush()

    def fail(self, kind: str, message: str, **details: Any) -> int:
        """Report a failure of this rank in its own file and in the output; return the exit code."""
        print(f"rigtune_worker: rank {self.place.rank}: {message}", file=sys.stderr, flush=True)
        failure = {
            "event": "failed",
            "kind": kind,
            "message": message[:LONGEST_MESSAGE],
            "stage": self.stage,
            "rank": self.place.rank,
            "world_size": self.place.world_size,
            "host": self.place.host,
            "master": self.place.master,
            **details,
        }
        with open(f"{self.options.report}.rank{self.place.rank}", "a", encoding="utf-8") as file:
            dump_line(file, failure)
        return 1


def reason_against_nccl(place: Place) -> str:
    """Return why this rank cannot use NCCL; empty if it can."""
    if not dist.is_nccl_available():
        return f"torch {torch.__version__} on {place.host} was built without NCCL"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} on {place.host} can use no GPU"
    if local_gpu(place) >= torch.cuda.device_count():
        return (
            f"local rank {place.local_rank} on {place.host} has no GPU of its own: "
            f"the number of visible GPUs is {torch.cuda.device_count()}"
        )
    return ""


def local_gpu(place: Place) -> int:
    """Return the number of this rank's GPU; 0 if the launcher shows each rank only its own GPU."""
    return 0 if torch.cuda.device_count() == 1 and place.local_world_size > 1 else place.local_rank


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m rigtune_worker.smoke", description="Prove a launch.")
    parser.add_argument("--nonce", type=int, required=True, help="number of this run, the same on all ranks")
    parser.add_argument("--backend", choices=("nccl", "gloo"), required=True, help="backend of the plan")
    parser.add_argument("--report", required=True, help="write the records as JSON lines to this file")
    parser.add_argument("--limit-s", type=float, default=120.0, help="longest time of each part")
    options = parser.parse_args(arguments)
    die_with_parent()
    smoke = Smoke(options)

    def expire() -> None:
        """End a rank that hangs inside a library, which no exception can end."""
        limit = f"{2 * options.limit_s:g} s"
        message = f"the test did not end within {limit}; it hangs in the part `{smoke.stage}`"
        smoke.print_nccl_log()
        os._exit(smoke.fail("hang", message, joined=smoke.joined))

    watchdog = threading.Timer(2 * options.limit_s, expire)
    watchdog.daemon = True
    watchdog.start()
    try:
        smoke.run()
    except LaunchError as error:
        return smoke.fail(error.kind, str(error), **error.details)
    except (RuntimeError, ValueError) as error:
        return smoke.fail("backend", first_line(error), joined=smoke.joined)
    finally:
        watchdog.cancel()
        smoke.print_nccl_log()
    return 0


if __name__ == "__main__":
    run_and_leave(main)
