"""weft.run: results, overrides, folders, determinism."""

import gc
import json
import pathlib
import signal
import subprocess
import sys
import textwrap
import threading
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pandas.api import types

import weft

FLOWS = ["id", "src", "dst", "start_s", "end_s", "bytes", "goodput_bps", "path"]
LINKS = ["id", "from", "to", "capacity_bps", "bytes"]
SERIES = ["t_s", "link", "utilisation"]
THROUGHPUT = ["t_s", "delivered_bytes", "active_flows", "nic_bound_bps"]


def toml(scenario: dict[str, Any]) -> str:
    """A scenario of one level of tables as TOML; JSON's scalars and lists are TOML's."""
    lines = [f"{k} = {json.dumps(v)}" for k, v in scenario.items() if not isinstance(v, dict)]
    for section, table in scenario.items():
        if isinstance(table, dict):
            lines += [f"[{section}]", *(f'"{k}" = {json.dumps(v)}' for k, v in table.items())]
    return "\n".join(lines) + "\n"


def files(folder: pathlib.Path) -> dict[str, bytes]:
    """All that must not change from one run to the next: only `summary.json` holds wall-clock figures."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "summary.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_tables_of_one_run(stride: dict[str, Any]) -> None:
    result = weft.run(stride)
    assert result.title == stride["title"]
    assert len(result.runs) == 1
    assert result.report.read_text().lstrip().lower().startswith("<!doctype html>")
    assert result.summary == json.loads((result.out / "summary.json").read_text())

    flows = result.flows
    assert list(flows.columns)[: len(FLOWS)] == FLOWS
    assert flows["id"].tolist() == list(range(16))
    assert flows["src"].tolist() == list(range(16))
    assert flows["dst"].tolist() == [(host + 4) % 16 for host in range(16)]
    assert (flows["bytes"] == 10_000_000).all()
    assert (flows["end_s"] > flows["start_s"]).all()
    assert types.is_unsigned_integer_dtype(flows["id"])
    assert flows["goodput_bps"].dtype == np.float64

    links = result.links
    assert list(links.columns) == LINKS
    assert len(links) == 96
    assert list(result.link_series.columns) == SERIES
    assert list(result.throughput.columns) == THROUGHPUT
    assert result.throughput["delivered_bytes"].iloc[-1] == pytest.approx(160e6)


def test_paths_lead_from_source_to_destination(stride: dict[str, Any]) -> None:
    result = weft.run(stride)
    fabric = weft.fabric("fat-tree", k=4)
    hosts = fabric.hosts["name"].to_numpy()
    begins, ends = result.links["from"].to_numpy(), result.links["to"].to_numpy()
    for src, dst, path in zip(*(result.flows[column] for column in ("src", "dst", "path")), strict=True):
        assert begins[path[0]] == hosts[src]
        assert ends[path[-1]] == hosts[dst]
        assert (ends[path[:-1]] == begins[path[1:]]).all()


def test_goodput_is_the_max_min_rate(stride: dict[str, Any]) -> None:
    """Endless flows on paths that never change have the rates of `weft.max_min`."""
    stride["traffic"]["size"] = "inf"
    stride["world"]["duration"] = "1s"
    result = weft.run(stride)
    rates = weft.max_min(result.flows["path"], result.links["capacity_bps"])
    np.testing.assert_allclose(result.flows["goodput_bps"], rates, rtol=1e-6)


def test_unfinished_flows_have_no_end(stride: dict[str, Any]) -> None:
    stride["traffic"]["size"] = "inf"
    result = weft.run(stride, world__duration="1s")
    assert result.flows["end_s"].isna().all()


def test_sweep(sweep: dict[str, Any]) -> None:
    result = weft.run(sweep)
    assert [run.set for run in result.runs] == [{"control.scheduler": "none"}, {"control.scheduler": "first-fit"}]
    assert list(result.flows.columns)[: len(FLOWS) + 1] == ["run", *FLOWS]
    assert list(result.links.columns) == ["run", *LINKS]
    assert list(result.link_series.columns) == ["run", *SERIES]
    assert list(result.throughput.columns) == ["run", *THROUGHPUT]
    for run in result.runs:
        own = result.flows[result.flows["run"] == run.index].drop(columns="run").reset_index(drop=True)
        pd.testing.assert_frame_equal(own, run.flows)
        assert run.folder == result.out / f"{run.index:03}"
    metrics = result.metrics
    assert metrics.index.tolist() == [0, 1]
    assert metrics["control.scheduler"].tolist() == ["none", "first-fit"]
    assert metrics["seed"].tolist() == [1, 1]
    assert metrics.loc[1, "goodput_bps"] == result.runs[1].metrics["goodput_bps"]


def test_file_and_dict_are_the_same(stride: dict[str, Any], tmp_path: pathlib.Path) -> None:
    path = tmp_path / "stride.toml"
    path.write_text(toml(stride))
    weft.run(str(path), out=tmp_path / "file")
    weft.run(stride, out=tmp_path / "dict")
    from_file, from_dict = files(tmp_path / "file"), files(tmp_path / "dict")
    # run.json names the command, and so the file.
    origins = [json.loads(written.pop("run.json")) for written in (from_file, from_dict)]
    assert origins[0].pop("command") != origins[1].pop("command")
    assert origins[0] == origins[1]
    assert from_file == from_dict != {}


def test_same_bytes_for_any_number_of_threads(sweep: dict[str, Any], tmp_path: pathlib.Path) -> None:
    sweep["sweep"]["world.seed"] = [1, 2, 3]
    sweep["traffic"] = {"pattern": "random", "size": "1MB", "flows_per_host": 4}
    one = weft.run(sweep, out=tmp_path / "one", threads=1)
    two = weft.run(sweep, out=tmp_path / "two", threads=2)
    assert len(one.runs) == len(two.runs) == 6
    assert files(one.out) == files(two.out) != {}


def test_overrides(stride: dict[str, Any]) -> None:
    def hosts(result: weft.Result) -> int:
        return len(result.flows)

    assert hosts(weft.run(stride, fabric__k=6)) == 54
    assert hosts(weft.run(stride, set={"fabric.k": 6})) == 54
    assert hosts(weft.run(stride, set={"fabric.k": 8}, fabric__k=np.int64(6))) == 54
    assert weft.run(stride, seed=7).runs[0].seed == 7
    assert weft.run(stride, world__seed=7).runs[0].seed == 7
    assert weft.run(stride, title="Another").title == "Another"
    assert hosts(weft.run(stride, fabric={"kind": "switch", "hosts": 5})) == 5


def test_an_override_narrows_a_sweep(sweep: dict[str, Any]) -> None:
    result = weft.run(sweep, control__scheduler="first-fit")
    assert len(result.runs) == 1
    assert result.runs[0].set == {}


def test_notes(sweep: dict[str, Any]) -> None:
    result = weft.run(sweep, control__period="5s")
    assert result.runs[0].notes == []
    [note] = result.runs[1].notes
    assert note.startswith("the run scheduler=first-fit: the scheduler never ran")
    assert result.notes == [note]


def test_forms(stride: dict[str, Any]) -> None:
    scenario = stride | {"quick": {"fabric": {"k": 2}}, "full": {"fabric": {"k": 6}}}
    scenario["traffic"] = {"pattern": "bijection", "size": "1MB"}
    assert len(weft.run(scenario).flows) == 16
    assert len(weft.run(scenario, quick=True).flows) == 2
    assert len(weft.run(scenario, full=True).flows) == 54
    with pytest.raises(TypeError, match="not both"):
        weft.run(scenario, quick=True, full=True)


def test_temporary_folder_lives_as_long_as_the_result(stride: dict[str, Any]) -> None:
    result = weft.run(stride)
    run, folder = result.runs[0], result.out
    del result
    gc.collect()
    assert len(run.flows) == 16
    assert folder.is_dir()
    del run
    gc.collect()
    assert not folder.exists()


def test_out_is_kept_and_replaced(stride: dict[str, Any], tmp_path: pathlib.Path) -> None:
    out = tmp_path / "results"
    weft.run(stride, out=out)
    weft.run(stride, out=str(out), title="Again")
    assert json.loads((out / "summary.json").read_text())["title"] == "Again"
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_folder_that_is_not_ours_is_refused(stride: dict[str, Any], tmp_path: pathlib.Path) -> None:
    (tmp_path / "precious").write_text("data")
    with pytest.raises(weft.WeftError, match="already exists"):
        weft.run(stride, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize(
    ("change", "place", "remedy"),
    [
        ({"fabric.k": 5}, "fabric.k", "even"),
        ({"fabric.kk": 4}, "fabric.kk", "valid values"),
        ({"fabric.kind": "fat-trie"}, "fabric.kind", "did you mean `fat-tree`"),
        ({"fabric.link": 10}, "fabric.link", "10Gbps"),
        ({"traffic.stride": 0}, "traffic.stride", ""),
        ({"traffic.size": "-1MB"}, "traffic.size", ""),
        ({"traffic.pattern": "shufle"}, "traffic.pattern", "did you mean `shuffle`"),
        ({"control.scheduler": "best"}, "control.scheduler", "first-fit"),
        ({"world.duration": "0s"}, "world.duration", "60s"),
    ],
)
def test_errors_name_key_and_remedy(
    stride: dict[str, Any], tmp_path: pathlib.Path, change: dict[str, Any], place: str, remedy: str
) -> None:
    """As an override, in a dict and in a file."""
    for section, value in change.items():
        head, key = section.split(".")
        wrong = stride | {head: stride.get(head, {}) | {key: value}}
    path = tmp_path / "wrong.toml"
    path.write_text(toml(wrong))
    line = 1 + next(i for i, text in enumerate(path.read_text().splitlines()) if text.startswith(f'"{key}" ='))

    for scenario, settings, where in ((stride, change, place), (wrong, {}, place), (path, {}, f"{path}:{line}")):
        with pytest.raises(weft.WeftError) as caught:
            weft.run(scenario, set=settings, out=tmp_path / "out")
        assert caught.value.message.startswith(f"{where}: ")
        assert caught.value.help is not None
        assert remedy in caught.value.help
        assert caught.value.help in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["wrong.toml"]


@pytest.mark.parametrize(
    ("table", "place"),
    [
        ({"sweep": {"control.scheduler": ["none", "best"]}}, "sweep.control.scheduler: "),
        ({"event": [{"at": "1s", "fail": "link h0-h1"}]}, "event.fail: "),
        ({"expect": [{"source": "here", "metric": "goodput"}]}, "expect.metric: "),
        ({"traffic": {}}, "traffic: "),
    ],
)
def test_errors_in_other_tables_of_a_dict(stride: dict[str, Any], table: dict[str, Any], place: str) -> None:
    with pytest.raises(weft.WeftError) as caught:
        weft.run(stride | table)
    assert caught.value.message.startswith(place)


def test_files_that_cannot_be_read(tmp_path: pathlib.Path) -> None:
    with pytest.raises(weft.WeftError, match=r"nowhere\.toml"):
        weft.run(tmp_path / "nowhere.toml")
    (tmp_path / "broken.toml").write_text("title = \n")
    with pytest.raises(weft.WeftError, match=r"broken\.toml:1"):
        weft.run(tmp_path / "broken.toml")


@pytest.mark.parametrize("value", [None, float("inf"), float("nan"), b"1", object(), {1: 2}, 2**80])
def test_values_that_toml_cannot_hold(stride: dict[str, Any], value: object) -> None:
    with pytest.raises(weft.WeftError):
        weft.run(stride, fabric__k=value)
    with pytest.raises(weft.WeftError):
        weft.run(stride | {"fabric": {"kind": "fat-tree", "k": value}})


def test_settings_need_a_section(stride: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="control__scheduler"):
        weft.run(stride, scheduler="annealing")


def test_threads_must_be_positive(stride: dict[str, Any]) -> None:
    with pytest.raises(weft.WeftError, match="0 threads"):
        weft.run(stride, threads=0)
    with pytest.raises((OverflowError, TypeError)):
        weft.run(stride, threads=-1)


def test_other_threads_run_at_the_same_time(stride: dict[str, Any]) -> None:
    """The interpreter lock is released: two runs at a time give what each gives alone."""
    alone = weft.run(stride).metrics["goodput_bps"].tolist()
    results: list[list[float]] = []
    threads = [
        threading.Thread(target=lambda: results.append(weft.run(stride).metrics["goodput_bps"].tolist())) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [alone, alone]


#: Worlds in which an hour takes hours: events of the loop one after the other, ticks and packets within a step of it.
LONG: dict[str, dict[str, Any]] = {
    "max-min": {
        "traffic": {"pattern": "random", "size": "1MB", "arrivals": "poisson", "load": 0.5},
        "world": {"rates": "max-min"},
    },
    "aimd": {"traffic": {"pattern": "bijection", "size": "inf"}, "world": {"rates": "aimd"}},
    "packet": {"traffic": {"pattern": "bijection", "size": "inf"}, "world": {"kind": "packet"}},
}


@pytest.mark.parametrize("kind", LONG)
def test_ctrl_c_ends_a_run_and_leaves_nothing(tmp_path: pathlib.Path, kind: str) -> None:
    # Background jobs of a shell ignore SIGINT, and so do their children: this one must not.
    program = """
        import json
        import signal
        import sys
        import weft

        signal.signal(signal.SIGINT, signal.default_int_handler)
        weft.run(json.loads(sys.argv[1]), out=sys.argv[2])
    """
    scenario: dict[str, Any] = {"fabric": {"kind": "fat-tree", "k": 8}, **LONG[kind]}
    scenario["world"] = scenario["world"] | {"duration": "36000s"}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), json.dumps(scenario), str(tmp_path / "out")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            # The run has begun when its results have a folder in the making.
            deadline = time.monotonic() + 60
            while process.poll() is None and not list(tmp_path.iterdir()) and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert "panicked" not in errors
    assert list(tmp_path.iterdir()) == []


def test_check(stride: dict[str, Any]) -> None:
    expect = {"source": "our requirement", "metric": "goodput_bps"}
    scenario = stride | {
        "quick": {"fabric": {"k": 2}},
        "traffic": {"pattern": "bijection", "size": "1MB"},
        "expect": [
            expect | {"value": 2e9},
            expect | {"at_least": 1e12, "own": True, "known_miss": {"between": [1e9, 1e11], "cause": "no such network"}},
        ],
    }
    check = weft.check(scenario)
    assert check.ok
    verdicts = check.verdicts
    assert verdicts["ok"].tolist() == [True, False]
    assert verdicts["known"].tolist() == [False, True]
    assert verdicts["kind"].tolist() == ["published", "own"]
    assert verdicts["paper"].iloc[0] == 2e9
    assert verdicts["at_least"].iloc[1] == 1e12
    assert verdicts["cause"].iloc[1] == "no such network"
    assert verdicts["measured"].iloc[0] == pytest.approx(2e9, rel=0.1)

    scenario["expect"][1].pop("known_miss")
    assert not weft.check(scenario).ok
    assert weft.run(scenario, quick=True).verdicts["ok"].tolist() == [True, False]


def test_seeds(stride: dict[str, Any]) -> None:
    scenario = stride | {
        "traffic": {"pattern": "random", "flows": 32, "size": "1MB"},
        "expect": [{"source": "own guard", "own": True, "metric": "goodput_bps", "at_least": 1e6}],
    }
    result = weft.run(scenario, world__seeds=3)
    run = result.runs[0]
    assert run.per_seed["seed"].tolist() == [1, 2, 3]
    assert run.per_seed["goodput_bps"].mean() == pytest.approx(run.metrics["goodput_bps"])
    assert 0 < run.ci95["goodput_bps"] == pytest.approx(result.verdicts["ci95"].iloc[0])
    single = weft.run(scenario, seed=2).runs[0]
    assert single.metrics["goodput_bps"] == run.per_seed["goodput_bps"].iloc[1]
    assert (single.ci95, len(single.per_seed)) == ({}, 0)


def test_packets_have_columns_and_traces_of_their_own(stride: dict[str, Any]) -> None:
    stride["world"] = {"kind": "packet", "switch_queue": "15kB"}
    stride["traffic"] |= {"pattern": "incast", "receiver": 0, "size": "1MB"}
    del stride["traffic"]["stride"]
    plain = weft.run(stride)
    assert len(plain.queues) == len(plain.windows) == 0
    assert plain.queues.dtypes.equals(plain.runs[0].queues.dtypes)
    assert plain.runs[0].pcap is None

    stride["trace"] = {"queues": ["edge0-h0"], "windows": [0, 3], "every": "2ms", "pcap": "edge0-h0", "pcap_packets": 100}
    result = weft.run(stride)
    metrics = result.summary["runs"][0]["metrics"]
    assert list(result.flows.columns) == [*FLOWS, "reordered", "retransmits"]
    assert list(result.links.columns) == [*LINKS, "drops"]
    assert result.flows["retransmits"].sum() == metrics["retransmits"] > 0
    assert result.links["drops"].sum() == metrics["drops"] > 0
    assert (result.flows["reordered"] == 0).all(), "each flow keeps to its path"
    # Looking changes nothing.
    pd.testing.assert_frame_equal(result.flows, plain.flows)

    queues, windows = result.queues, result.windows
    assert list(queues.columns) == ["t_s", "link", "bytes", "drops"]
    assert (queues["bytes"] <= 15_000).all() and queues["bytes"].max() > 7_500
    assert queues["drops"].is_monotonic_increasing
    assert list(windows.columns) == ["t_s", "flow", "subflow", "cwnd_segments", "srtt_s"]
    assert set(windows["flow"]) == {0, 3}
    assert queues.dtypes.equals(plain.queues.dtypes) and windows.dtypes.equals(plain.windows.dtypes)
    assert result.runs[0].pcap is not None and result.runs[0].pcap.read_bytes()[:4] == bytes.fromhex("4d3cb2a1")


def test_requests_have_latencies(stride: dict[str, Any]) -> None:
    stride["traffic"] = {"pattern": "memcache", "servers": [0], "clients": ["4-7"], "requests_per_s": 1000}
    stride["world"] = {"kind": "packet", "duration": "50ms", "warmup": "10ms"}
    metrics = weft.run(stride).runs[0].metrics
    assert metrics["requests_per_s"] == pytest.approx(4000, rel=0.05)
    assert 0 < metrics["latency_p50_s"] <= metrics["latency_mean_s"] * 1.5


def test_services_have_metrics_of_their_own(stride: dict[str, Any]) -> None:
    one = {"name": "one", "pattern": "bijection", "hosts": ["0-3", "8-11"], "size": "5MB"}
    two = {"name": "two", "pattern": "random", "hosts": [4, 5, 6, 7], "size": "1MB", "start": "1ms", "start_every": "2ms"}
    result = weft.run(stride | {"traffic": [one, two]}, set={"traffic[1].size": "2MB"})
    flows = result.flows
    assert flows.groupby("service")["bytes"].sum().to_dict() == {"one": 40_000_000, "two": 8_000_000}
    starts = flows[flows["service"] == "two"].sort_values("src")["start_s"]
    assert starts.tolist() == pytest.approx([0.001, 0.003, 0.005, 0.007])
    metrics = result.runs[0].metrics
    assert metrics["flows.one"] == 8 and metrics["flows.two"] == 4 and metrics["flows"] == 12
    assert metrics["goodput_bps.one"] > metrics["goodput_bps.two"] > 0
