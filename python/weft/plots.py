"""Figures of a result, with Matplotlib (`pip install matplotlib`). Each call draws on `ax`, or on new axes, and returns them."""

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from weft.results import Result, Run


def throughput(result: "Result", ax: "Axes | None" = None) -> "Axes":
    """Goodput of the whole network over time, one line per run, in Gbps; the dashed line is what the NICs could carry."""
    ax = ax or _new_axes()
    for run in result.runs:
        table = run.throughput
        time = table["t_s"].to_numpy()
        rate = np.diff(table["delivered_bytes"].to_numpy()) * 8 / np.diff(time)
        (line,) = ax.step(time, np.append(rate, rate[-1:]) / 1e9, where="post", label=label(run))
        ax.step(time, table["nic_bound_bps"] / 1e9, where="post", linestyle="--", linewidth=0.8, color=line.get_color())
    ax.set(xlabel="time (s)", ylabel="goodput (Gbps)", title=result.title)
    ax.set_ylim(bottom=0)
    return _with_legend(ax, result)


def fct_cdf(result: "Result", ax: "Axes | None" = None) -> "Axes":
    """Distribution of the completion times of the flows that finished, one line per run; time on a logarithmic axis."""
    ax = ax or _new_axes()
    for run in result.runs:
        times = (run.flows["end_s"] - run.flows["start_s"]).dropna().to_numpy()
        if len(times):
            ax.ecdf(times, label=label(run))
    ax.set(xlabel="completion time (s)", ylabel="fraction of the flows", xscale="log", title=result.title)
    return _with_legend(ax, result)


def bars(result: "Result", metric: str = "optimal_fraction", ax: "Axes | None" = None) -> "Axes":
    """One metric, one bar per run; for a fraction the dashed line is the optimum, 1."""
    ax = ax or _new_axes()
    values = [run.metrics.get(metric, np.nan) for run in result.runs]
    ax.bar([label(run) for run in result.runs], values)
    if metric.endswith("_fraction"):
        ax.axhline(1, linestyle="--", linewidth=0.8, color="black")
    ax.set(ylabel=metric, title=result.title)
    ax.tick_params(axis="x", rotation=30)
    return ax


def label(run: "Run") -> str:
    """The swept settings of a run on one line: ``scheduler=annealing k=16``."""
    return " ".join(f"{key.rsplit('.', 1)[-1]}={_text(value)}" for key, value in run.set.items())


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _new_axes() -> "Axes":
    return plt.figure(layout="constrained").add_subplot()


def _with_legend(ax: "Axes", result: "Result") -> "Axes":
    if len(result.runs) > 1:
        ax.legend(fontsize="small")
    return ax
