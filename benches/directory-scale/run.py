#!/usr/bin/env python3
"""Measures what the operator of a large directory waits for: import, backup, restart and restore of many mappings.

python3 benches/directory-scale/run.py [--mappings 10000000] [--program target/release/weft-directory]

One server with the embedded store, on the loopback interface, in a folder of its own. Prints a table.
"""

import argparse
import contextlib
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

PORT = 25303


class Directory:
    """A folder made by `init`, and its server while it runs."""

    def __init__(self, program: str, folder: Path, port: int) -> None:
        self.program, self.folder, self.port = program, folder, port
        self.command("init", str(folder), "--listen", f"127.0.0.1:{port}", folder=False)

    def command(self, *arguments: str, folder: bool = True) -> str:
        """What a command prints; ends this program if it fails."""
        where = ["--dir", str(self.folder)] if folder else []
        done = subprocess.run([self.program, *arguments, *where], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"error: {arguments[0]} ended with {done.returncode}:\n{done.stderr}")
        return done.stdout

    def start(self) -> None:
        """Starts the server; returns at once."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen([self.program, "serve", "--dir", str(self.folder)], stdout=log, stderr=log)

    def wait(self, entries: int) -> None:
        """Until the server answers with so many entries."""
        while True:
            done = subprocess.run([self.program, "status", "--dir", str(self.folder), "--json"], capture_output=True, text=True)
            with contextlib.suppress(ValueError, LookupError, TypeError):
                server = json.loads(done.stdout)["servers"][0]
                if server["state"] == "serving" and server["entries"] == entries:
                    return
            if self.process.poll() is not None:
                raise SystemExit(f"error: the server ended: {(self.folder / 'server.log').read_text()[-2000:]}")
            time.sleep(0.02)

    def end(self, by: signal.Signals) -> None:
        """Ends the server."""
        self.process.send_signal(by)
        self.process.wait()

    def memory(self) -> int:
        """Bytes that are resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024


def write_mappings(path: Path, count: int) -> None:
    """A file for `import`: 50 addresses for each of the hosts 10.0.0.0 and up."""
    with path.open("w") as out:
        for i in range(count):
            host = i // 50
            key = f"{100 + (i >> 24)}.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}"
            out.write(f'{{"key":"{key}","locator":"10.{host >> 16 & 255}.{host >> 8 & 255}.{host & 255}"}}\n')


@contextlib.contextmanager
def running(directory: Directory) -> Iterator[None]:
    """The server runs, and is killed whatever happens."""
    directory.start()
    try:
        yield
    finally:
        directory.process.kill()
        directory.process.wait()


def timed(step: str, work: Callable[[], object], goal: str, rows: list[tuple[str, str, str]]) -> None:
    """Adds the seconds that the work takes."""
    began = time.monotonic()
    work()
    rows.append((step, f"{time.monotonic() - began:.1f} s", goal))
    print(f"==> {step}: {rows[-1][1]}", file=sys.stderr, flush=True)


def measure(program: str, count: int, folder: Path) -> list[tuple[str, str, str]]:
    """All steps, with the goals for ten million."""
    rows: list[tuple[str, str, str]] = []
    mappings, backup = folder / "mappings.jsonl", folder / "all.backup"
    write_mappings(mappings, count)
    first, second = Directory(program, folder / "first", PORT), Directory(program, folder / "second", PORT + 1)
    with running(first):
        first.wait(0)
        timed("import", lambda: first.command("import", str(mappings)), "60 s", rows)
        timed("import again: nothing changes", lambda: first.command("import", str(mappings)), "", rows)
        timed("backup", lambda: first.command("backup", str(backup)), "120 s", rows)
        rows.append(("memory of the server after it", f"{first.memory() / 1e6:.0f} MB", ""))
        for by, name in ((signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")):
            first.end(by)

            def restart() -> None:
                first.start()
                first.wait(count)

            timed(f"restart of a server that was {name}", restart, "5 s", rows)
        rows.append(("memory of the server after it", f"{first.memory() / 1e6:.0f} MB", ""))
    store = sum(file.stat().st_size for file in (folder / "first").rglob("*") if file.is_file())
    rows.append(("folder of the server", f"{store / 1e6:.0f} MB", ""))
    rows.append(("backup", f"{backup.stat().st_size / 1e6:.0f} MB", ""))
    with running(second):
        second.wait(0)
        timed("restore into an empty directory", lambda: second.command("restore", str(backup), "--other-cluster"), "", rows)
        second.wait(count)
    return rows


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mappings", type=int, default=10_000_000)
    parser.add_argument("--program", default="target/release/weft-directory")
    args = parser.parse_args()
    if not 1 <= args.mappings <= 1 << 27:
        parser.error("--mappings is from 1 to 134,217,728")
    if shutil.which(args.program) is None:
        parser.error(f"there is no program {args.program}: `make build` builds it")
    with tempfile.TemporaryDirectory(dir="target") as folder:
        rows = measure(str(Path(args.program).resolve()), args.mappings, Path(folder).resolve())
    print(f"| {args.mappings:,} mappings | measured | goal for ten million |\n| --- | --- | --- |")
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
