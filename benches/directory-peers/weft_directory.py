"""Weft's own benchmark, which starts its servers and etcd itself."""

from __future__ import annotations

from collections.abc import Iterator

from machine import BATCH, BATCHES, OUTSTANDING, Bench, Row, failover_row, say


def lookups(bench: Bench) -> Iterator[Row]:
    """Random keys of all that are there."""
    say(f"Weft: lookups among {bench.entries} mappings")
    cases = bench.weft_cases("lookups", "--mappings", str(bench.entries), "--keys", "1", "--keys", str(BATCH))
    for keys, name in ((1, "one key a request"), (BATCH, f"{BATCH} keys a request")):
        case = cases[f"lookups-{keys}-closed"]
        cpu = case["server_cpu_us_per_request"] / keys
        yield Row(
            "lookups", "Weft", name, case["keys_per_s"], case["p99_us"] / 1e3, cpu, "UDP; tags, policy, each answer verified"
        )
    yield Row("memory", "Weft", "server", cases["memory"]["server_rss_bytes"])


def updates(bench: Bench) -> Iterator[Row]:
    """Durable updates, answered when they are on the disk."""
    say("Weft: updates")
    for store, name in (("embedded", "one server"), ("etcd", "three servers, three members of etcd")):
        cases = bench.weft_cases("updates", "--store", store, "--mappings", "100000")
        for keys, wording, case in (
            (1, "one key", f"closed-{OUTSTANDING}"),
            (BATCH, f"{BATCH} keys", f"closed-{BATCHES}-of-{BATCH}"),
        ):
            found = cases[f"updates-{store}-{case}"]
            cpu = found["server_cpu_us_per_request"] / keys
            yield Row("updates", "Weft", f"{name}, {wording} an update", found["keys_per_s"], found["p99_us"] / 1e3, cpu)


def failover(bench: Bench) -> Iterator[Row]:
    """The leader of the store is killed."""
    say(f"Weft: failover, {bench.repeat} times")
    gaps, slowest = [], []
    for _ in range(bench.repeat):
        cases = bench.weft_cases("failover", "--store", "etcd", "--mappings", "100000")
        gaps.append(cases["failover-store-leader-killed-updates"]["longest_gap_s"])
        slowest.append(cases["failover-store-leader-killed-lookups"]["p99_us"] / 1e3)
    yield failover_row("Weft", "the store's leader is killed", gaps, f"lookups go on, p99 at most {max(slowest):.1f} ms")
