"""Measure TCP between the hosts, without torch. Rank 0 directs the transfers; the receiver counts the bytes.

By hand, between two hosts that have this package:

    python -m rigtune_worker.bench.network --serve 5300 --streams 1
    python -m rigtune_worker.bench.network --connect HOST:5300 --streams 1 --seconds 5

The server prints {"median_bytes_per_s": ..., "samples_bytes_per_s": [...]} and ends.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import threading
import time
from typing import Any

from ..protocol import Answer, CaseError
from ..tcp import PATIENCE_S, Receiver, listen, send

FIRST_PORTS = 16
"""Number of ports after MASTER_PORT that rank 0 tries, because torch's own store may use some of them."""
MEETING_S = 60.0
"""Seconds for all ranks to connect; torch's agents start them one after another."""
WARMUP_WINDOWS = 2
"""Rates left out at the start of a transfer, while TCP enlarges its congestion window."""


def run(request: dict[str, Any], answer: Answer, device: object) -> None:
    """Measure the cases {sender, receiver, streams}, which name hosts by rank.

    Consecutive cases with equally many streams and without a common rank run at the same time. Rank 0 writes
    all samples: `durations_s` are seconds per byte. Raises CaseError if the ranks cannot connect.
    """
    del device  # None, because this benchmark runs without torch
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    receiver = Receiver()
    conductor: Conductor | None = None
    if rank == 0:
        conductor = Conductor(request, answer, world_size)
        threading.Thread(target=conductor.conduct, daemon=True).start()
    follow(rank, receiver, str(request["settings"]["token"]))
    if conductor is not None:
        conductor.over.wait(PATIENCE_S)
        if conductor.failure:
            raise CaseError("crashed", conductor.failure)


def ports() -> list[int]:
    first = int(os.environ["MASTER_PORT"]) + 1
    return list(range(first, first + FIRST_PORTS))


