"""Studies of an operator's own logs, and prices of networks, by the program ``weft-planner``.

    from weft import planner

    study = planner.analyze_traffic("flows.csv", hosts="racks.csv", interval="100s")
    study.summary["totals"]["flows"]
    study.matrix            # a DataFrame: start_s, from, to, bytes

``docs/planning.md`` describes the formats and methods.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from weft._errors import WeftError
from weft._programs import run_program
from weft._settings import to_json
from weft.studies import Check

__all__ = ["TrafficStudy", "analyze_failures", "analyze_traffic", "check", "cost", "cuts", "design", "optimum", "whatif"]

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class TrafficStudy:
    """What :func:`analyze_traffic` found."""

    #: What ``weft analyze traffic --json`` prints.
    summary: dict[str, Any]
    #: One row per bin of flow sizes: `from`, `to`, `count`, `sum`, in bytes.
    sizes: pd.DataFrame
    #: One row per number of concurrent flows of a host: `from`, `to`, `count` of (host, instant), `sum`.
    concurrency: pd.DataFrame
    #: One row per pair of groups and interval: `start_s`, `from`, `to`, `bytes`.
    matrix: pd.DataFrame
    #: One row per number of clusters: `clusters`, `fitting_error`.
    clusters: pd.DataFrame
    #: One row per host: `host`, `group`, `out_bytes`, `in_bytes`.
    hosts: pd.DataFrame


def analyze_traffic(
    *files: PathLike,
    hosts: PathLike | None = None,
    interval: str | None = None,
    sampling: int | None = None,
    keep_going: bool = False,
    out: PathLike | None = None,
    emit: PathLike | None = None,
    emit_as: str = "fitted",
    anonymize: PathLike | None = None,
) -> TrafficStudy:
    """Studies flow logs and captures, or the simulated traffic of a scenario, as ``weft analyze traffic`` does.

    Args:
        files: the logs, whose formats are recognised; or one scenario.
        hosts: a CSV with the columns ``address``, ``rack``, and if known ``pod`` and ``service``.
        interval: the length of the intervals of traffic matrices; without it 100 s, or that of a scenario's matrices.
        sampling: N if one packet in N was recorded, where the logs do not state it.
        keep_going: leave out and count what cannot be read.
        out: a folder for the report; without it, a temporary one.
        emit: a scenario to write, for :func:`weft.run`.
        emit_as: ``"fitted"``, ``"closed-loop"`` or ``"flows"``.
        anonymize: a file with a key; names are replaced by a hash.

    Raises:
        WeftError: a file cannot be read, or does not follow its format.
    """
    arguments = ["analyze", "traffic", *[os.fspath(it) for it in files]]
    arguments += ["--interval", interval] if interval is not None else []
    arguments += ["--hosts", os.fspath(hosts)] if hosts is not None else []
    arguments += ["--sampling", str(sampling)] if sampling is not None else []
    arguments += ["--keep-going"] if keep_going else []
    arguments += ["--emit", os.fspath(emit), "--emit-as", emit_as] if emit is not None else []
    arguments += ["--anonymize", os.fspath(anonymize)] if anonymize is not None else []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        summary = _run([*arguments, "--out", str(folder)])
        names = ["sizes", "concurrency", "matrix", "clusters", "hosts"]
        tables = {name: pd.read_csv(folder / f"{name}.csv") for name in names}
    return TrafficStudy(summary=summary, **tables)


def analyze_failures(file: PathLike, *, fabric: PathLike | None = None, min: str = "30s", window: str = "60s") -> dict[str, Any]:
    """Studies a log of failures, or those of a scenario with ``[failures]``: what ``weft analyze failures --json`` prints.

    Raises:
        WeftError: a file cannot be read, or does not follow its format.
    """
    arguments = ["analyze", "failures", os.fspath(file), "--min", min, "--window", window]
    arguments += ["--fabric", os.fspath(fabric)] if fabric is not None else []
    report: dict[str, Any] = _run(arguments)
    return report


def check(scenario: PathLike, *, full: bool = False, set: Mapping[str, Any] | None = None) -> Check:
    """Compares what the planner measures of a scenario with its ``[[expect]]`` entries: figures 2 to 4 and 15 of VL2, failures.

    Args:
        scenario: a scenario that expects metrics of ``weft analyze`` or ``weft optimum``.
        full: in its full form instead of the quick one.
        set: keys to override, such as ``{"world.seed": 2}``.

    Raises:
        WeftError: something is wrong with the scenario.
    """
    arguments = ["evaluate", os.fspath(scenario), "--full" if full else "--quick"]
    for key, value in (set or {}).items():
        arguments += ["--set", f"{key}={value if isinstance(value, str) else to_json(value, key)}"]
    return Check(json.loads(_run_text(arguments)))


def optimum(
    scenario: PathLike, *, matrices: PathLike | None = None, traffic: str | None = None, tolerance: float = 0.02
) -> dict[str, Any]:
    """Compares routings with the optimum: what ``weft optimum --json`` prints.

    Args:
        scenario: a scenario, or a fabric file.
        matrices: ``matrix.csv`` of a traffic study, or a table ``t,src,dst,bps`` with racks by number from 0.
        traffic: ``"uniform"`` or ``"stride"``; without both, the scenario's own traffic, or uniform.
        tolerance: how near the bounds of the optimum come to each other.

    Raises:
        WeftError: the scenario or the matrices are wrong.
    """
    arguments = ["optimum", os.fspath(scenario), "--tolerance", str(tolerance), *_traffic(matrices, traffic)]
    report: dict[str, Any] = _run(arguments)
    return report


def cuts(
    scenario: PathLike, *, pairs: Sequence[tuple[str, str]] = (), without: Sequence[str] = (), halvings: int = 100, seed: int = 1
) -> dict[str, Any]:
    """Computes maximum flows, edge connectivity and bisection: what ``weft cuts --json`` prints.

    Args:
        scenario: a scenario, of which the fabric is read, or a fabric file.
        pairs: pairs of names of switches, for each of which the maximum flow is computed.
        without: what has failed: names of switches, and of cables as ``"tor0-agg1"``.
        halvings: number of random halves of the racks, in addition to the first and the second half.
        seed: seed of the halves.

    Raises:
        WeftError: the scenario is wrong, or a name is unknown.
    """
    arguments = ["cuts", os.fspath(scenario), "--halvings", str(halvings), "--seed", str(seed)]
    for pair in pairs:
        arguments += ["--pair", ":".join(pair)]
    arguments += ["--without", ",".join(without)] if without else []
    report: dict[str, Any] = _run(arguments)
    return report


def whatif(
    scenario: PathLike,
    *,
    fail: Sequence[str] = ("cable", "switch", "pod", "plane"),
    pairs: bool = False,
    rates: PathLike | None = None,
    matrices: PathLike | None = None,
    traffic: str | None = None,
    level: float = 0.9,
    seed: int = 1,
    plan: PathLike | None = None,
    prices: PathLike | None = None,
) -> dict[str, Any]:
    """Computes the effect of failures on a fabric, or of a plan of growth: what ``weft whatif --json`` prints.

    Args:
        scenario: a scenario, of which the fabric is read, or a fabric file.
        fail: what fails.
        pairs: evaluate pairs of failures too.
        rates: a TOML file with rates of failure.
        matrices: ``matrix.csv`` of a traffic study, of which the mean is taken; without it, the pattern ``traffic``.
        traffic: ``"uniform"`` or ``"stride"``.
        level: the service level, a fraction of what the healthy network carries.
        seed: seed of the random choices.
        plan: a TOML file with steps of growth, evaluated instead of failures: ``fail``, ``pairs``, ``rates``, ``level``
            and ``seed`` do not apply. ``met`` of the result is false if a step does not meet the service level.
        prices: the price list for a plan.

    Raises:
        WeftError: the scenario, the rates, the plan or the matrices are wrong.
    """
    if plan is not None:
        arguments = ["whatif", os.fspath(scenario), "--plan", os.fspath(plan)]
        arguments += ["--prices", os.fspath(prices)] if prices is not None else []
        growth: dict[str, Any] = json.loads(_run_text([*arguments, *_traffic(matrices, traffic), "--json"], (0, 1)))
        return growth
    if prices is not None:
        raise WeftError("`prices` is for a plan", "give `plan`, or leave `prices` out")
    arguments = ["whatif", os.fspath(scenario), "--fail", ",".join(fail), "--level", str(level), "--seed", str(seed)]
    arguments += ["--pairs"] if pairs else []
    arguments += ["--rates", os.fspath(rates)] if rates is not None else []
    report: dict[str, Any] = _run(arguments + _traffic(matrices, traffic))
    return report


def export_ipfix(run: PathLike, file: PathLike, *, hosts: PathLike | None = None) -> None:
    """Writes the flows of a run as an IPFIX file: ``weft export``.

    Args:
        run: a results folder.
        file: what is written.
        hosts: also writes the hosts' addresses and racks, for :func:`analyze_traffic`.

    Raises:
        WeftError: the folder is no run's, or a file cannot be written.
    """
    arguments = ["export", os.fspath(run), "--ipfix", os.fspath(file)]
    _run_text(arguments + (["--hosts", os.fspath(hosts)] if hosts is not None else []))


def _traffic(matrices: PathLike | None, traffic: str | None) -> list[str]:
    named = ["--matrices", os.fspath(matrices)] if matrices is not None else []
    return named + (["--traffic", traffic] if traffic is not None else [])


def cost(
    scenarios: Sequence[PathLike],
    prices: PathLike | Sequence[PathLike],
    *,
    without_edge_and_cables: bool = False,
    equal: str | None = None,
    out: PathLike | None = None,
) -> list[dict[str, Any]]:
    """Prices fabrics: what ``weft cost --json`` prints, a bill for each. Several are compared by throughput.

    Args:
        scenarios: scenarios, of which the fabrics are read, or fabric files.
        prices: a price list, or one for each scenario.
        without_edge_and_cables: leave out edge switches, NICs and cables, as VL2 section 6 does.
        equal: ``"money"`` or ``"throughput"``: scale all designs to that of the cheapest or of the fastest.
        out: a folder for ``cost.json`` and ``cost.html``.

    Raises:
        WeftError: a file cannot be read, or the list does not sell something.
    """
    lists = [prices] if isinstance(prices, (str, os.PathLike)) else list(prices)
    arguments = ["cost", *[os.fspath(it) for it in scenarios]]
    for file in lists:
        arguments += ["--prices", os.fspath(file)]
    arguments += ["--without-edge-and-cables"] if without_edge_and_cables else []
    arguments += ["--equal", equal] if equal is not None else []
    arguments += ["--out", os.fspath(out)] if out is not None else []
    report = _run(arguments)
    designs: list[dict[str, Any]] = report.get("designs", [report])
    return designs


def design(
    servers: int,
    speed: str,
    *,
    budget: float | None = None,
    at_least: float = 0.0,
    prices: PathLike = "@data/prices-illustrative",
    top: int = 5,
    out: PathLike | None = None,
) -> dict[str, Any]:
    """Searches for the best fabrics: what ``weft design --json`` prints.

    Args:
        servers: number of servers.
        speed: rate at which a server sends and receives, such as ``"10Gbps"``.
        budget: maximum price of a design, in the currency of the list.
        at_least: minimum rate of a server under the worst matrix, as a fraction of the speed.
        prices: the price list.
        top: number of designs.
        out: a folder for the designs as scenarios, for :func:`weft.run`.

    Raises:
        WeftError: no design can be built from the list, within the budget or with the throughput.
    """
    arguments = ["design", "--servers", str(servers), "--speed", speed, "--prices", os.fspath(prices), "--top", str(top)]
    arguments += ["--budget", str(budget)] if budget is not None else []
    arguments += ["--at-least", str(at_least)]
    arguments += ["--out", os.fspath(out)] if out is not None else []
    report: dict[str, Any] = _run(arguments)
    return report


def _run(arguments: list[str]) -> Any:
    return json.loads(_run_text([*arguments, "--json"]))


def _run_text(arguments: list[str], accepted: tuple[int, ...] = (0,)) -> str:
    return run_program("weft-planner", arguments, accepted)
