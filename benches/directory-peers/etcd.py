"""etcd, measured by `etcdctl check perf`; memory and failover by its JSON gateway."""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import GENERATOR_CORE, TIMEOUT, Bench, Row, failover_row, longest_gap, resident, say, server, wait_for

# Of the first member, for clients and for other members.
PORT, PEER = 12379, 12380
# What `weft directory bench` starts etcd with, too.
ELECTION = ("--heartbeat-interval", "20", "--election-timeout", "200")


def call(port: int, path: str, body: dict[str, object], timeout: float = 30) -> dict[str, Any]:
    """An answer of a member's JSON gateway; an error of the member is an `OSError`."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        connection.request("POST", f"/v3/{path}", json.dumps(body))
        answer = connection.getresponse()
        content: dict[str, Any] = json.loads(answer.read())
        if answer.status != 200:
            raise OSError(str(content))
        return content
    finally:
        connection.close()


def is_up(port: int) -> Callable[[], bool]:
    """Whether a member answers, which it does when there is a leader."""
    return lambda: bool(call(port, "kv/range", {"key": "AA=="}))


def ports(count: int) -> list[int]:
    """The ports of members for clients."""
    return [PORT + 10 * i for i in range(count)]


@contextlib.contextmanager
def etcd(folder: Path, count: int, *settings: str) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Members by their ports for clients, ready."""
    cluster = ",".join(f"m{i}=http://127.0.0.1:{PEER + 10 * i}" for i in range(count))
    with contextlib.ExitStack() as stack:
        members = {}
        for i, port in enumerate(ports(count)):
            client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{PEER + 10 * i}"
            command = ["etcd", "--name", f"m{i}", "--data-dir", str(folder / f"m{i}"), "--quota-backend-bytes", str(8 << 30)]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client, "--initial-cluster", cluster]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--log-level", "error", *settings]
            members[port] = stack.enter_context(server(command, folder))
        for port in members:
            wait_for("etcd", is_up(port))
        yield members


def base64_of(text: str) -> str:
    """Bytes as the gateway wants them."""
    return base64.b64encode(text.encode()).decode()


def updates(bench: Bench) -> Iterator[Row]:
    """What its own check of speed reaches under the greatest of its loads after which etcd still answers in time."""
    for load, offered in (("xl", "15,000"), ("l", "8,000"), ("m", "1,000")):
        say(f"etcd: updates, {offered} a second offered (a minute)")
        with etcd(bench.folder("etcd"), 3):
            command = [
                "etcdctl",
                "--endpoints",
                ",".join(f"127.0.0.1:{port}" for port in ports(3)),
                "check",
                "perf",
                "--load",
                load,
            ]
            # It ends with an error where etcd is slower than what is offered.
            done = subprocess.run(["taskset", "-c", GENERATOR_CORE, *command], capture_output=True, text=True)
        printed = done.stdout + done.stderr
        rate = re.search(r"[Tt]hroughput(?: is| too low:)? (\d+) writes/s", printed)
        if rate is not None:
            slowest = re.search(r"[Ss]lowest request (?:took|took too long:)? *([0-9.]+) *s", printed)
            note = f"etcdctl check perf, {offered}/s offered" + (f"; slowest {float(slowest.group(1)):.1f} s" if slowest else "")
            yield Row("updates", "etcd", "three members, one key an update", float(rate.group(1)), note=note)
            return
    raise SystemExit(f"error: etcdctl printed no rate:\n{printed[-2000:]}")


def memory(bench: Bench) -> Iterator[Row]:
    """One member with all entries, put in transactions of 128."""
    say("etcd: memory")
    with etcd(bench.folder("etcd"), 1) as members:
        (port, process), *_ = members.items()
        for first in range(0, bench.entries, 128):
            keys = range(first, min(first + 128, bench.entries))
            puts = [{"requestPut": {"key": base64_of(f"key:{key:012}"), "value": base64_of(f"{key:016}")}} for key in keys]
            call(port, "kv/txn", {"success": puts})
        yield Row("memory", "etcd", "member", resident(process))


def failover(bench: Bench) -> Iterator[Row]:
    """The leader is killed."""
    for settings, note in (((), "its defaults"), (ELECTION, "elections as with Weft")):
        say(f"etcd: failover, {bench.repeat} times, {note}")
        gaps = [one_failover(bench, *settings) for _ in range(bench.repeat)]
        yield failover_row("etcd", "the leader is killed", gaps, note)


def one_failover(bench: Bench, *settings: str) -> float:
    """Three members; updates by one that is not the leader."""
    with etcd(bench.folder("etcd"), 3, *settings) as members:
        leader = {}
        for port in members:
            status = call(port, "maintenance/status", {})
            leader[port] = status["leader"] == status["header"]["member_id"]
        survivor = next(port for port in members if not leader[port])
        dies = next(port for port in members if leader[port])

        def update(number: int) -> None:
            call(survivor, "kv/put", {"key": base64_of("key"), "value": base64_of(str(number))}, TIMEOUT)

        return longest_gap(update, lambda: members[dies].send_signal(signal.SIGKILL))
