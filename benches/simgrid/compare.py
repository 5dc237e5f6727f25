"""Carries the flows of Weft's bench cases, over the paths that Weft chose, with SimGrid, and compares results and times.

Prints a row of a Markdown table a case. Exit code 1: a flow ended at another time than in Weft.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

# Largest relative difference of a completion time that still counts as agreement. SimGrid lets events within 1 ns end together.
TOLERANCE = 1e-6
# A run of SimGrid that takes longer than this is not repeated.
REPEAT_BELOW_S = 20.0
# The exit code by which side_by_side says that it reached its limit.
STOPPED = 3

HEAD = """\
| case | hosts | flows | Weft wall | Weft CPU | SimGrid wall | SimGrid CPU | ratio of walls | ratio of CPU | largest difference |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


@dataclass
class WeftTime:
    """Best of the runs of `weft bench flow`."""

    hosts: int
    flows: int
    wall_s: float
    cpu_s: float


@dataclass
class SimGridRun:
    """The output of side_by_side: times, and when each flow ended, by the row of the flow."""

    wall_s: float
    cpu_s: float
    clock_s: float
    ends_s: dict[int, float]
    stopped: bool


def main() -> int:
    """Run the cases and print the table."""
    args = arguments()
    print(HEAD, flush=True)
    agreed = True
    for case in args.cases:
        folder = args.out / case
        folder.mkdir(parents=True, exist_ok=True)
        ends_s = carry_with_weft(args, case, folder)
        weft, simgrid = measure(args, case, folder)
        difference = largest_difference(ends_s, simgrid.ends_s)
        agreed &= difference <= TOLERANCE
        print(row(case, weft, simgrid, difference), flush=True)
    if not agreed:
        print(f"error: completion times differ by more than {TOLERANCE:g} of their size", file=sys.stderr)
    return 0 if agreed else 1


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="+", metavar="CASE", help="names of scenarios in --scenarios, without .toml")
    parser.add_argument("--weft", type=Path, required=True, help="the weft program")
    parser.add_argument("--simgrid", type=Path, required=True, help="the side_by_side program")
    parser.add_argument("--scenarios", type=Path, default=Path("scenarios/bench"))
    parser.add_argument("--out", type=Path, default=Path("target/simgrid"), help="where flows and results are kept")
    parser.add_argument("--runs", type=int, default=3, help="runs of each; the fastest counts")
    parser.add_argument("--limit", type=float, default=300, help="seconds of processor time that SimGrid gets for a run")
    parser.add_argument("--cfg", action="append", default=[], help="a setting of SimGrid, NAME:VALUE")
    args = parser.parse_args()
    if args.runs < 1:
        parser.error("--runs must be 1 or more")
    return args


def carry_with_weft(args: argparse.Namespace, case: str, folder: Path) -> list[float]:
    """Run the case with Weft, write its links, flows and paths for side_by_side, and return when each flow ended."""
    scenario = args.scenarios / f"{case}.toml"
    results = folder / "weft"
    call([args.weft, "run", scenario, "--out", results])
    links = pq.read_table(results / "links.parquet", columns=["id", "capacity_bps"])
    flows = pq.read_table(results / "flows.parquet", columns=["start_s", "end_s", "bytes", "path"])
    if links["id"].to_pylist() != list(range(links.num_rows)):
        raise SystemExit(f"error: {results}/links.parquet is not sorted by id")
    if any(flows["start_s"].to_pylist()) or flows["end_s"].null_count:
        raise SystemExit(f"error: {scenario}: all flows must start at 0 and end")

    lines = [str(links.num_rows)]
    lines += [repr(bps / 8) for bps in links["capacity_bps"].to_pylist()]
    lines.append(str(flows.num_rows))
    for size, path in zip(flows["bytes"].to_pylist(), flows["path"].to_pylist(), strict=True):
        lines.append(" ".join(map(str, [size, len(path), *path])))
    (folder / "input.txt").write_text("\n".join(lines) + "\n")
    return flows["end_s"].to_pylist()


def measure(args: argparse.Namespace, case: str, folder: Path) -> tuple[WeftTime, SimGridRun]:
    """Time both in turns, so that what else the machine does falls on both."""
    weft, simgrid = time_weft(args, case), run_simgrid(args, folder)
    for _ in range(args.runs - 1):
        again = time_weft(args, case)
        weft = WeftTime(weft.hosts, weft.flows, min(weft.wall_s, again.wall_s), min(weft.cpu_s, again.cpu_s))
        if not simgrid.stopped and simgrid.cpu_s < REPEAT_BELOW_S:
            other = run_simgrid(args, folder)
            simgrid.wall_s, simgrid.cpu_s = min(simgrid.wall_s, other.wall_s), min(simgrid.cpu_s, other.cpu_s)
    return weft, simgrid


def time_weft(args: argparse.Namespace, case: str) -> WeftTime:
    """Run `weft bench flow` once. Its processor time is that of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [args.weft, "bench", "flow", "--case", case, "--runs", "1", "--scenarios", args.scenarios, "--json"]
    reported = json.loads(call(command))["cases"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if [c["name"] for c in reported] != [case]:
        raise SystemExit(f"error: {case} names {len(reported)} cases of {args.scenarios}; it must name one")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return WeftTime(reported[0]["hosts"], reported[0]["flows"], reported[0]["wall_s"], cpu_s)


def call(command: list[Any]) -> str:
    """Run a command that must succeed and return what it printed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"error: {command[0]} ended with code {done.returncode}; its message is above")
    return done.stdout


def run_simgrid(args: argparse.Namespace, folder: Path) -> SimGridRun:
    """Run side_by_side once."""
    command = [args.simgrid, folder / "input.txt", str(args.limit), "--log=root.thres:warning", *(f"--cfg={c}" for c in args.cfg)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode not in (0, STOPPED):
        raise SystemExit(f"error: {args.simgrid} ended with code {done.returncode}; its message is above")
    *flows, last = done.stdout.splitlines()
    ends_s = {int(row): float(end_s) for _, row, end_s in map(str.split, flows)}
    reported = dict(item.split("=") for item in last.split()[1:])
    stopped = done.returncode == STOPPED
    if not stopped and len(ends_s) != int(reported["flows"]):
        raise SystemExit(f"error: only {len(ends_s)} of {reported['flows']} flows ended in SimGrid")
    return SimGridRun(float(reported["wall_s"]), float(reported["cpu_s"]), float(reported["clock_s"]), ends_s, stopped)


def largest_difference(weft: list[float], simgrid: dict[int, float]) -> float:
    """The largest relative difference of a flow's completion time, of the flows that ended in SimGrid."""
    return max((abs(end_s - weft[row]) / weft[row] for row, end_s in simgrid.items()), default=0.0)


def row(case: str, weft: WeftTime, simgrid: SimGridRun, difference: float) -> str:
    """One line of the table."""
    more = "> " if simgrid.stopped else ""
    cells = [
        case,
        f"{weft.hosts:,}",
        f"{weft.flows:,}",
        f"{weft.wall_s:.3g} s",
        f"{weft.cpu_s:.3g} s",
        f"{more}{simgrid.wall_s:.3g} s",
        f"{more}{simgrid.cpu_s:.3g} s",
        f"{more}{simgrid.wall_s / weft.wall_s:.3g}",
        f"{more}{simgrid.cpu_s / weft.cpu_s:.3g}",
        f"{difference:.1g}",
    ]
    if simgrid.stopped:
        cells[-1] += f" (stopped; {len(simgrid.ends_s):,} flows had ended, simulated time {simgrid.clock_s:.3g} s)"
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main())
