#!/usr/bin/env python3
"""Measures how long a NetLord agent with many VIFs takes to start and to restart, its memory, and whether packets are lost.

As root: python3 benches/netlord-vifs/run.py --vifs 30000 [--agent target/release/weft-agent]

In a network namespace of its own it makes TAP interfaces, as VMs have, one for each VIF, an interface to the fabric, and two
real VMs (veth pairs into namespaces), one of which pings the other every 10 ms during the restart. Prints JSON.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from pathlib import Path

NAMESPACE, VMS = "weftvifs", ("weftvifsa", "weftvifsb")
PER_TENANT = 100


def run(*command: str, stdin: str | None = None, check: bool = True) -> str:
    """What a command prints."""
    return subprocess.run(command, input=stdin, text=True, check=check, capture_output=True).stdout


def within(*command: str, stdin: str | None = None) -> str:
    """The same in the namespace of the server."""
    return run("nsenter", f"--net=/run/netns/{NAMESPACE}", *command, stdin=stdin)


def mac(kind: int, n: int) -> str:
    """A MAC address of a kind of interface."""
    return ":".join(f"{byte:02x}" for byte in (2, kind, *n.to_bytes(4, "big")))


def build(vifs: int) -> None:
    """Makes the namespaces and their interfaces."""
    for name in (NAMESPACE, *VMS):
        run("ip", "netns", "add", name)
    lines = [
        "link add up0 type veth peer name sw0",
        "link set up0 up",
        "link set sw0 up",
    ]
    lines += [line for n in range(vifs) for line in (f"tuntap add dev d{n} mode tap", f"link set d{n} up")]
    within("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    within("ip", "-batch", "-", stdin="\n".join(lines) + "\n")
    for n, vm in enumerate(VMS):
        address = mac(9, n)
        within("ip", "link", "add", f"v{n}", "type", "veth", "peer", "name", "eth0", "address", address, "netns", vm)
        within("ip", "link", "set", f"v{n}", "up")
        run("ip", "-n", vm, "link", "set", "eth0", "up")
        run("ip", "-n", vm, "addr", "add", f"10.9.0.{n + 1}/24", "dev", "eth0")


def write(folder: Path, vifs: int) -> Path:
    """Writes the tenants' file and the agent's configuration, and returns the latter."""
    tenants = ["version = 1", '[[tenant]]\nid = 3\nname = "vms"']
    config = [
        'overlay = "netlord"\nrole = "host"\nspecial_vlan = 4094\nmetrics = "off"',
        f'tenants = "{folder}/tenants.toml"\nsocket = "{folder}/agent.sock"\npins = "/sys/fs/bpf/weft-vifs"\non_exit = "keep"',
        '[[uplink]]\ndevice = "up0"\nswitch = "02:4e:4c:00:00:01"\nport = 1',
    ]
    for n in range(2):
        tenants.append(f'[[vif]]\ntenant = "vms"\nname = "v{n}"\nmac = "{mac(9, n)}"\naddresses = ["10.9.0.{n + 1}"]')
        config.append(f'[[vif]]\ndevice = "v{n}"\ntenant = "vms"\nname = "v{n}"')
    for first in range(0, vifs, PER_TENANT):
        name = f"t{first // PER_TENANT}"
        tenants.append(f'[[tenant]]\nid = {10 + first // PER_TENANT}\nname = "{name}"')
        for n in range(first, min(first + PER_TENANT, vifs)):
            k = n - first
            tenants.append(
                f'[[vif]]\ntenant = "{name}"\nname = "d{n}"\nmac = "{mac(0, n)}"\naddresses = ["10.0.{k // 250}.{k % 250 + 1}"]'
            )
            config.append(f'[[vif]]\ndevice = "d{n}"\ntenant = "{name}"\nname = "d{n}"')
    (folder / "tenants.toml").write_text("\n".join(tenants) + "\n")
    file = folder / "agent.toml"
    file.write_text("\n".join(config) + "\n")
    return file


def start(agent: str, config: Path) -> tuple[subprocess.Popen[str], dict[str, float]]:
    """Starts the agent, and measures how long that takes and what it holds."""
    began = time.monotonic()
    command = ["nsenter", f"--net=/run/netns/{NAMESPACE}", agent, "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline() if process.stdout else ""
    if not line.startswith("READY"):
        raise SystemExit(f"the agent did not start: {line}")
    seconds = time.monotonic() - began
    # What is done once a second, with all of them.
    busy = cpu(process.pid)
    time.sleep(3)
    memory = int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())[0]) * 1024
    descriptors = len(os.listdir(f"/proc/{process.pid}/fd"))
    idle = (cpu(process.pid) - busy) / 3
    return process, {
        "ready_s": round(seconds, 2),
        "ready_cpu_s": round(busy, 2),
        "rss_bytes": memory,
        "descriptors": descriptors,
        "idle_cpu": round(idle, 3),
    }


def cpu(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measures one start and one restart."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vifs", type=int, default=30_000)
    parser.add_argument("--agent", default="target/debug/weft-agent")
    given = parser.parse_args()
    result: dict[str, object] = {"vifs": given.vifs}
    process = None
    try:
        began = time.monotonic()
        build(given.vifs)
        result["interfaces_made_s"] = round(time.monotonic() - began, 1)
        with tempfile.TemporaryDirectory() as folder:
            config = write(Path(folder), given.vifs)
            process, result["start"] = start(given.agent, config)
            ping = ["nsenter", f"--net=/run/netns/{VMS[0]}", "ping", "-n", "-q", "-i", "0.01", "-w", "60", "10.9.0.2"]
            run(*ping[:-3], "-c", "3", "10.9.0.2")
            pings = subprocess.Popen(ping, stdout=subprocess.PIPE, text=True)
            time.sleep(1)
            process.send_signal(signal.SIGTERM)
            began = time.monotonic()
            process.wait()
            result["stop_s"] = round(time.monotonic() - began, 2)
            process, result["restart"] = start(given.agent, config)
            pings.send_signal(signal.SIGINT)
            said = pings.communicate()[0]
            sent, received = map(int, re.findall(r"(\d+) packets transmitted, (\d+) received", said)[0])
            result["pings"] = {"sent": sent, "lost": sent - received}
            status = json.loads(within(given.agent, "status", "--json", "--socket", f"{folder}/agent.sock"))
            result["attached"] = len(status["vifs"])
            result["adopted"] = status["adopted"]
    finally:
        if process:
            process.kill()
            process.wait()
        for name in (NAMESPACE, *VMS):
            run("ip", "netns", "del", name, check=False)
        run("rm", "-rf", "/sys/fs/bpf/weft-vifs", check=False)
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
