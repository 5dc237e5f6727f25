"""Weft's OpenFlow codec against os-ken: the packets of its tests, and what Weft's scheduler sends."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

OS_KEN = ROOT / ".tools" / "os-ken"
PACKETS = OS_KEN / "os_ken" / "tests" / "packet_data"
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CODEC = TARGET / "debug" / "examples" / "openflow_oracle"

# Packets that are malformed: Open vSwitch refuses them too.
MALFORMED = {
    # An instruction says that it has 0x0808 bytes.
    "of15/libofproto-OFP15-flow_desc_reply.packet",
    # The header says 32 bytes; there are 40.
    "of15/libofproto-OFP15-meter_features_reply.packet",
}
# Their matches have an order of their own; what is written has the canonical one.
OTHER_ORDER = {
    "of13/4-4-ofp_packet_in.packet",
    "of13/4-59-ofp_packet_in.packet",
    "of13/4-60-ofp_flow_mod.packet",
    "of13/ovs-ofctl-of13-match_conj.packet",
}
# What os-ken writes and cannot read: it reads properties of a bucket, and fields of a copy, beyond their ends.
WRITTEN_ONLY = {"4 uplinks", "6 uplinks_dp_hash"}
NOT_READ = {"6 arp_responder"}


@pytest.fixture(scope="module")
def os_ken() -> Path:
    installed = subprocess.run([ROOT / "scripts" / "setup-os-ken.sh"], capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"os-ken cannot be installed: {installed.stderr}")
    return OS_KEN


def run_os_ken(os_ken: Path, mode: str, lines: list[str]) -> list[Any]:
    command = [sys.executable, "-S", str(Path(__file__).with_name("os_ken_oracle.py")), mode]
    result = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, env={"PYTHONPATH": str(os_ken)})
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def run_codec(*arguments: str, lines: list[str]) -> list[str]:
    assert CODEC.exists(), f"{CODEC} is missing: run make build-tests"
    result = subprocess.run([CODEC, *arguments], input="\n".join(lines), capture_output=True, text=True, check=True)
    return result.stdout.splitlines()


def without_order(value: Any) -> Any:
    """The same with the fields of each match sorted."""
    if isinstance(value, dict):
        ordered = {key: without_order(it) for key, it in value.items()}
        return ordered | {key: sorted(it, key=json.dumps) for key, it in ordered.items() if key == "oxm_fields"}
    return [without_order(it) for it in value] if isinstance(value, list) else value


def test_the_packets_of_os_ken_are_read_and_written(os_ken: Path) -> None:
    files = sorted([*PACKETS.glob("of13/*.packet"), *PACKETS.glob("of15/*.packet")])
    packets = {f"{it.parent.name}/{it.name}": it.read_bytes().hex() for it in files}
    assert len(packets) == 181
    answers = dict(zip(packets, run_codec(lines=list(packets.values())), strict=True))
    assert {name for name, answer in answers.items() if answer.startswith("error")} == MALFORMED
    written = {name: answer.split()[1] for name, answer in answers.items() if name not in MALFORMED}
    different = [name for name, it in written.items() if it != packets[name]]
    assert set(different) == OTHER_ORDER
    decoded = run_os_ken(os_ken, "decode", [it[name] for name in different for it in (packets, written)])
    for name, theirs, ours in zip(different, decoded[::2], decoded[1::2], strict=True):
        assert without_order(theirs["message"]) == without_order(ours["message"]), name


def test_os_ken_reads_what_the_scheduler_sends(os_ken: Path) -> None:
    sent = {}
    for line in run_codec("flows", lines=[]):
        name, data = line.split()
        sent[f"{int(data[:2])} {name}"] = data
    names = [name for name in sent if name not in WRITTEN_ONLY | NOT_READ]
    assert len(names) == 9
    decoded = dict(zip(names, run_os_ken(os_ken, "decode", [sent[name] for name in names]), strict=True))
    for name, message in decoded.items():
        assert message["bytes"] == sent[name], name
    learn = decoded["4 learn"]["message"]["OFPFlowMod"]["instructions"][0]["OFPInstructionActions"]["actions"][0]["NXActionLearn"]
    assert (learn["table_id"], learn["idle_timeout"], learn["priority"], learn["flags"]) == (1, 10, 1, 1)
    matched = [it["NXFlowSpecMatch"]["dst"][0] for it in learn["specs"]]
    assert matched == ["eth_type", "ip_proto", "ipv4_src", "ipv4_dst", "tcp_src", "tcp_dst"]
    placed = decoded["6 placed"]["message"]["OFPFlowMod"]
    assert (placed["idle_timeout"], placed["flags"], placed["priority"]) == (5, 1, 1000)
    [built] = run_os_ken(os_ken, "build", [])
    assert built == {name: sent[name] for name in WRITTEN_ONLY}
