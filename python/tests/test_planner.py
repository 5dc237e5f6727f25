"""``weft.planner``: studies and bills by the program ``weft-planner``."""

import os
import pathlib

import pytest

import weft
from weft import planner

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the built program."""
    folder = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug"
    if not (folder / "weft-planner").exists() or not (folder / "weft").exists():
        assert not os.environ.get("CI"), "the programs are not built: cargo build --workspace --bins"
        pytest.skip("the programs are not built")
    monkeypatch.setenv("WEFT_PLANNER", str(folder / "weft-planner"))


def test_a_study_has_tables_and_a_scenario_that_runs(tmp_path: pathlib.Path) -> None:
    """Four flows between two racks; the emitted scenario delivers them."""
    log = tmp_path / "log.csv"
    log.write_text("src,dst,start,size,end\n0,1,0,1000,1\n0,2,1,2000,2\n2,3,2,3000,3\n3,0,3,4000,4\n")
    racks = tmp_path / "racks.csv"
    racks.write_text("address,rack\n0-1,r0\n2-3,r1\n")
    study = planner.analyze_traffic(log, hosts=racks, interval="1s", emit=tmp_path / "mine.toml", emit_as="flows")
    assert study.summary["totals"]["flows"] == 4
    assert study.matrix.bytes.sum() == 10_000
    assert study.sizes["count"].sum() == 4
    assert set(study.hosts.group) == {"r0", "r1"}
    assert study.clusters.fitting_error.iloc[-1] == 0
    result = weft.run(tmp_path / "mine.toml", out=tmp_path / "run")
    assert result.runs[0].metrics["flows_finished"] == 4
    planner.export_ipfix(tmp_path / "run", tmp_path / "log.ipfix", hosts=tmp_path / "map.csv")
    again = planner.analyze_traffic(tmp_path / "log.ipfix", hosts=tmp_path / "map.csv", interval="1s")
    assert again.summary["flows"] == 4 and again.matrix.bytes.sum() == 10_000
    with pytest.raises(weft.WeftError, match=r"flows\.parquet"):
        planner.export_ipfix(tmp_path, tmp_path / "log.ipfix")


def test_failures_and_costs(tmp_path: pathlib.Path) -> None:
    """A core switch of a fat-tree fails, which no host notices."""
    fabric = tmp_path / "fabric.toml"
    fabric.write_text('title = "t"\n[fabric]\nkind = "fat-tree"\nk = 4\n[traffic]\npattern = "bijection"\nsize = "1MB"\n')
    log = tmp_path / "failures.csv"
    log.write_text("start,end,device,kind,cause\n0,3600,core0,core,power\n")
    report = planner.analyze_failures(log, fabric=fabric)
    assert (report["count"], report["hidden"]["hidden"], report["hidden"]["host_hours_lost"]) == (1, 1, 0)
    bills = planner.cost([fabric], ROOT / "scenarios" / "data" / "prices-illustrative.toml")
    assert bills[0]["servers"] == 16
    assert bills[0]["total"] > 0
    assert bills[0]["total"] == pytest.approx(sum(it["count"] * it["price"] for it in bills[0]["parts"]))


def test_cuts() -> None:
    """An edge switch of Hedera's testbed has two uplinks, or one without a cable."""
    healthy = planner.cuts("@hedera/figure9", pairs=[("edge0", "edge4")])
    assert (healthy["edge_connectivity"]["cables"], healthy["flows"][0]["bps"]) == (2, 2_000_000_000)
    failed = planner.cuts("@hedera/figure9", pairs=[("edge0", "edge4")], without=["edge0-agg0"], halvings=5)
    assert (failed["edge_connectivity"]["cables"], failed["flows"][0]["bps"]) == (1, 1_000_000_000)
    assert failed["bisection"]["halvings"] == 6
    with pytest.raises(weft.WeftError, match="edge9"):
        planner.cuts("@hedera/figure9", pairs=[("edge0", "edge9")])


