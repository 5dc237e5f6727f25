"""Results of runs: the results folder as DataFrames."""

import json
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import pandas as pd
import pyarrow.parquet


class Verdict(TypedDict):
    """One ``[[expect]]`` entry and what was measured."""

    source: str
    metric: str
    unit: str  #: the metric's unit; empty for a plain number and for a ratio to another run
    kind: str  #: ``published``, ``bound`` (of the paper) or ``own`` (a guard of Weft's own)
    paper: float | None  #: the published value; None if the paper states a bound, or nothing
    at_least: float | None
    at_most: float | None
    measured: float | None
    ci95: NotRequired[float]  #: with several seeds: half the width of the mean's 95 % confidence interval
    uncertain: NotRequired[bool]  #: that interval is wider than the tolerance, or spans a bound
    within: str
    ok: bool
    verdict: str  #: ``ok``, ``miss``, ``known-miss``, ``untrusted`` or ``not-comparable``
    known: bool
    cause: NotRequired[str]
    over: NotRequired[dict[str, Any]]


class OfSeed(TypedDict):
    """What a run measured with one of several seeds."""

    seed: int
    metrics: dict[str, float]


class RunSummary(TypedDict):
    """One run in a summary."""

    set: dict[str, Any]
    seed: int
    metrics: dict[str, float]
    ci95: NotRequired[dict[str, float]]
    per_seed: NotRequired[list[OfSeed]]
    comparable: bool
    overrides: NotRequired[list[str]]  #: settings that make it not comparable: ``traffic.stride=2``
    notes: NotRequired[list[str]]  #: what a reader of its figures has to know
    expect: list[Verdict]


class Provenance(TypedDict):
    """Where results come from: ``run.json``."""

    version: str
    command: str
    form: NotRequired[str]  #: ``quick`` or ``full``
    overrides: dict[str, Any]
    seed: int | None  #: None if the runs of a sweep have several
    world: str | None  #: None if the runs of a sweep have several
    trusted: bool
    comparable: bool


class Summary(TypedDict):
    """What ``summary.json`` holds and ``weft run --json`` prints."""

    title: str
    out: NotRequired[str]
    runs: list[RunSummary]


class Run:
    """One run of a scenario.

    The tables are read from the results folder when they are first asked for, and kept.
    """

    #: Its number in the sweep, from 0.
    index: int
    #: Its part of the summary.
    summary: RunSummary
    #: Where its files are.
    folder: Path

    def __init__(self, index: int, summary: RunSummary, folder: Path, keep: object) -> None:
        self.index = index
        self.summary = summary
        self.folder = folder
        self._keep = keep  # the temporary folder lives as long as anything that reads from it

    @property
    def set(self) -> dict[str, Any]:
        """The swept settings, by dotted key."""
        return self.summary["set"]

    @property
    def seed(self) -> int:
        """The seed."""
        return self.summary["seed"]

    @property
    def metrics(self) -> dict[str, float]:
        """What was measured, by name; what the world does not know is absent. With several seeds (`[world] seeds`) the mean."""
        return self.summary["metrics"]

    @property
    def ci95(self) -> dict[str, float]:
        """Half the width of each mean's 95 % confidence interval, by name; empty for one seed."""
        return self.summary.get("ci95", {})

    @property
    def per_seed(self) -> pd.DataFrame:
        """One row per seed: `seed`, and what was measured with it; no row for a single seed."""
        return pd.DataFrame([{"seed": one["seed"], **one["metrics"]} for one in self.summary.get("per_seed", [])])

    @property
    def expect(self) -> list[Verdict]:
        """What the scenario expects of this run, compared with what was measured."""
        return self.summary["expect"]

    @property
    def notes(self) -> list[str]:
        """What a reader of its figures has to know: that timeouts limit it, that its scheduler never ran; empty otherwise."""
        return self.summary.get("notes", [])

    @property
    def trusted(self) -> bool:
        """False for a lab run whose figures describe the machine, or another network than that of the scenario."""
        return self.provenance["trusted"]

    @property
    def comparable(self) -> bool:
        """False if settings were overridden that the expectations take for granted."""
        return self.summary["comparable"]

    @property
    def scenario(self) -> Path:
        """The resolved scenario, with all overrides applied: ``weft.run`` of this file gives the same results."""
        return self.folder / "scenario.toml"

    @cached_property
    def provenance(self) -> Provenance:
        """What ``run.json`` holds: version, command, overrides, seed, world."""
        return read_provenance(self.folder)

    @cached_property
    def flows(self) -> pd.DataFrame:
        """One row per flow: `id`, `src`, `dst`, `start_s`, `end_s` (NaN if it did not finish), `bytes`, `goodput_bps`, `path`.

        In the packet world also `reordered` and `retransmits`; of several services also `service`.
        """
        return self._read("flows")

    @cached_property
    def links(self) -> pd.DataFrame:
        """One row per directed link: `id`, `from`, `to`, `capacity_bps`, `bytes`; in the packet world also `drops`."""
        return self._read("links")

    @cached_property
    def link_series(self) -> pd.DataFrame:
        """Mean utilisation of links over the span that ends at `t_s`: `t_s`, `link`, `utilisation`; zero rows are left out."""
        return self._read("link_series")

    @cached_property
    def throughput(self) -> pd.DataFrame:
        """The network over time: `t_s`, `delivered_bytes` since the start, `active_flows`, `nic_bound_bps`."""
        return self._read("throughput")

    @cached_property
    def queues(self) -> pd.DataFrame:
        """Queues that `[trace]` asked for: `t_s`, `link`, `bytes` that wait, `drops` so far; no rows without a trace."""
        return self._traced("queues", {"t_s": "float64", "link": "uint32", "bytes": "uint64", "drops": "uint64"})

    @cached_property
    def windows(self) -> pd.DataFrame:
        """Congestion windows of `[trace]`: `t_s`, `flow`, `subflow`, `cwnd_segments`, `srtt_s`; no rows without a trace."""
        columns = {"t_s": "float64", "flow": "uint32", "subflow": "uint32", "cwnd_segments": "uint32", "srtt_s": "float64"}
        return self._traced("windows", columns)

    @property
    def pcap(self) -> Path | None:
        """The capture of one port that `[trace]` asked for."""
        path = self.folder / "port.pcap"
        return path if path.exists() else None

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={value!r}" for key, value in self.set.items())
        return f"<weft.Run {self.index}: {settings or 'as written'}>"

    def _read(self, table: str) -> pd.DataFrame:
        frame: pd.DataFrame = pyarrow.parquet.read_table(self.folder / f"{table}.parquet").to_pandas()
        return frame

    def _traced(self, table: str, columns: dict[str, str]) -> pd.DataFrame:
        if (self.folder / f"{table}.parquet").exists():
            return self._read(table)
        return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


