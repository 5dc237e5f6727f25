"""Measures Weft's directory, Redis, Knot DNS and etcd one after the other on this machine, and prints a table of each part.

Servers and stores have the first core, the load generator the second; all is on the loopback interface.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import etcd
import knot
import redis
import weft_directory
from machine import Bench, Row

PARTS: dict[str, list[Callable[[Bench], Iterator[Row]]]] = {
    "lookups": [weft_directory.lookups, redis.lookups, knot.lookups],
    "updates": [weft_directory.updates, redis.updates, knot.updates, etcd.updates],
    "failover": [weft_directory.failover, redis.failover, etcd.failover],
    "memory": [etcd.memory],
}
UNITS: dict[str, tuple[str, Callable[[float], str]]] = {
    "lookups": ("keys/s", lambda value: f"{value:,.0f}"),
    "updates": ("keys/s", lambda value: f"{value:,.0f}"),
    "failover": ("longest wait", lambda value: f"{value:.2f} s"),
    "memory": ("resident", lambda value: f"{value / 1e6:.0f} MB"),
}


def table(rows: list[Row], part: str) -> None:
    """One part's rows, in Markdown; columns without a value are left out."""
    unit, write = UNITS[part]
    rows = [row for row in rows if row.part == part]
    columns = [(part, [row.peer for row in rows]), ("", [row.case for row in rows]), (unit, [write(row.value) for row in rows])]
    columns.append(("p99", ["" if row.p99 is None else f"{row.p99:.1f} ms" for row in rows]))
    columns.append(("server's CPU a key", ["" if row.cpu is None else f"{row.cpu:.2f} us" for row in rows]))
    columns.append(("", [row.note for row in rows]))
    columns = [column for column in columns if any(column[1])]
    for line in ([head for head, _ in columns], ["---"] * len(columns), *zip(*(cells for _, cells in columns), strict=True)):
        print("| " + " | ".join(line) + " |")
    print()


def main() -> None:
    """Runs the parts and prints their tables; all rows go to a JSON file, too."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none. Memory is measured with lookups, too"
    )
    parser.add_argument("--weft", required=True, help="the program weft-directory")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=5, help="of each rate")
    parser.add_argument("--repeat", type=int, default=3, help="failovers of each")
    args = parser.parse_args()
    unknown = set(args.parts) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}")
    if min(args.entries, args.seconds, args.repeat) < 1:
        parser.error("--entries, --seconds and --repeat are at least 1")
    bench = Bench(str(Path(args.weft).resolve()), args.out, args.entries, args.seconds, args.repeat)
    rows: list[Row] = []
    try:
        for name, measurements in PARTS.items():
            for measure in measurements if not args.parts or name in args.parts else []:
                rows += measure(bench)
    finally:
        for name in UNITS:
            if any(row.part == name for row in rows):
                table(rows, name)
        (args.out / "results.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")


if __name__ == "__main__":
    main()
