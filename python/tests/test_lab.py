"""Runs on real packets: as root, on Linux."""

import os
from pathlib import Path

import pytest

import weft

SCENARIO = {
    "title": "Four hosts on real packets",
    "fabric": {"kind": "tree", "tors": 2, "hosts_per_tor": 2, "tor_oversubscription": 1, "link": "1Gbps"},
    "traffic": {"pattern": "stride", "stride": 2, "size": "500kB"},
    "world": {"kind": "flow", "scale": 0.02, "routing": "static", "ideal": False},
}


def need_root() -> None:
    if os.geteuid() != 0:
        assert "CI" not in os.environ, "labs are tested as root"
        pytest.skip("a lab needs root")


def test_a_scenario_runs_on_real_packets(tmp_path: Path) -> None:
    need_root()
    simulated = weft.run(SCENARIO).metrics.loc[0]
    lab = weft.run(SCENARIO, world="lab", out=tmp_path / "lab")
    measured = lab.metrics.loc[0]
    assert measured["flows_finished"] == simulated["flows_finished"] == 4
    # 500 kB at 20 Mbps take 0.2 s.
    assert 0.2 <= measured["completion_s"] <= 5
    assert (lab.flows["bytes"] == 500_000).all()


def test_agents_that_are_not_there_are_named() -> None:
    need_root()
    vl2 = {**SCENARIO, "overlay": {"kind": "vl2"}, "control": {"routing": "vlb"}}
    path = os.environ["PATH"]
    os.environ["PATH"] = "/nowhere"
    try:
        with pytest.raises(weft.WeftError, match="weft-agent"):
            weft.run(vl2, world="lab")
    finally:
        os.environ["PATH"] = path
