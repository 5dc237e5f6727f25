"""``weft.switches``: configurations of real switches by the program ``weft``."""

import json
import os
import pathlib

import pytest

import weft
from weft import switches

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name the built program."""
    weft_program = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "weft"
    if not weft_program.exists():
        assert not os.environ.get("CI"), "the program is not built: cargo build --bin weft"
        pytest.skip("the program is not built")
    monkeypatch.setenv("WEFT", str(weft_program))


def test_every_switch_of_the_fabric_has_its_files(tmp_path: pathlib.Path) -> None:
    """The ToRs that are asked for are there, and ports are numbered by lanes."""
    report = switches.export("@vl2/lab-first", tmp_path / "out", lanes=2, fabric__tors=3, set={"fabric.tors": 2})
    names = [it["switch"] for it in report["switches"]]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(names)
    assert {"tor0", "tor1", "tor2"} <= set(names) and "tor3" not in names
    ports = json.loads((tmp_path / "out" / "tor0" / "config_db.json").read_text())["PORT"]
    assert {"Ethernet0", "Ethernet2"} <= set(ports)
    switches.export("@vl2/lab-first", tmp_path / "generic", format="generic")
    assert (tmp_path / "generic" / "tor0" / "switch.txt").exists()


def test_netlord_has_edge_switches_and_a_file_for_agents(tmp_path: pathlib.Path) -> None:
    """The last hop of each port to a server, and the VLANs with the switches' numbers."""
    report = switches.export("@netlord/lab-tenants", tmp_path / "out")
    assert report["files"] == ["paths.toml"]
    assert '"02:4e:4c:00:00:02" = "2-3"' in (tmp_path / "out" / "paths.toml").read_text()
    database = json.loads((tmp_path / "out" / "edge0" / "config_db.json").read_text())
    assert set(database["STATIC_ROUTE"]) == {"default|1.0.0.0/8", "default|2.0.0.0/8"}


def test_mistakes_are_errors(tmp_path: pathlib.Path) -> None:
    """A scenario without VL2, a format that is not known and a program that is missing."""
    with pytest.raises(weft.WeftError, match="overlay"):
        switches.export("@first", tmp_path / "out")
    with pytest.raises(weft.WeftError, match="other"):
        switches.export("@vl2/lab-first", tmp_path / "out", format="other")
    assert not (tmp_path / "out").exists()
