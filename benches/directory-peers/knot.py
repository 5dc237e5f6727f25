"""Knot DNS, measured by dnsperf: lookups of addresses, and dynamic updates."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from machine import OUTSTANDING, Bench, Row, cpu_seconds, generate, resident, say, server, wait_for

PORT = 15353
# Of dnsperf; Weft's benchmark has as many.
SOCKETS = 8


def configure(folder: Path, entries: int) -> Path:
    """The configuration of a server with one zone of so many addresses."""
    zone = ["$ORIGIN weft.test.", "$TTL 3600", "@ SOA ns admin 1 3600 600 86400 3600", "@ NS ns", "ns A 127.0.0.1"]
    zone += [f"h{i} A 10.{i >> 16}.{i >> 8 & 255}.{i & 255}" for i in range(entries)]
    (folder / "weft.zone").write_text("\n".join(zone) + "\n")
    config = folder / "knot.conf"
    config.write_text(
        f"""server:
    rundir: "{folder}"
    listen: 127.0.0.1@{PORT}
    udp-workers: 1
database:
    storage: "{folder}"
acl:
  - id: local
    address: 127.0.0.1
    action: update
zone:
  - domain: weft.test
    storage: "{folder}"
    file: weft.zone
    zonefile-sync: -1
    acl: local
"""
    )
    return config


def answers() -> bool:
    """Whether the zone is loaded: a query for its first name has an answer."""
    query = b"\0\1\0\0\0\1\0\0\0\0\0\0\2h0\4weft\4test\0\0\1\0\1"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(0.2)
        udp.sendto(query, ("127.0.0.1", PORT))
        answer = udp.recv(512)
    return answer[3] & 15 == 0 and answer[7] > 0


def dnsperf(bench: Bench, process: subprocess.Popen[bytes], data: Path, *options: str) -> tuple[float, float]:
    """Queries or updates a second that were answered, and the server's CPU time of each in us."""
    before = cpu_seconds(process)
    command = ["dnsperf", "-s", "127.0.0.1", "-p", str(PORT), "-d", str(data), "-c", str(SOCKETS), "-q", str(OUTSTANDING)]
    printed = generate(*command, "-l", str(bench.seconds), *options)
    answered = re.search(r"(?:Response|Update) codes:\s+NOERROR (\d+) \(100\.00%\)\s*$", printed, re.MULTILINE)
    if answered is None:
        raise SystemExit(f"error: Knot did not answer all with success:\n{printed}")
    rate = re.search(r"(?:Queries|Updates) per second:\s+([0-9.]+)", printed)
    if rate is None:
        raise SystemExit(f"error: dnsperf printed no rate:\n{printed}")
    return float(rate.group(1)), (cpu_seconds(process) - before) / int(answered.group(1)) * 1e6


@contextlib.contextmanager
def knot(bench: Bench) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A server with all entries, and its folder."""
    folder = bench.folder("knot")
    config = configure(folder, bench.entries)
    with server(["knotd", "-c", str(config)], folder) as process:
        wait_for("Knot", answers)
        yield process, folder


def lookups(bench: Bench) -> Iterator[Row]:
    """Random names of all that are there."""
    say("Knot: lookups")
    rng = random.Random(1)
    with knot(bench) as (process, folder):
        yield Row("memory", "Knot", "server", resident(process))
        names = folder / "names"
        names.write_text("".join(f"h{rng.randrange(bench.entries)}.weft.test A\n" for _ in range(1_000_000)))
        rate, cpu = dnsperf(bench, process, names)
        yield Row("lookups", "Knot", "one key a request", rate, None, cpu, "UDP")


def updates(bench: Bench) -> Iterator[Row]:
    """Another address for a random name."""
    say("Knot: updates")
    rng = random.Random(1)
    change = "weft.test\ndelete h{0} A\nadd h{0} 3600 A 10.255.{1}.{2}\nsend\n"
    with knot(bench) as (process, folder):
        changes = folder / "changes"
        changes.write_text(
            "".join(change.format(rng.randrange(bench.entries), rng.randrange(256), rng.randrange(256)) for _ in range(100_000))
        )
        rate, cpu = dnsperf(bench, process, changes, "-u")
        yield Row("updates", "Knot", "one server, one key an update", rate, None, cpu, "dynamic updates, journal on the disk")
