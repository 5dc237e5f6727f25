"""What all measurements share: the machine's two cores, processes, and the client that measures a failover."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

SERVER_CORE, GENERATOR_CORE = "0", "1"
# Requests that wait for an answer, as in Weft's own benchmark: 256 of one key each, or 64 of 32.
OUTSTANDING, BATCHES, BATCH = 256, 64, 32
# Seconds between two updates of the client that measures a failover, and how long it waits for an answer.
EVERY, TIMEOUT = 0.01, 0.2


@dataclass
class Row:
    """A measurement: keys a second, seconds or bytes. Of rates `p99` is in milliseconds, and the server's CPU in us a key."""

    part: str
    peer: str
    case: str
    value: float
    p99: float | None = None
    cpu: float | None = None
    note: str = ""


@dataclass
class Bench:
    """What all parts know."""

    weft: str
    out: Path
    entries: int
    seconds: int
    repeat: int

    def folder(self, name: str) -> Path:
        """An empty folder."""
        path = self.out / name
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path.resolve()


def say(text: str) -> None:
    """Progress, on the standard error."""
    print(f"==> {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def server(command: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process on the servers' core, killed at the end; its output goes to a log in its folder."""
    with (folder / f"{Path(command[0]).name}.log").open("ab") as log:
        process = subprocess.Popen(["taskset", "-c", SERVER_CORE, *command], cwd=folder, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def generate(*command: str) -> str:
    """What a load generator prints, on its own core."""
    done = subprocess.run(["taskset", "-c", GENERATOR_CORE, *command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait_for(what: str, ready: Callable[[], bool], seconds: float = 120) -> None:
    """Waits until `ready`, asked 20 times a second; refused connections count as no."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ready():
                return
        time.sleep(0.05)
    raise SystemExit(f"error: {what} is not ready after {seconds:.0f} s")


def resident(process: subprocess.Popen[bytes]) -> float:
    """Bytes of memory."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return float(status.split("VmRSS:")[1].split()[0]) * 1024


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """CPU time so far."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def failover_row(peer: str, case: str, gaps: list[float], note: str) -> Row:
    """The worst of several, with the median in the note."""
    return Row("failover", peer, case, max(gaps), note=f"median {statistics.median(gaps):.2f} s; {note}")


def longest_gap(update: Callable[[int], None], kill: Callable[[], None]) -> float:
    """The longest time between two acknowledged updates: one is sent every 10 ms, and a process is killed after 2 s."""
    start = last = time.monotonic()
    killed, gap, number, recovered = None, 0.0, 0, None
    while recovered is None or last < recovered + 3:
        number += 1
        began = time.monotonic()
        if began > start + 60:
            raise SystemExit("error: no update is acknowledged a minute after the kill")
        if killed is None and began > start + 2:
            kill()
            killed = began
        try:
            update(number)
        except (OSError, http.client.HTTPException):
            pass
        else:
            now = time.monotonic()
            gap, last = max(gap, now - last), now
            if killed is not None and recovered is None and now > killed + 0.05:
                recovered = now
        time.sleep(max(0.0, began + EVERY - time.monotonic()))
    return gap