class Result:
    """What :func:`weft.run` returns.

    For a scenario without a sweep the tables are those of its one run. For a sweep they are those of all its runs, one after the
    other, with the run's number in a first column `run`; ``runs[i]`` holds each alone.
    """

    #: What ``summary.json`` holds.
    summary: Summary
    #: The results folder. Without ``out`` it is a temporary one that goes when the result and all its runs are gone.
    out: Path
    #: In the order of the sweep.
    runs: Sequence[Run]

    def __init__(self, summary: Summary, out: Path, keep: "TemporaryFolder | None" = None) -> None:
        self.summary = summary
        self.out = out
        one = len(summary["runs"]) == 1
        self.runs = tuple(Run(i, run, out if one else out / f"{i:03}", keep) for i, run in enumerate(summary["runs"]))

    @property
    def title(self) -> str:
        """The scenario's title."""
        return self.summary["title"]

    @property
    def report(self) -> Path:
        """The report: one HTML file for a browser."""
        return self.out / "report.html"

    @property
    def scenario(self) -> Path:
        """The resolved scenario, sweep included: ``weft.run`` of this file gives the same results."""
        return self.out / "scenario.toml"

    @cached_property
    def provenance(self) -> Provenance:
        """What ``run.json`` holds: version, command, overrides, seed, world; `trusted` if all runs are."""
        return read_provenance(self.out)

    @cached_property
    def metrics(self) -> pd.DataFrame:
        """One row per run: the swept settings, `seed`, and every metric that some run knows."""
        rows = [{**run.set, "seed": run.seed, **run.metrics} for run in self.runs]
        return pd.DataFrame(rows, index=pd.RangeIndex(len(rows), name="run"))

    @cached_property
    def verdicts(self) -> pd.DataFrame:
        """One row per expectation of a run.

        Columns: `run`, `source`, `metric`, `unit`, `kind`, `paper`, `at_least`, `at_most`, `measured`, `within`, `ok`,
        `verdict`, `known`, `cause`.
        """
        return verdicts(self.summary)

    @property
    def notes(self) -> list[str]:
        """:attr:`Run.notes` of all runs; each names its run."""
        return [note for run in self.runs for note in run.notes]

    @cached_property
    def flows(self) -> pd.DataFrame:
        """:attr:`Run.flows` of all runs."""
        return self._all("flows")

    @cached_property
    def links(self) -> pd.DataFrame:
        """:attr:`Run.links` of all runs."""
        return self._all("links")

    @cached_property
    def link_series(self) -> pd.DataFrame:
        """:attr:`Run.link_series` of all runs."""
        return self._all("link_series")

    @cached_property
    def throughput(self) -> pd.DataFrame:
        """:attr:`Run.throughput` of all runs."""
        return self._all("throughput")

    @cached_property
    def queues(self) -> pd.DataFrame:
        """:attr:`Run.queues` of all runs."""
        return self._all("queues")

    @cached_property
    def windows(self) -> pd.DataFrame:
        """:attr:`Run.windows` of all runs."""
        return self._all("windows")

    def __repr__(self) -> str:
        count = len(self.runs)
        return f"<weft.Result {self.title!r}: {count} run{'s' if count > 1 else ''} in {self.out}>"

    def _all(self, table: str) -> pd.DataFrame:
        if len(self.runs) == 1:
            frame: pd.DataFrame = getattr(self.runs[0], table)
            return frame
        frames: list[pd.DataFrame] = []
        for run in self.runs:
            frame = getattr(run, table).copy()
            frame.insert(0, "run", run.index)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)


class TemporaryFolder:
    """A folder that is deleted when nothing refers to this object any more."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="weft-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def read_provenance(folder: Path) -> Provenance:
    """What ``run.json`` of a results folder holds."""
    provenance: Provenance = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    return provenance


def verdicts(summary: Summary) -> pd.DataFrame:
    """The expectations of all runs of a summary as a table."""
    keys = ["source", "metric", "unit", "kind", "paper", "at_least", "at_most", "measured", "ci95", "within", "ok", "verdict"]
    keys += ["known", "cause"]
    rows = [[i, *(v.get(key) for key in keys)] for i, run in enumerate(summary["runs"]) for v in run["expect"]]
    frame = pd.DataFrame(rows, columns=["run", *keys])
    numbers = dict.fromkeys(["paper", "at_least", "at_most", "measured", "ci95"], "float64")
    return frame.astype({"run": "int64", **numbers, "ok": "bool", "known": "bool"})
