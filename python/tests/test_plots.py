"""weft.plots: what is drawn, not how it looks."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import weft
from weft import plots


@pytest.fixture
def result(sweep: dict[str, Any]) -> weft.Result:
    return weft.run(sweep)


def test_throughput(result: weft.Result) -> None:
    ax = plots.throughput(result)
    solid = [line for line in ax.lines if line.get_linestyle() == "-"]
    assert len(solid) == 2
    peak = max(np.nanmax(np.asarray(line.get_ydata(), float)) for line in solid)
    assert 1 < peak <= 16.001
    assert ax.get_title() == result.title
    plt.close("all")


def test_fct_cdf(result: weft.Result) -> None:
    ax = plots.fct_cdf(result)
    assert len(ax.lines) == 2
    assert ax.get_legend() is not None
    plt.close("all")


def test_bars_on_given_axes(result: weft.Result) -> None:
    _, ax = plt.subplots()
    assert plots.bars(result, "optimal_fraction", ax=ax) is ax
    heights = [patch.get_height() for patch in ax.patches]  # type: ignore[attr-defined]
    assert heights == pytest.approx(result.metrics["optimal_fraction"].tolist())
    plt.close("all")
