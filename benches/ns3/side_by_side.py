"""Runs flows over one switch with Weft and with ns-3, and prints their completion times side by side."""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

HERE = Path(__file__).parent
# ns-3's point-to-point frames have 2 bytes, IPv4 and TCP 40, timestamps 12: a full packet has 1,500 in both.
MSS = 1446
HEADER = 54
NIC_QUEUE = 1_500_000
# Runs of a case with losses.
RUNS = 20


@dataclass
class Case:
    """Flows over hosts on one switch, with links of 1 Gbps."""

    name: str
    hosts: int
    # Seconds a link.
    delay: float
    # Bytes of a switch's port.
    queue: int
    # Segments of the receiver's window.
    window: int
    # Source, destination, start in seconds, bytes.
    flows: list[tuple[int, int, float, int]]
    # Congestion control and recovery of Weft.
    kind: str = "newreno"
    sack: bool = False

    def is_lossy(self) -> bool:
        """Whether its queues overflow: a few losses that fall otherwise change its times."""
        return self.name.startswith(("two", "incast")) and "no-loss" not in self.name

    def runs(self) -> list[Case]:
        """The case, and if it is lossy the same with other starting times."""
        rng = random.Random(1)
        shifted = [[(a, b, at + rng.uniform(0, 1e-3), size) for a, b, at, size in self.flows] for _ in range(RUNS - 1)]
        return [self, *(replace(self, flows=flows) for flows in shifted if self.is_lossy())]


def incast(name: str, queue: int) -> Case:
    """40 hosts send 45 segments to one, all at once."""
    return Case(name, 41, 5e-6, queue, 200, [(i, 40, 0.0, 45 * MSS) for i in range(40)])


CASES = [
    Case("one", 2, 5e-6, 150_000, 200, [(0, 1, 0.0, 500 * MSS)]),
    Case("slow-start", 2, 5e-3, 1_500_000, 4_000, [(0, 1, 0.0, 3_000 * MSS)]),
    Case("window", 2, 5e-3, 1_500_000, 200, [(0, 1, 0.0, 3_000 * MSS)]),
    Case("two-no-loss", 3, 5e-6, 500_000, 100, [(0, 2, 0.0, 20_000 * MSS), (1, 2, 0.0, 20_000 * MSS)]),
    Case("two", 3, 5e-6, 150_000, 200, [(0, 2, 0.0, 20_000 * MSS), (1, 2, 0.0, 20_000 * MSS)]),
    Case("two-later", 3, 5e-6, 150_000, 200, [(0, 2, 0.0, 20_000 * MSS), (1, 2, 0.01, 20_000 * MSS)]),
    incast("incast-no-loss", 10_000_000),
    incast("incast", 15_000),
]
# The cases with losses, with other transports.
LOSSY = [case for case in CASES if case.name in ("two", "two-later", "incast")]
CASES += [
    replace(case, name=f"{case.name}-{name}", kind=kind, sack=True)
    for name, kind in (("sack", "newreno"), ("cubic", "cubic"))
    for case in LOSSY
]


def run_weft(weft: str, case: Case, out: Path) -> tuple[float, float, int]:
    """Mean and last completion, and drops."""
    folder = out / case.name
    folder.mkdir(parents=True, exist_ok=True)
    lines = ["src,dst,start,size", *(",".join(map(str, flow)) for flow in case.flows)]
    (folder / "flows.csv").write_text("\n".join(lines) + "\n")
    (folder / "scenario.toml").write_text(
        f"""title = "{case.name}, as ns-3 runs it"
[fabric]
kind = "switch"
hosts = {case.hosts}
link = "1Gbps"
delay = "{round(case.delay * 1e6)}us"
[traffic]
file = "flows.csv"
[transport]
kind = "{case.kind}"
sack = {str(case.sack).lower()}
rack = false
mss = "{MSS}B"
header = "{HEADER}B"
max_window = "{case.window * MSS}B"
rto_min = "200ms"
[world]
kind = "packet"
switch_queue = "{case.queue}B"
nic_queue = "{NIC_QUEUE}B"
host_jitter = "0s"
ideal = false
"""
    )
    command = [weft, "run", str(folder / "scenario.toml"), "--json", "--out", str(folder / "results")]
    metrics = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["runs"][0]["metrics"]
    return metrics["fct_mean_s"], metrics["completion_s"], int(metrics["drops"])


def run_ns3(case: Case) -> tuple[float, float, int]:
    """The same with ns-3, loaded when first used."""
    import cppyy
    from ns import ns  # noqa: F401 (loads the libraries)

    if not hasattr(cppyy.gbl, "weft"):
        cppyy.cppdef((HERE / "star.cpp").read_text())
    star, vector = cppyy.gbl.weft, cppyy.gbl.std.vector
    control = {"newreno": "ns3::TcpLinuxReno", "cubic": "ns3::TcpCubic"}[case.kind]
    star.Configure(MSS, case.window, control, case.sack)
    links, flows = vector[star.Link](), vector[star.Flow]()
    for host in range(case.hosts):
        link = star.Link()
        link.a, link.b, link.bps, link.delay = host, case.hosts, 1_000_000_000, case.delay
        links.push_back(link)
    for src, dst, start, size in case.flows:
        flow = star.Flow()
        flow.src, flow.dst, flow.start, flow.bytes = src, dst, start, size
        flows.push_back(flow)
    star.Run(case.hosts, case.hosts + 1, links, flows, case.queue, NIC_QUEUE, 1_000.0)
    ends = list(star.ended)
    if min(ends) < 0:
        raise SystemExit(f"{case.name}: not all flows ended in ns-3")
    times = [end - flow[2] for end, flow in zip(ends, case.flows, strict=True)]
    return statistics.fmean(times), max(ends), star.dropped


def main() -> None:
    """Runs the cases and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(c.name for c in CASES)}; all if none")
    parser.add_argument("--weft", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    unknown = set(args.cases) - {c.name for c in CASES}
    if unknown:
        parser.error(f"no case {', '.join(sorted(unknown))}")
    print("| case | mean, Weft | mean, ns-3 | ratio | last, Weft | last, ns-3 | ratio | drops, Weft | drops, ns-3 |")
    print("| --- " * 9 + "|")
    for case in CASES:
        if args.cases and case.name not in args.cases:
            continue
        ours, theirs = [[run(one) for one in case.runs()] for run in (lambda c: run_weft(args.weft, c, args.out), run_ns3)]
        cells = [case.name]
        for index, unit in ((0, " s"), (1, " s"), (2, "")):
            (mean, error), (mean3, error3) = (spread([run[index] for run in runs]) for runs in (ours, theirs))
            digits = 6 if unit else 0
            for m, e in ((mean, error), (mean3, error3)):
                plus_minus = f" ± {e:.{digits - 3 if unit else 0}f}" if e else ""
                cells.append(f"{m:.{digits}f}{unit}{plus_minus}")
            if unit:
                cells.append(f"{mean / mean3:.4f}")
        print("| " + " | ".join(cells) + " |", flush=True)


def spread(values: list[float]) -> tuple[float, float]:
    """Mean and standard error of the mean."""
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return statistics.fmean(values), error


if __name__ == "__main__":
    main()
