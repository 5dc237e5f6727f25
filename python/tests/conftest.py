"""What the tests share."""

from pathlib import Path
from typing import Any

import matplotlib
import pytest

matplotlib.use("Agg")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def stride() -> dict[str, Any]:
    """Sixteen hosts, each of which sends 10 MB out of its pod."""
    return {
        "title": "Stride on a 16-host fat-tree",
        "fabric": {"kind": "fat-tree", "k": 4, "link": "1Gbps"},
        "traffic": {"pattern": "stride", "stride": 4, "size": "10MB"},
        "world": {"kind": "flow", "rates": "max-min", "seed": 1},
    }


@pytest.fixture
def sweep(stride: dict[str, Any]) -> dict[str, Any]:
    """The same with two schedulers."""
    return stride | {
        "control": {"period": "10ms"},
        "sweep": {"control.scheduler": ["none", "first-fit"]},
    }