class Link:
    """A connection that transfers lines of JSON. A lost connection raises OSError."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.file = connection.makefile("rw", encoding="utf-8", newline="\n")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.file.close()
        self.connection.close()

    def send(self, **words: Any) -> None:
        self.file.write(json.dumps(words) + "\n")
        self.file.flush()

    def receive(self) -> dict[str, Any]:
        line = self.file.readline(65536)
        if not line.endswith("\n"):
            raise ConnectionError("the connection was lost")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ConnectionError("another program answered")
        return message


def follow(rank: int, receiver: Receiver, token: str) -> None:
    """Execute the orders of rank 0 until its last order."""
    link = meet(rank, receiver.port, token)
    while True:
        order = link.receive()
        if order["do"] == "end":
            return
        try:
            if order["do"] == "receive":
                link.send(rates=receiver.receive(order["streams"]))
            else:
                send(order["host"], order["port"], streams=order["streams"], seconds=order["seconds"])
                link.send(sent=True)
        except OSError as error:
            link.send(error=f"rank {rank}: {error}")


def meet(rank: int, data_port: int, token: str) -> Link:
    """Connect to rank 0, which may still be starting. Raises CaseError."""
    host = "127.0.0.1" if rank == 0 else os.environ["MASTER_ADDR"]
    ends, trouble = time.monotonic() + MEETING_S, "nobody listens"
    while time.monotonic() < ends:
        for port in ports():
            with contextlib.suppress(ConnectionRefusedError, ValueError):
                try:
                    link = Link(socket.create_connection((host, port), timeout=PATIENCE_S))
                    if is_accepted(link, token=token, rank=rank, port=data_port):
                        return link
                except ConnectionRefusedError:
                    raise
                except OSError as error:
                    trouble = str(error)
        time.sleep(0.2)
    raise CaseError(
        "crashed",
        f"rank {rank} could not reach rank 0 at {host}, ports {ports()[0]} to {ports()[-1]}: {trouble}",
    )


def is_accepted(link: Link, *, token: str, rank: int, port: int) -> bool:
    """Return whether rank 0 of this run answers; close the link if not."""
    is_mine = False
    try:
        link.send(token=token, rank=rank, port=port)
        is_mine = link.receive().get("token") == token
        if is_mine:
            link.connection.settimeout(None)
            link.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    finally:
        if not is_mine:
            link.close()
    return is_mine


def listen_on_any(candidates: list[int]) -> socket.socket:
    """Return a listener on the first free port. Raises CaseError without a free port."""
    for port in candidates:
        with contextlib.suppress(OSError):
            return listen(port)
    first, last = candidates[0], candidates[-1]
    raise CaseError("crashed", f"none of the ports {first} to {last} is free on the first host")


class Conductor:
    """The second role of rank 0, which stores the address of each rank and runs the cases."""

    def __init__(self, request: dict[str, Any], answer: Answer, world_size: int) -> None:
        self.request, self.answer, self.world_size = request, answer, world_size
        self.links: dict[int, Link] = {}
        self.places: dict[int, tuple[str, int]] = {}
        self.failure = ""
        self.over = threading.Event()
        self.listener = listen_on_any(ports())

    def conduct(self) -> None:
        try:
            self.gather()
            for turn in turns(self.request["cases"]):
                self.take(turn)
        except Exception as error:  # an error here ends the benchmark
            self.failure = f"{type(error).__name__}: {error}"
        for link in self.links.values():
            with contextlib.suppress(OSError):
                link.send(do="end")
        self.over.set()

    def gather(self) -> None:
        """Wait for all ranks.

        The address of a rank is the address of its connection, so that the transfers use the same route.
        """
        ends = time.monotonic() + MEETING_S
        while len(self.links) < self.world_size:
            self.listener.settimeout(max(0.1, ends - time.monotonic()))
            try:
                connection, address = self.listener.accept()
            except socket.timeout:
                missing = sorted(set(range(self.world_size)) - set(self.links))
                raise TimeoutError(f"ranks {missing} did not connect within {MEETING_S:.0f} s") from None
            connection.settimeout(PATIENCE_S)
            link = Link(connection)
            with contextlib.suppress(OSError, ValueError):
                message = link.receive()
                if message.get("token") == self.request["settings"]["token"]:
                    link.send(token=message["token"])
                    self.links[message["rank"]] = link
                    self.places[message["rank"]] = (address[0], message["port"])
                    continue
            link.close()
        # Rank 0 connected over the loopback; the other ranks reach rank 0 at MASTER_ADDR.
        self.places[0] = (os.environ["MASTER_ADDR"], self.places[0][1])

    def take(self, turn: list[dict[str, Any]]) -> None:
        """Run the cases of one round at the same time; each has its own sender and receiver."""
        seconds = float(self.request["settings"]["seconds"])
        for case in turn:
            self.links[case["receiver"]].send(do="receive", streams=case["streams"])
        for case in turn:
            host, port = self.places[case["receiver"]]
            words = {"host": host, "port": port, "streams": case["streams"], "seconds": seconds}
            self.links[case["sender"]].send(do="send", **words)
        for case in turn:
            answers = []
            for rank in (case["sender"], case["receiver"]):
                self.links[rank].connection.settimeout(seconds + 3 * PATIENCE_S)
                answers.append(self.links[rank].receive())
            error = next((reply["error"] for reply in answers if "error" in reply), "")
            rates = [rate for rate in answers[1].get("rates", [])[WARMUP_WINDOWS:] if rate > 0]
            if error or not rates:
                self.answer.failure("crashed", error or "nothing arrived", case)
            else:
                self.answer.sample(case, [1 / rate for rate in rates])


def turns(cases: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Return rounds of consecutive cases with equally many streams, in which no rank occurs twice."""
    rounds: list[list[dict[str, Any]]] = []
    for case in cases:
        ends = {case["sender"], case["receiver"]}
        busy = (
            {rank for other in rounds[-1] for rank in (other["sender"], other["receiver"])}
            if rounds
            else ends
        )
        if ends & busy or case["streams"] != rounds[-1][0]["streams"]:
            rounds.append([case])
        else:
            rounds[-1].append(case)
    return rounds


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rigtune_worker.bench.network", description="TCP between two hosts by hand."
    )
    side = parser.add_mutually_exclusive_group(required=True)
    side.add_argument("--serve", type=int, metavar="PORT", help="receive once, print the rates as JSON")
    side.add_argument("--connect", metavar="HOST:PORT", help="send")
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0)
    options = parser.parse_args()
    if options.connect is not None:
        host, _, port = options.connect.rpartition(":")
        send(host, int(port), streams=options.streams, seconds=options.seconds)
        return
    rates = Receiver(options.serve).receive(options.streams)[WARMUP_WINDOWS:]
    print(
        json.dumps(
            {"median_bytes_per_s": statistics.median(rates) if rates else 0.0, "samples_bytes_per_s": rates}
        )
    )


if __name__ == "__main__":
    main()
