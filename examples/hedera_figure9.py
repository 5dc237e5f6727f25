"""Draws Hedera's figure 9, simulated: sixteen hosts, the patterns of section 6.1, and who places the flows.

    python examples/hedera_figure9.py [--quick] [figure9.png]

The runs are those of `scenarios/hedera/figure9.toml`; `--quick` takes the short form that `weft check` runs.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

import weft

SCENARIO = Path(__file__).resolve().parents[1] / "scenarios/hedera/figure9.toml"
SCHEDULERS = {
    "none": "ECMP by destination",
    "first-fit": "Global First Fit",
    "annealing": "Simulated Annealing",
    "edge-coloring": "edge colouring (not in the paper)",
}


def main() -> None:
    """Runs the sweep and writes the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 simulated seconds instead of 60")
    parser.add_argument("figure", nargs="?", default="figure9.png", type=Path)
    arguments = parser.parse_args()

    result = weft.run(SCENARIO, quick=arguments.quick)
    rows = [
        {
            "pattern": name_of({key: value for key, value in run.set.items() if key != "control.scheduler"}),
            "scheduler": SCHEDULERS[run.set["control.scheduler"]],
            "goodput": run.metrics["goodput_bps"] / 1e9,
            "best": run.metrics["goodput_bps"] / run.metrics["optimal_fraction"] / 1e9,
        }
        for run in result.runs
    ]
    draw(pd.DataFrame(rows), arguments.figure)
    print(f"figure: {arguments.figure}")


def name_of(settings: dict[str, Any]) -> str:
    """The pattern in a word or two: `stride 4`, `random x3`."""
    values = {key.rsplit(".", 1)[-1]: value for key, value in settings.items()}
    pattern = str(values["pattern"])
    match pattern:
        case "stride":
            return f"stride {values['stride']}"
        case "staggered":
            return f"staggered {values['edge_p']}, {values['pod_p']}"
    flows = values.get("flows_per_host", 1)
    return pattern if flows == 1 else f"{pattern} x{flows}"


def draw(runs: pd.DataFrame, path: Path) -> None:
    """Groups of bars, a group a pattern and a bar a scheduler, below the non-blocking switch."""
    patterns = list(dict.fromkeys(runs["pattern"]))
    figure, ax = plt.subplots(figsize=(11, 4.5), layout="constrained")
    width = 0.8 / len(SCHEDULERS)
    for i, scheduler in enumerate(SCHEDULERS.values()):
        goodput = runs[runs["scheduler"] == scheduler].set_index("pattern")["goodput"]
        ax.bar([p + (i - 1.5) * width for p in range(len(patterns))], goodput[patterns], width, label=scheduler)
    best = runs.groupby("pattern")["best"].max()
    for i, pattern in enumerate(patterns):
        ax.hlines(best[pattern], i - 0.45, i + 0.45, "black", label="non-blocking switch" if i == 0 else "")
    ax.set_xticks(range(len(patterns)), patterns, rotation=25, ha="right")
    ax.set(ylabel="goodput (Gbps)", title="Hedera figure 9, simulated: 16 hosts")
    ax.legend(ncols=5, fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.25))
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