def test_designs_are_compared(tmp_path: pathlib.Path) -> None:
    """VL2's testbed and a fat-tree of 16 servers, which has no over-subscription."""
    designs = planner.cost(["@vl2/figure9", "@hedera/figure9"], "@data/prices-illustrative", equal="money", out=tmp_path)
    assert [it["servers"] for it in designs] == [80, 16]
    assert designs[1]["throughput"]["p99_bps"] == pytest.approx(1e9)
    assert any(it["on_front"] for it in designs)
    cheapest = min(it["per_server"] for it in designs)
    assert all(it["equal"]["per_server"] == pytest.approx(cheapest) for it in designs)
    assert "<circle" in (tmp_path / "cost.html").read_text()
    with pytest.raises(weft.WeftError, match="2 price lists for 1 scenarios"):
        planner.cost(["@first"], ["@data/prices-illustrative", "@data/prices-illustrative"])


def test_a_design_runs(tmp_path: pathlib.Path) -> None:
    """Every design is a scenario that runs."""
    found = planner.design(64, "10Gbps", budget=60_000, top=3, out=tmp_path)
    assert len(found["designs"]) == 3
    for design in found["designs"]:
        run = weft.run(tmp_path / f"{design['scenario']}.toml").runs[0]
        assert run.metrics["flows_finished"] == design["servers"]
    with pytest.raises(weft.WeftError, match="budget is 5"):
        planner.design(64, "10Gbps", budget=5)


def test_errors_have_place_and_remedy(tmp_path: pathlib.Path) -> None:
    """A line with too few fields."""
    log = tmp_path / "log.csv"
    log.write_text("src,dst,start,size\n0,1,0\n")
    with pytest.raises(weft.WeftError, match="line 2: 3 fields") as error:
        planner.analyze_traffic(log)
    assert error.value.help is not None


def test_routings_and_failures() -> None:
    run = planner.optimum("@vl2/figure9", traffic="uniform")["runs"][0]
    busiest = {routing: of_matrices[0] for routing, of_matrices in run["max_utilisation"].items()}
    assert busiest["vlb"] == pytest.approx(1.0) and busiest["ecmp"] > 1.3
    assert run["adaptive_at_least"][0] <= busiest["adaptive"] <= busiest["oblivious"] <= busiest["vlb"] + 1e-9
    own = planner.optimum("@vl2/figure15")["runs"][0]
    assert own["matrices"] == 864 and own["metrics"]["link_utilisation_max.single"] > 1.5
    study = planner.whatif("@hedera/figure9", fail=["cable"], traffic="stride")
    assert {kind["tier"] for kind in study["kinds"]} == {2, 3}
    assert study["worst"][0]["throughput"] == pytest.approx(0.5)
    with pytest.raises(weft.WeftError):
        planner.whatif("@hedera/figure9", fail=["nothing"])


def test_growth(tmp_path: pathlib.Path) -> None:
    grown = planner.whatif("@data/growth/clos", plan="@data/growth/plan", prices="@data/prices-illustrative")
    assert [step["servers"] for step in grown["steps"]] == [80, 160]
    assert grown["met"] and grown["steps"][1]["lowest"] == pytest.approx(0.5)
    assert grown["steps"][1]["cost"]["difference"] > 0
    plan = tmp_path / "plan.toml"
    plan.write_text('service_level = 0.9\n[[step]]\nname = "racks"\nset = { "fabric.tors" = 8 }\n')
    assert not planner.whatif("@data/growth/clos", plan=plan)["met"]
    plan.write_text("service_level = 0.9\n")
    with pytest.raises(weft.WeftError, match="no step"):
        planner.whatif("@data/growth/clos", plan=plan)


def test_scenarios_of_the_planner_are_checked() -> None:
    found = planner.check(SCENARIOS / "vl2" / "figure3.toml")
    assert found.ok and len(found.verdicts) == 3
    missed = planner.check(SCENARIOS / "vl2" / "figure3.toml", set={"world.seed": 3, "world.duration": "1s"})
    assert (missed.verdicts["verdict"] == "not-comparable").all()
    with pytest.raises(weft.WeftError, match="planner"):
        weft.check(SCENARIOS / "vl2" / "figure3.toml")
