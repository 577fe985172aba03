"""A stand-in for a training interpreter, which measures the links between hosts without torch.

Tests give it to `rigtune fleet find-bad --python`. It plays torch's agent with all ranks of a host in one
process, so that 64 hosts fit on one machine. Each host sends real bytes over TCP to the host that is a
distance ahead, as the worker does.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

PORT = 31000
SENT_BYTES = 128 * 1024
"""Bytes that a transfer sends; the reported duration is that of all ranks' requested bytes at this rate."""
LONGEST_WAIT_S = 120.0
HEADER = struct.Struct("!I")


def vet() -> dict[str, Any]:
    return {"executable": sys.executable, "python": "3.12.3", "torch": "2.8.0", "gloo": True, "devices": []}


class Receiver(threading.Thread):
    """Thread that accepts one transfer for each distance and keeps its duration."""

    def __init__(self, host: str) -> None:
        super().__init__(daemon=True)
        self.server = socket.create_server((host, PORT), backlog=256)
        self.durations_s: dict[int, queue.SimpleQueue[float]] = {}
        self.lock = threading.Lock()

    def of(self, distance: int) -> queue.SimpleQueue[float]:
        with self.lock:
            return self.durations_s.setdefault(distance, queue.SimpleQueue())

    def run(self) -> None:
        while True:
            connection, _ = self.server.accept()
            threading.Thread(target=self.take, args=(connection,), daemon=True).start()

    def take(self, connection: socket.socket) -> None:
        with connection:
            (distance,) = HEADER.unpack(connection.recv(HEADER.size, socket.MSG_WAITALL))
            began, left = time.perf_counter(), SENT_BYTES
            while left and (data := connection.recv(min(left, 65536))):
                left -= len(data)
            if not left:
                took_s = time.perf_counter() - began
                connection.sendall(b".")  # first, because this process may end once it has the duration
                self.of(distance).put(took_s)


def send(host: str, distance: int, ends: float) -> None:
    """Send the bytes of one transfer and wait until they have arrived; the other host may start later."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            with socket.create_connection((host, PORT), timeout=LONGEST_WAIT_S) as connection:
                connection.sendall(HEADER.pack(distance) + bytes(SENT_BYTES))
                if connection.recv(1) != b".":
                    raise ConnectionError(f"{host} took no bytes")
            return
        if time.monotonic() > ends:
            raise ConnectionError(f"{host} does not listen")
        time.sleep(0.05)


def main(arguments: list[str]) -> int:
    if arguments[-1] == "rigtune_worker.vet":
        sys.stdout.write(json.dumps(vet()) + "\n")
        return 0
    request = json.loads(Path(arguments[arguments.index("--request") + 1]).read_text())
    out, place = Path(arguments[arguments.index("--out") + 1]), int(os.environ["NODE_RANK"])
    hosts, width = request["hosts"], request["ranks"] // len(request["hosts"])
    receiver = Receiver(socket.gethostbyname(hosts[place]))
    receiver.start()
    start = {"event": "start", "world_size": request["ranks"], "uuid": "", "conditions": {}}
    lines = []
    for case in request["cases"]:
        distance = case["distance"]
        send(hosts[(place + distance) % len(hosts)], distance, time.monotonic() + LONGEST_WAIT_S)
        took_s = receiver.of(distance).get(timeout=LONGEST_WAIT_S)
        scaled_s = took_s * case["bytes"] * width / SENT_BYTES
        lines.append({"event": "sample", "case": case, "durations_s": [scaled_s]})
    for rank in range(place * width, (place + 1) * width):
        answer = ({**start, "rank": rank}, *lines, {"event": "done", "conditions": {}})
        (out / f"rank{rank}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in answer))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
