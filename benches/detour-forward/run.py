#!/usr/bin/env python3
"""Measures the CPU that a server needs to forward detours, by throughput (Subways section 8.8, figure 11).

As root, on two processors: python3 benches/detour-forward/run.py [--seconds 5] [--object subways_host.bpf.o]

    weftdsrc: sender on CPU 0 ---- f0  weftdfwd  f1 ---- weftddst: counts and drops

Frames with one header of a detour come to f0. Receive packet steering hands them to CPU 1, where the agent's program strips them
and sends them by f1. What CPU 1 spends in soft interrupts, less what it spends without traffic, is `core`: receiving from a veth
pair, the program, sending to a veth pair, and counting at its end; by the kernel's ticks, so only long runs are exact.
`core_program` is the program's part, by the kernel's statistics of programs, which cost some 20 ns a packet themselves. Prints a
line of JSON for each rate.
"""

import argparse
import ctypes
import json
import os
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

SOURCE, FORWARDER, SINK = "weftdsrc", "weftdfwd", "weftddst"
PINS = Path("/sys/fs/bpf/weft-detour-forward")
HOST, NICS, GATEWAY, FAR = "10.7.0.1", ("10.7.0.2", "10.7.1.2"), "10.7.1.1", "10.9.9.9"
FOREVER = 2**64 - 1


def run(*command: str, check: bool = True) -> str:
    """What a command prints."""
    return subprocess.run(command, text=True, check=check, capture_output=True).stdout


def within(namespace: str, *command: str) -> str:
    """The same in a network namespace, with its own /sys."""
    script = 'mount -t sysfs sysfs /sys && exec "$@"'
    return run("nsenter", f"--net=/run/netns/{namespace}", "unshare", "-m", "sh", "-ec", script, "sh", *command)


def build() -> None:
    """Makes the namespaces and their devices."""
    for name in (SOURCE, FORWARDER, SINK):
        run("ip", "netns", "add", name)
    for ours, theirs, there in (("f0", "s0", SOURCE), ("f1", "d0", SINK)):
        peer = ("peer", "name", theirs, "netns", there, "mtu", "1600")
        run("ip", "link", "add", ours, "netns", FORWARDER, "mtu", "1600", "type", "veth", *peer)
        run("ip", "-n", there, "link", "set", theirs, "up")
        run("ip", "-n", FORWARDER, "link", "set", ours, "up")
    for device, address in zip(("f0", "f1"), NICS, strict=True):
        run("ip", "-n", FORWARDER, "addr", "add", f"{address}/24", "dev", device)
        run("tc", "-n", FORWARDER, "qdisc", "add", "dev", device, "clsact")
    # Another address than the sink has: its kernel drops the packets at once.
    run("ip", "-n", FORWARDER, "neigh", "add", GATEWAY, "lladdr", "02:00:00:00:00:99", "dev", "f1")
    within(FORWARDER, "sh", "-ec", "echo 2 > /sys/class/net/f0/queues/rx-0/rps_cpus")


def remove() -> None:
    """Removes what was made."""
    for name in (SOURCE, FORWARDER, SINK):
        run("ip", "netns", "del", name, check=False)
    for pin in PINS.glob("*"):
        pin.unlink()
    if PINS.exists():
        PINS.rmdir()


def link(namespace: str, device: str) -> dict:
    """A device, as `ip` shows it."""
    return json.loads(run("ip", "-n", namespace, "-j", "link", "show", device))[0]


def be(address: str) -> bytes:
    """An address in network order."""
    return socket.inet_aton(address)


def load(path: Path) -> int:
    """Loads the programs, permits what the sender sends, and attaches the one for arriving packets: its descriptor."""
    library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    for name in ("bpf_object__open", "bpf_object__find_map_by_name", "bpf_object__find_program_by_name"):
        getattr(library, name).restype = ctypes.c_void_p
    given = ctypes.c_void_p(library.bpf_object__open(str(path).encode()))
    if library.bpf_object__load(given):
        raise SystemExit(f"the kernel does not load {path}")

    def put(table: str, key: bytes, value: bytes) -> None:
        found = ctypes.c_void_p(library.bpf_object__find_map_by_name(given, table.encode()))
        if library.bpf_map_update_elem(library.bpf_map__fd(found), key, value, ctypes.c_uint64(0)):
            raise SystemExit(f"no entry in {table}: {os.strerror(ctypes.get_errno())}")

    indexes = [link(FORWARDER, device)["ifindex"] for device in ("f0", "f1")]
    addresses = be(NICS[0]) + be(NICS[1]) + bytes(24)
    put("settings", struct.pack("=I", 0), addresses + struct.pack("=2I24xIIQ", *indexes, 3 | 1 << 31, 1, 0))
    for host in (HOST, FAR):
        put("nics", be(host), be(host))
    put("permits", be(HOST) + bytes((0, 1, 0, 0)), struct.pack("=QQII", FOREVER, 10**9, 2**32 - 1, 0))
    put("gateways", struct.pack("=I", 1), be(GATEWAY))
    PINS.mkdir()
    program = ctypes.c_void_p(library.bpf_object__find_program_by_name(given, b"subways_in"))
    descriptor = library.bpf_program__fd(program)
    if library.bpf_obj_pin(descriptor, str(PINS / "subways_in").encode()):
        raise SystemExit("the program cannot be pinned")
    # `tc -n` would mount another /sys, without the pin.
    pinned = ("bpf", "da", "object-pinned", str(PINS / "subways_in"))
    run("nsenter", f"--net=/run/netns/{FORWARDER}", "tc", "filter", "add", "dev", "f0", "ingress", *pinned)
    return descriptor


