"""Weft's own benchmark, which starts its servers and etcd itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

from machine import BATCH, BATCHES, GENERATOR_CORE, OUTSTANDING, SERVER_CORE, Bench, Row, failover_row, say


def cases(bench: Bench, *arguments: str) -> dict[str, dict[str, Any]]:
    """The cases of `weft directory bench` by their names."""
    command = [bench.weft, "bench", *arguments, "--duration", f"{bench.seconds}s", "--json"]
    command += ["--server-core", SERVER_CORE, "--generator-core", GENERATOR_CORE]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return {str(case["name"]): case for case in json.loads(done.stdout)["cases"]}


def lookups(bench: Bench) -> Iterator[Row]:
    """Random keys of all that are there."""
    say(f"Weft: lookups among {bench.entries} mappings")
    found = cases(bench, "lookups", "--mappings", str(bench.entries), "--keys", "1", "--keys", str(BATCH))
    for keys, name in ((1, "one key a request"), (BATCH, f"{BATCH} keys a request")):
        case = found[f"lookups-{keys}-closed"]
        cpu = case["server_cpu_us_per_request"] / keys
        yield Row(
            "lookups", "Weft", name, case["keys_per_s"], case["p99_us"] / 1e3, cpu, "UDP; tags, policy, each answer verified"
        )
    yield Row("memory", "Weft", "server", found["memory"]["server_rss_bytes"])


def updates(bench: Bench) -> Iterator[Row]:
    """Durable updates, answered when they are on the disk."""
    say("Weft: updates")
    for store, name in (("embedded", "one server"), ("etcd", "three servers, three members of etcd")):
        found = cases(bench, "updates", "--store", store, "--mappings", "100000")
        for keys, name_of_case in ((1, f"closed-{OUTSTANDING}"), (BATCH, f"closed-{BATCHES}-of-{BATCH}")):
            case = found[f"updates-{store}-{name_of_case}"]
            wording = f"{name}, {'one key' if keys == 1 else f'{keys} keys'} an update"
            cpu = case["server_cpu_us_per_request"] / keys
            yield Row("updates", "Weft", wording, case["keys_per_s"], case["p99_us"] / 1e3, cpu)


def failover(bench: Bench) -> Iterator[Row]:
    """The leader of the store is killed."""
    say(f"Weft: failover, {bench.repeat} times")
    gaps, slowest = [], []
    for _ in range(bench.repeat):
        found = cases(bench, "failover", "--store", "etcd", "--mappings", "100000")
        gaps.append(found["failover-store-leader-killed-updates"]["longest_gap_s"])
        slowest.append(found["failover-store-leader-killed-lookups"]["p99_us"] / 1e3)
    yield failover_row("Weft", "the store's leader is killed", gaps, f"lookups go on, p99 at most {max(slowest):.1f} ms")
