"""Redis, measured by redis-benchmark; its failover by a client that speaks RESP."""

from __future__ import annotations

import contextlib
import csv
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator

from machine import (
    BATCH,
    BATCHES,
    OUTSTANDING,
    TIMEOUT,
    Bench,
    Row,
    cpu_seconds,
    failover_row,
    generate,
    longest_gap,
    resident,
    say,
    server,
    wait_for,
)

# Of the first server, and of the first sentinel.
PORT, SENTINEL = 16379, 26379
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


class Client:
    """A connection."""

    def __init__(self, port: int, timeout: float = 5) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.file = self.socket.makefile("rb")

    def call(self, *words: object) -> object:
        """The answer to a command; an error of the server is an `OSError`."""
        self.socket.sendall(resp(*words))
        return self.answer()

    def answer(self) -> object:
        """The next answer."""
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise OSError("the connection ended")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise OSError(rest.decode())
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return None if rest == b"-1" else [self.answer() for _ in range(int(rest))]
        return rest

    def close(self) -> None:
        """Ends the connection."""
        self.file.close()
        self.socket.close()


def resp(*words: object) -> bytes:
    """A command as Redis reads it."""
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def command(port: int, *settings: str) -> list[str]:
    """A server without snapshots, on the loopback interface."""
    return ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", *settings]


def is_up(port: int) -> Callable[[], bool]:
    """Whether a server answers."""
    return lambda: Client(port).call("PING") == b"PONG"


def load(entries: int) -> None:
    """The keys that redis-benchmark asks for, with values of 16 bytes."""
    client = Client(PORT, 60)
    for first in range(0, entries, 10_000):
        keys = range(first, min(first + 10_000, entries))
        client.socket.sendall(b"".join(resp("SET", f"key:{key:012}", f"{key:016}") for key in keys))
        for _ in keys:
            client.answer()


def measure(bench: Bench, process: subprocess.Popen[bytes], test: str, clients: int, pipeline: int) -> tuple[float, float, float]:
    """Commands a second, their p99 in milliseconds, and the server's CPU time of each in us."""

    def run(requests: int) -> dict[str, str]:
        arguments = ["redis-benchmark", "-p", str(PORT), "-t", test, "-c", str(clients), "-P", str(pipeline), "--csv"]
        printed = generate(*arguments, "-r", str(bench.entries), "-n", str(requests), "-d", "16")
        return next(csv.DictReader(line for line in printed.splitlines() if line.startswith('"')))

    requests = int(float(run(20_000)["rps"]) * bench.seconds)
    before = cpu_seconds(process)
    row = run(requests)
    return float(row["rps"]), float(row["p99_latency_ms"]), (cpu_seconds(process) - before) / requests * 1e6


def lookups(bench: Bench) -> Iterator[Row]:
    """Random keys of all that are there."""
    say("Redis: lookups")
    with server(command(PORT), bench.folder("redis")) as process:
        wait_for("Redis", is_up(PORT))
        load(bench.entries)
        yield Row("memory", "Redis", "server", resident(process))
        yield Row("lookups", "Redis", "one key a request", *measure(bench, process, "get", OUTSTANDING, 1), "TCP")
        yield Row(
            "lookups", "Redis", f"{BATCH} keys a request", *measure(bench, process, "get", BATCHES, BATCH), "TCP, a pipeline"
        )


def updates(bench: Bench) -> Iterator[Row]:
    """Each answered when it is on the disk."""
    say("Redis: updates")
    with server(command(PORT, *DURABLE), bench.folder("redis")) as process:
        wait_for("Redis", is_up(PORT))
        one = measure(bench, process, "set", OUTSTANDING, 1)
        yield Row("updates", "Redis", "one server, one key an update", *one, "appendfsync always")
        many = measure(bench, process, "set", BATCHES, BATCH)
        yield Row("updates", "Redis", f"one server, {BATCH} keys an update", *many, "a pipeline, appendfsync always")


def failover(bench: Bench) -> Iterator[Row]:
    """The primary is killed."""
    say(f"Redis: failover, {bench.repeat} times")
    gaps = [one_failover(bench) for _ in range(bench.repeat)]
    yield failover_row("Redis", "the primary is killed", gaps, "Sentinel, down-after 1 s")


def knows_all(port: int) -> Callable[[], bool]:
    """Whether a sentinel has found the replicas and the other sentinels."""

    def ready() -> bool:
        fields = Client(port).call("SENTINEL", "MASTER", "weft")
        assert isinstance(fields, list)
        state = dict(zip(fields[::2], fields[1::2], strict=True))
        return (state[b"num-slaves"], state[b"num-other-sentinels"]) == (b"2", b"2")

    return ready


def one_failover(bench: Bench) -> float:
    """A primary, two replicas and three sentinels; an update counts when a replica has it, too."""
    folder = bench.folder("redis")
    with contextlib.ExitStack() as stack:
        processes = {}
        for i, port in enumerate(range(PORT, PORT + 3)):
            place = folder / f"r{i}"
            place.mkdir()
            follow = [] if i == 0 else ["--replicaof", "127.0.0.1", str(PORT)]
            start = command(port, *DURABLE, "--repl-diskless-sync-delay", "0", *follow)
            processes[port] = stack.enter_context(server(start, place))
            wait_for("Redis", is_up(port))
        for i, port in enumerate(range(SENTINEL, SENTINEL + 3)):
            place = folder / f"s{i}"
            place.mkdir()
            (place / "sentinel.conf").write_text(
                f"port {port}\nbind 127.0.0.1\n"
                f"sentinel monitor weft 127.0.0.1 {PORT} 2\nsentinel down-after-milliseconds weft 1000\n"
            )
            stack.enter_context(server(["redis-server", "sentinel.conf", "--sentinel"], place))
            wait_for("Sentinel", is_up(port))

        for port in range(SENTINEL, SENTINEL + 3):
            wait_for("Sentinel", knows_all(port))
        primary: list[Client] = []

        def update(number: int) -> None:
            try:
                if not primary:
                    address = Client(SENTINEL, TIMEOUT).call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "weft")
                    assert isinstance(address, list)
                    primary.append(Client(int(address[1]), TIMEOUT))
                primary[0].call("SET", "key", number)
                if primary[0].call("WAIT", 1, int(TIMEOUT * 1000)) == 0:
                    raise OSError("no replica has it")
            except OSError:
                for connection in primary:
                    connection.close()
                primary.clear()
                raise

        return longest_gap(update, lambda: processes[PORT].send_signal(signal.SIGKILL))
