"""weft.fabric: the tables of every kind."""

import pathlib
from typing import Any

import numpy as np
import pytest

import weft


def test_fat_tree() -> None:
    fabric = weft.fabric("fat-tree", k=4, link="10Gbps", delay="2us")
    assert "fat-tree" in fabric.title
    nodes, links, hosts = fabric.nodes, fabric.links, fabric.hosts

    assert list(nodes.columns) == ["id", "name", "tier", "pod", "kind"]
    assert nodes["id"].tolist() == list(range(36))
    assert nodes["kind"].value_counts().to_dict() == {"host": 16, "switch": 20}
    assert nodes["tier"].value_counts().to_dict() == {0: 16, 1: 8, 2: 8, 3: 4}
    assert nodes["pod"].isna().sum() == 4
    assert nodes["name"].is_unique

    assert list(links.columns) == ["id", "from", "to", "capacity_bps", "delay_s"]
    assert links["id"].tolist() == list(range(96))
    assert (links["capacity_bps"] == 10_000_000_000).all()
    np.testing.assert_allclose(links["delay_s"], 2e-6)
    assert (links["from"].to_numpy()[::2] == links["to"].to_numpy()[1::2]).all()
    assert set(links["from"]) == set(nodes["name"])

    assert list(hosts.columns) == ["id", "name", "pod", "rack"]
    assert hosts["pod"].tolist() == [i // 4 for i in range(16)]
    assert hosts["rack"].tolist() == [i // 2 for i in range(16)]

    assert fabric.metrics["hosts"] == 16
    assert fabric.metrics["switches"] == 20
    assert fabric.metrics["cables"] == 48


@pytest.mark.parametrize(
    ("kind", "params", "hosts"),
    [
        ("switch", {"hosts": 7}, 7),
        ("clique", {"switches": 4, "hosts_per_switch": 3}, 12),
        ("clos", {"agg_ports": 4, "int_ports": 4, "hosts_per_tor": 5}, 20),
        ("clos", {"intermediates": 3, "aggregations": 3, "tors": 4, "hosts_per_tor": 20}, 80),
        ("tree", {"tors": 4, "hosts_per_tor": 10, "tor_oversubscription": 5}, 40),
        ("fat-tree", {"levels": 2, "edges": 4, "cores": 2, "hosts_per_edge": 2}, 8),
        ("subways", {"type": 1}, 360),
        ("subways", {"type": "2D", "speeds": ["10Gbps", "25Gbps"]}, 360),
    ],
)
def test_kinds(kind: str, params: dict[str, Any], hosts: int) -> None:
    fabric = weft.fabric(kind, **params)
    assert len(fabric.hosts) == hosts
    assert fabric.nodes["id"].tolist() == list(range(len(fabric.nodes)))


def test_subways() -> None:
    single = weft.fabric("subways", type=1, ports=1, servers_per_rack=30, racks_per_cluster=6, agg_oversubscription=3)
    double = weft.fabric("subways", type="1LB")
    assert len(double.hosts) == len(single.hosts) == 360
    assert double.hosts["rack"].tolist() == [i // 15 for i in range(360)]
    plan = single.upgrade_to(double)
    assert plan["server_cables"] == {"kept": 360, "added": 360, "moved": 0, "replaced": 0, "removed": 0}
    survey = double.cabling()
    assert survey["servers_on_copper"]
    assert survey["longest_server_run_m"] == pytest.approx(2.2, abs=0.1)
    assert double.cabling(arrangement="row", slack=0)["longest_server_run_m"] < 2.0
    with pytest.raises(weft.WeftError, match="arrangement"):
        double.cabling(arrangement="circle")
    with pytest.raises(weft.WeftError, match="Subways"):
        weft.fabric("switch", hosts=2).cabling()
    with pytest.raises(weft.WeftError, match="360 are not 2"):
        double.upgrade_to(weft.fabric("subways", type=0, servers_per_rack=1, racks_per_cluster=1, aggregations=1, agg_uplinks=1))


def test_of_a_scenario_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "scenario.toml"
    path.write_text('[fabric]\nkind = "fat-tree"\nk = 4\n')
    assert len(weft.fabric(path).hosts) == 16
    assert len(weft.fabric(str(path), k=6).hosts) == 54


def test_export_and_import(tmp_path: pathlib.Path) -> None:
    fabric = weft.fabric("clique", switches=3, hosts_per_switch=2)
    path = tmp_path / "clique.weft"
    path.write_text(fabric.export("native"))
    again = weft.fabric("file", path=path)
    assert again.nodes.equals(fabric.nodes)
    assert again.links.equals(fabric.links)
    assert fabric.export("dot").startswith(("graph", "digraph", "//"))


def test_repr() -> None:
    assert repr(weft.fabric("switch", hosts=2)).startswith("<weft.Fabric '")


@pytest.mark.parametrize(
    ("kind", "params", "message", "remedy"),
    [
        ("fat-tree", {"k": 5}, "fabric.k: ", "even"),
        ("fat-tree", {}, "fabric", "k"),
        ("fat-tree", {"k": 4, "ports": 4}, "fabric.ports: ", "valid values"),
        ("fat-tree", {"k": "4"}, "fabric.k: ", "number"),
        ("fat-tree", {"k": None}, "fabric.k: ", "leave"),
        ("subways", {"type": 1, "loop": 5}, "fabric.loop: ", "2, 3, 4, 6, 12"),
        ("fat-trie", {"k": 4}, "fabric.kind: ", "did you mean `fat-tree`"),
        ("file", {"path": "/nowhere/fabric.topo"}, "fabric.path: ", ""),
    ],
)
def test_errors(kind: str, params: dict[str, Any], message: str, remedy: str) -> None:
    with pytest.raises(weft.WeftError) as caught:
        weft.fabric(kind, **params)
    assert caught.value.message.startswith(message)
    assert remedy in (caught.value.help or "")


def test_unknown_export() -> None:
    with pytest.raises(weft.WeftError, match="did you mean `dot`"):
        weft.fabric("switch", hosts=2).export("dott")


def test_a_bundled_scenario_has_a_fabric() -> None:
    """`@NAME` is a scenario that Weft ships, as for `weft.run`."""
    assert weft.fabric("@vl2/figure9").metrics["hosts"] == 80
