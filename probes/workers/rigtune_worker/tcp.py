"""Send and count TCP streams between two processes, using only the standard library."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

BLOCK_BYTES = 128 * 1024
"""Bytes per call of send: the default of iperf3, so that users can compare the results."""
WINDOW_S = 0.2
"""Length of one sample."""
LEAST_SHARE = 0.5
"""Smallest share of a window that is used as a sample at the end."""
PATIENCE_S = 20.0
"""Seconds of silence after which the other side is considered lost."""


def listen(port: int) -> socket.socket:
    """Return a listener for IPv4 and, if this machine has it, IPv6."""
    dual = socket.has_dualstack_ipv6()
    return socket.create_server(
        ("", port), family=socket.AF_INET6 if dual else socket.AF_INET, dualstack_ipv6=dual, backlog=1024
    )


class Receiver:
    """A listener on `port`; if `port` is 0, the system chooses a free port."""

    def __init__(self, port: int = 0) -> None:
        self.listener = listen(port)
        self.listener.settimeout(PATIENCE_S)
        self.port: int = self.listener.getsockname()[1]

    def receive(self, streams: int) -> list[float]:
        """Return bytes per second in each window over all streams, while all are connected.

        The measurement ends when a sender closes its connection or stops sending. Raises OSError if a sender
        does not connect.
        """
        connections = [self.listener.accept()[0] for _ in range(streams)]
        counts, ended = [0] * streams, threading.Event()
        threads = [
            threading.Thread(target=self._count, args=(connection, counts, number, ended), daemon=True)
            for number, connection in enumerate(connections)
        ]
        for thread in threads:
            thread.start()
        rates, before, then = [], 0, time.perf_counter()
        while True:
            over = ended.wait(WINDOW_S)
            now, count = time.perf_counter(), sum(counts)
            if now - then >= LEAST_SHARE * WINDOW_S:
                rates.append((count - before) / (now - then))
            before, then = count, now
            if over:
                break
        for thread in threads:
            thread.join(PATIENCE_S)
        return rates

    @staticmethod
    def _count(connection: socket.socket, counts: list[int], number: int, ended: threading.Event) -> None:
        buffer = bytearray(BLOCK_BYTES)
        connection.settimeout(PATIENCE_S)
        with connection, contextlib.suppress(OSError):
            while received := connection.recv_into(buffer):
                counts[number] += received
        ended.set()


def send(host: str, port: int, *, streams: int, seconds: float) -> None:
    """Send to a `Receiver` for `seconds`.

    Raises OSError if the receiver cannot be reached or the connection is lost.
    """
    connections = [socket.create_connection((host, port), timeout=PATIENCE_S) for _ in range(streams)]
    ends = time.perf_counter() + seconds
    failures: list[OSError] = []

    def pump(connection: socket.socket) -> None:
        block = memoryview(bytes(BLOCK_BYTES))
        try:
            with connection:
                while time.perf_counter() < ends:
                    connection.sendall(block)
                # Queued data need not be delivered, because the other side measures rates in windows.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError as error:
            failures.append(error)

    threads = [threading.Thread(target=pump, args=(connection,), daemon=True) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
