"""Draws Clos fabrics with failures, has Weft and NetGraph compute the same of each, compares the results and prints the times."""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from ngraph import AnalysisContext, Link, Mode, Network, Node, analyze

GBPS = 1_000_000_000
PAIRS = 20


@dataclass
class Case:
    """A fabric: `tors` ToRs with one host each, cables between switches as (from, to, Gbps), and which of them have failed."""

    tors: int
    switches: list[str]
    cables: list[tuple[str, str, int]]
    failed: list[tuple[str, str, int]] = field(default_factory=list)
    failed_switch: str | None = None
    pairs: list[tuple[str, str]] = field(default_factory=list)

    @staticmethod
    def draw(rng: random.Random) -> "Case":
        """A Clos with 8 to 144 ToRs; up to a tenth of its cables fail, in a third of the cases a switch above the ToRs too."""
        tors, aggs, ints = 2 * rng.randint(4, 72), rng.randint(4, 24), rng.randint(2, 12)
        uplinks, up, down = rng.randint(2, 4), rng.choice([10, 25, 40]), rng.choice([10, 40, 100])
        names = [[f"{kind}{i}" for i in range(count)] for kind, count in (("tor", tors), ("agg", aggs), ("int", ints))]
        cables = [(tor, names[1][(i * uplinks + j) % aggs], up) for i, tor in enumerate(names[0]) for j in range(uplinks)]
        cables += [(agg, top, down) for agg in names[1] for top in names[2] for _ in range(rng.choice([1, 1, 2]))]
        case = Case(tors, [name for kind in names for name in kind], cables)
        case.failed = rng.sample(cables, rng.randint(0, len(cables) // 10))
        if rng.random() < 1 / 3:
            case.failed_switch = rng.choice(names[1] + names[2])
        working = [name for name in case.switches if name != case.failed_switch]
        case.pairs = [tuple(rng.sample(working, 2)) for _ in range(PAIRS)]  # type: ignore[misc]
        return case

    def working(self) -> list[tuple[str, str, int]]:
        """The cables that have not failed, at switches that have not."""
        left = list(self.cables)
        for cable in self.failed:
            left.remove(cable)
        return [cable for cable in left if self.failed_switch not in cable[:2]]

    def text(self) -> str:
        """The fabric as a file of Weft's format. NICs of 2 Tbps never limit."""
        lines = ["weft-fabric 1"]
        lines += [f"host h{i}" for i in range(self.tors)]
        lines += [f"switch {name} tier {1 + ['tor', 'agg', 'int'].index(name[:3])}" for name in self.switches]
        lines += [f"cable h{i} tor{i} 2000Gbps 1us" for i in range(self.tors)]
        seen: set[tuple[str, str]] = set()
        for a, b, gbps in self.cables:
            lines.append(f"cable {a} {b} {gbps}Gbps 1us" + (" parallel" if (a, b) in seen else ""))
            seen.add((a, b))
        return "\n".join(lines) + "\n"


@dataclass
class Results:
    """What one program found, in bits per second and cables, and seconds."""

    flows: list[int]
    connectivity: int
    bisection: int
    seconds: dict[str, float]

    def equals(self, other: "Results") -> bool:
        """Whether all values are the same."""
        return (self.flows, self.connectivity, self.bisection) == (other.flows, other.connectivity, other.bisection)


def by_weft(planner: str, case: Case, file: pathlib.Path, repeat: int) -> Results:
    """`weft cuts --json`."""
    file.write_text(case.text())
    arguments = [planner, "cuts", str(file), "--json", "--halvings", "0", "--repeat", str(repeat)]
    for pair in case.pairs:
        arguments += ["--pair", ":".join(pair)]
    without = [f"{a}-{b}" for a, b, _ in case.failed] + ([case.failed_switch] if case.failed_switch else [])
    arguments += ["--without", ",".join(without)] if without else []
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(arguments)}\n{done.stderr}")
    report = json.loads(done.stdout)
    flows = [flow["bps"] for flow in report["flows"]]
    return Results(flows, report["edge_connectivity"]["cables"], report["bisection"]["in_order_bps"], report["seconds"])


def network(case: Case, gbps: Callable[[int], float]) -> Network:
    """The switches and cables that work."""
    net = Network()
    for name in case.switches:
        if name != case.failed_switch:
            net.add_node(Node(name))
    for a, b, rate in case.working():
        net.add_link(Link(a, b, capacity=gbps(rate), cost=1))
    return net


def least(compute: Callable[[], object], repeat: int) -> float:
    """The least time of several, in seconds."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        compute()
        best = min(best, time.perf_counter() - start)
    return best


def between_halves(net: Network, case: Case) -> AnalysisContext:
    """Bound from the ToRs of the first half to those of the second."""
    half = case.tors // 2
    first, second = ("|".join(f"tor{i}" for i in side) for side in (range(half), range(half, case.tors)))
    return analyze(net, source=f"^(?:{first})$", sink=f"^(?:{second})$", mode=Mode.COMBINE)


def by_api(case: Case, repeat: int) -> Results:
    """NetGraph as its manual has it: contexts bound to their ends beforehand, `max_flow` of each.

    Edge connectivity is the least flow from a switch to each other one where every cable has a capacity of 1.
    """
    net, unit = network(case, float), network(case, lambda _: 1.0)
    bound = [analyze(net, source=f"^{a}$", sink=f"^{b}$", mode=Mode.COMBINE) for a, b in case.pairs]
    others = analyze(unit, source="^(tor0)$", sink="^((?!tor0$).+)$", mode=Mode.PAIRWISE)
    halves = between_halves(net, case)

    def flows() -> list[float]:
        return [next(iter(context.max_flow().values())) for context in bound]

    def connectivity() -> float:
        return min(others.max_flow().values())

    def bisection() -> float:
        return next(iter(halves.max_flow().values()))

    return Results(
        [round(flow * GBPS) for flow in flows()],
        round(connectivity()),
        round(bisection() * GBPS),
        {
            "flows": least(flows, repeat),
            "edge_connectivity": least(connectivity, repeat),
            "bisection": least(bisection, repeat),
        },
    )


def by_core(case: Case, repeat: int) -> Results:
    """NetGraph's engine in C++ (`netgraph_core`), called for each pair with numbers of nodes.

    Its `batch_max_flow` takes longer, as it computes cuts too.
    """
    net, unit = analyze(network(case, float)), analyze(network(case, lambda _: 1.0))
    number = net.node_mapper.to_id
    pairs = [(number(a), number(b)) for a, b in case.pairs]
    first = unit.node_mapper.to_id("tor0")
    others = [other for other in range(len(unit.node_mapper.node_names)) if other != first]
    halves = between_halves(network(case, float), case)
    (ends,) = halves._bound_pseudo.pairs.values()
    of_net, of_unit, of_halves = net.algorithms.max_flow, unit.algorithms.max_flow, halves.algorithms.max_flow

    def flows() -> list[float]:
        return [of_net(net.handle, a, b)[0] for a, b in pairs]

    def connectivity() -> float:
        return min(of_unit(unit.handle, first, other)[0] for other in others)

    def bisection() -> float:
        return of_halves(halves.handle, *ends)[0]

    return Results(
        [round(flow * GBPS) for flow in flows()],
        round(connectivity()),
        round(bisection() * GBPS),
        {
            "flows": least(flows, repeat),
            "edge_connectivity": least(connectivity, repeat),
            "bisection": least(bisection, repeat),
        },
    )


def main() -> None:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planner", required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=20)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rng = random.Random(args.seed)
    sums = {name: {"flows": 0.0, "edge_connectivity": 0.0, "bisection": 0.0} for name in ("weft", "core", "api")}
    equal, parted, failed = 0, 0, 0
    for number in range(args.cases):
        case = Case.draw(rng)
        results = {
            "weft": by_weft(args.planner, case, args.out / f"clos-{number}.fabric", args.repeat),
            "core": by_core(case, args.repeat),
            "api": by_api(case, args.repeat),
        }
        same = all(results["weft"].equals(results[name]) for name in ("core", "api"))
        equal += same
        parted += results["weft"].connectivity == 0
        failed += bool(case.failed or case.failed_switch)
        if not same:
            print(f"case {number} differs: {results}", file=sys.stderr)
        for name, result in results.items():
            for key in sums[name]:
                sums[name][key] += result.seconds[key]
    print(f"{args.cases} fabrics, {failed} with failures, {parted} parted: {equal} with equal results\n")
    print("| result | Weft | NetGraph's engine | ratio | NetGraph's Python API | ratio |")
    print("| --- | --- | --- | --- | --- | --- |")
    titles = {"flows": f"maximum flow, {PAIRS} pairs", "edge_connectivity": "edge connectivity", "bisection": "bisection"}
    for key, title in titles.items():
        weft, core, api = (1e3 * sums[name][key] for name in ("weft", "core", "api"))
        print(f"| {title} | {weft:.3f} ms | {core:.1f} ms | {core / weft:.1f} | {api:.1f} ms | {api / weft:.1f} |")
    sys.exit(0 if equal == args.cases else 1)


if __name__ == "__main__":
    main()
