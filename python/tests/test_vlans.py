"""`weft.spain`."""

import pytest

import weft


def two_level(**fabric: int) -> dict[str, object]:
    return {"fabric": {"kind": "fat-tree", "levels": 2, **fabric}}


def test_a_vlan_a_core() -> None:
    plan = weft.spain(two_level(edges=4, cores=3, hosts_per_edge=1))
    assert (plan.vlans, plan.bound) == (3, 3)
    ports = plan.ports
    assert list(ports.columns) == ["switch", "port", "to", "vlans"]
    assert list(ports[ports["switch"] == "edge0"]["vlans"]) == ["1-3,4093-4094", "1,4094", "2,4093", "3"]


def test_settings_and_errors() -> None:
    assert weft.spain(two_level(edges=4, cores=3, hosts_per_edge=1), control__spain_paths=2).vlans == 2
    with pytest.raises(weft.WeftError, match="spain_paths"):
        weft.spain(two_level(edges=4, cores=3, hosts_per_edge=1), control__spain_paths=0)