def program_ns(descriptor: int) -> int:
    """Nanoseconds that the program has run."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("run_time_ns:")))


def header(length: int, identification: int, protocol: int, to: str) -> bytes:
    """An IPv4 header from the sender."""
    plain = struct.pack(">BBHHHBBH", 0x45, 0, length, identification, 0x4000, 64, protocol, 0) + be(HOST) + be(to)
    total = sum(struct.unpack(">10H", plain))
    total = (total & 0xFFFF) + (total >> 16)
    return plain[:10] + struct.pack(">H", ~(total + (total >> 16)) & 0xFFFF) + plain[12:]


def frame(payload: int) -> bytes:
    """A frame of TCP with one header of a detour, to be sent on by NIC 1."""
    to = bytes.fromhex(link(FORWARDER, "f0")["address"].replace(":", ""))
    tcp = struct.pack(">HHIIBBHHH", 1, 80, 1, 1, 5 << 4, 16, 65535, 0, 0) + bytes(payload)
    inner = header(20 + len(tcp), 0, 6, FAR) + tcp
    return to + bytes(6) + b"\x08\x00" + header(20 + len(inner), 1, 4, NICS[0]) + inner


def soft_interrupts() -> float:
    """Seconds that CPU 1 has spent in soft interrupts."""
    line = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu1 "))
    return int(line.split()[7]) / os.sysconf("SC_CLK_TCK")


def arrived() -> int:
    """Packets at the far end."""
    return json.loads(run("ip", "-n", SINK, "-j", "-s", "link", "show", "d0"))[0]["stats64"]["rx"]["packets"]


def measure(sender: Path, descriptor: int, payload: int, rate: float, seconds: float) -> dict:
    """One rate: what is forwarded, and the part of CPU 1 that it takes."""
    packet = frame(payload)
    begun = soft_interrupts()
    time.sleep(seconds)
    idle = soft_interrupts() - begun
    ran = program_ns(descriptor)
    before, begun, watch = arrived(), soft_interrupts(), time.monotonic()
    at = ("nsenter", f"--net=/run/netns/{SOURCE}", "taskset", "-c", "0", str(sender), "s0", packet.hex(), str(rate), str(seconds))
    sent = int(run(*at))
    took = time.monotonic() - watch
    ran = (program_ns(descriptor) - ran) / 1e9
    busy, packets = soft_interrupts() - begun - idle, arrived() - before
    return {
        "bytes": len(packet),
        "sent": sent,
        "forwarded": packets,
        "packets_per_s": round(packets / took),
        "gbps": round(packets * len(packet) * 8 / took / 1e9, 3),
        "core": round(busy / took, 4),
        "ns_per_packet": round(busy / max(packets, 1) * 1e9),
        "core_program": round(ran / took, 4),
        "ns_program": round(ran / max(packets, 1) * 1e9),
    }


def main() -> None:
    """Measures all rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--payload", type=int, default=1448)
    parser.add_argument("--object", type=Path)
    rates = [20e3, 40e3, 80e3, 160e3, 240e3, 1e9]
    parser.add_argument("--rates", type=float, nargs="+", default=rates, help="packets per second")
    options = parser.parse_args()
    built = sorted(Path("target").glob("*/build/weft-agent-*/out/subways_host.bpf.o"), key=lambda it: it.stat().st_mtime)
    chosen = options.object or (built[-1] if built else None)
    if chosen is None:
        raise SystemExit("no programs: `cargo build -p weft-agent` makes them")
    with tempfile.TemporaryDirectory() as folder:
        sender = Path(folder) / "send"
        run("clang", "-O2", "-o", str(sender), str(Path(__file__).parent / "send.c"))
        remove()
        try:
            build()
            descriptor = load(chosen)
            run("sysctl", "-qw", "kernel.bpf_stats_enabled=1")
            for rate in options.rates:
                print(json.dumps(measure(sender, descriptor, options.payload, rate, options.seconds)), flush=True)
        finally:
            run("sysctl", "-qw", "kernel.bpf_stats_enabled=0")
            remove()


if __name__ == "__main__":
    main()
