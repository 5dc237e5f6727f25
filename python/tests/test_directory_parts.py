"""The directory's client and a divided directory: the map's bytes, servers of a few lines, and real ones of three parts."""

import ipaddress
import json
import os
import random
import shutil
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_directory import KEY, VITALS, Peer, message, program

from weft import _directory_servers as servers
from weft import directory
from weft._directory_parts import Part, PartMap, read_map
from weft.directory import Directory, DirectoryError, InDoubtError, Mapping, Op, Stream


def emit_map(parts: tuple[Part, ...]) -> bytes:
    """The bytes of a map, as a server sends them."""

    def ip(text: str) -> bytes:
        address = ipaddress.ip_address(text)
        return bytes([address.version]) + address.packed

    data = bytes([len(parts)])
    for part in parts:
        data += bytes([len(part.name)]) + part.name.encode() + bytes([part.default, len(part.servers)])
        for server in part.servers:
            host, _, port = server.rpartition(":")
            data += ip(host.strip("[]")) + struct.pack(">H", int(port))
        data += struct.pack(">H", len(part.prefixes))
        for prefix in part.prefixes:
            host, _, bits = prefix.partition("/")
            data += ip(host) + bytes([int(bits)])
        data += struct.pack(">H", len(part.tenants))
        for first, last in part.tenants:
            data += first.to_bytes(3, "big") + last.to_bytes(3, "big")
    return data


PARTS = (
    Part("a", ("10.9.0.1:5303", "[2001:db8::1]:5303"), ("10.1.2.0/24",), default=True),
    Part("b", ("10.9.0.2:5303",), ("10.0.0.0/8", "fd00::/8"), ((7, 7), (100, 199))),
    Part("c-1.x_", ("10.9.0.3:5303",), ("10.1.0.0/16", "0.0.0.0/0"), ((8, 8),)),
)


def test_the_bytes_of_a_map() -> None:
    data = bytes.fromhex(
        "03"
        "01 61 01 02 04 0a090001 14b7 06 20010db8000000000000000000000001 14b7 0001 04 0a010200 18 0000"
        "01 62 00 01 04 0a090002 14b7 0002 04 0a000000 08 06 fd000000000000000000000000000000 08 0002 000007 000007 000064 0000c7"
        "06 632d312e785f 00 01 04 0a090003 14b7 0002 04 0a010000 10 04 00000000 00 0001 000008 000008"
    )
    assert emit_map(PARTS) == data
    assert read_map(4, data).parts == PARTS
    for end in range(len(data)):
        with pytest.raises(DirectoryError):
            read_map(4, data[:end])
    with pytest.raises(DirectoryError, match="longer"):
        read_map(4, data + b"\0")


def test_the_longest_prefix_or_the_tenants_range_has_a_key() -> None:
    parts = PartMap(4, PARTS)
    homes = {
        "10.1.2.3": "a",
        "10.1.3.3": "c-1.x_",
        "10.2.0.0": "b",
        "11.0.0.0": "c-1.x_",
        "fd12::1": "b",
        "2001:db8::7": "a",
        "tenant:7/0/::1": "b",
        "tenant:8/3/02:00:00:00:00:01": "c-1.x_",
        "tenant:99/0/10.1.2.3": "a",
        "tenant:100/0/10.1.2.3": "b",
        "tenant:199/0/10.1.2.3": "b",
        "tenant:200/0/10.1.2.3": "a",
        "group:7": "a",
    }
    assert {key: parts.part_of(key).name for key in homes} == homes


def test_the_part_of_a_key_is_what_the_definition_says() -> None:
    rng = random.Random(1)
    for _ in range(30):
        networks = {
            ipaddress.ip_network((rng.getrandbits(3) << 29 | rng.getrandbits(2), bits), strict=False)
            for bits in rng.choices(range(33), k=12)
        }
        of = [tuple(str(it) for n, it in enumerate(sorted(networks, key=str)) if n % 3 == part) for part in range(3)]
        listed = (
            Part("a", ("10.9.0.1:1",), of[0], default=True),
            *(Part(n, (f"10.9.0.1:{ord(n)}",), of[1 + (n == "c")]) for n in "bc"),
        )
        listed = tuple(part for part in listed if part.prefixes or part.default)
        parts = PartMap(1, listed)
        for _ in range(100):
            address = ipaddress.ip_address(rng.getrandbits(3) << 29 | rng.getrandbits(2))
            within = [
                (ipaddress.ip_network(it), part) for part in listed for it in part.prefixes if address in ipaddress.ip_network(it)
            ]
            longest = max(within, key=lambda it: it[0].prefixlen, default=(None, listed[0]))
            assert parts.part_of(str(address)) == longest[1]


WRONG: list[tuple[tuple[Part, ...], str]] = [
    ((), "0 defaults"),
    (PARTS[:1] * 2, "2 defaults"),
    ((PARTS[0], PARTS[1], PARTS[1]), "lists a part twice"),
    ((PARTS[0], Part("b", PARTS[0].servers, ("10.0.0.0/8",))), "lists a server twice"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",), ("10.1.2.0/24",))), "lists a prefix twice"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",))), "`b` has no keys"),
    ((PARTS[0], Part("b", (), ("10.0.0.0/8",))), "`b` has 0 servers"),
    ((PARTS[0], Part("b d", ("10.9.0.2:1",), ("10.0.0.0/8",))), "not a part's name"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",), ("10.0.0.1/8",))), "host bits"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",), tenants=((5, 9), (9, 12)))), "tenant 9 twice"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",), tenants=((5, 4),))), "empty range"),
    ((PARTS[0], Part("b", ("10.9.0.2:1",), tenants=tuple((2 * n, 2 * n) for n in range(4097)))), "4098 prefixes"),
]


@pytest.mark.parametrize(("parts", "why"), WRONG)
def test_what_is_no_map(parts: tuple[Part, ...], why: str) -> None:
    with pytest.raises(DirectoryError, match=why):
        read_map(1, emit_map(parts))


Answer = Callable[[int, int, bytes], list[bytes]]
ELSEWHERE = b"\3" + bytes(8)
FOUND = b"\1" + struct.pack(">Q", 42)


def findings(request: int, body: bytes, finding: bytes, policy: int = 3) -> bytes:
    """An answer of the same finding for each key of a lookup without an asker."""
    return message(0x81, request, struct.pack(">QIB", 42, policy, body[9]) + finding * body[9])


def page(request: int, body: bytes, data: bytes, policy: int = 3, room: int = 60) -> bytes:
    (at,) = struct.unpack(">I", body[:4])
    assert not any(body[4:]) and len(body) > 100, "room for the answer"
    return message(0x89, request, struct.pack(">III", policy, len(data), at) + data[at : at + room])


def test_a_directory_that_is_not_divided_costs_no_datagram_more() -> None:
    peer = Peer(lambda kind, request, body: [findings(request, body, FOUND)])
    with Directory([peer.address], 7, KEY) as client:
        client.look_up("10.0.0.7")
        client.look_up(*[f"10.0.0.{n}" for n in range(33)])
    assert peer.kinds == [1, 1, 1, 1], "one of them was challenged"
    peer.socket.close()


def test_elsewhere_of_a_directory_that_is_not_divided_is_asked_about_once() -> None:
    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        if kind == 0x09:
            return [page(request, body, b"")]
        return [message(0x84, request, VITALS)] if kind == 4 else [findings(request, body, ELSEWHERE)]

    peer = Peer(answer)
    with Directory([peer.address], 7, KEY) as client:
        for _ in range(3):
            assert client.look_up("10.0.0.7", at_least=50)[0].kind == "elsewhere"
        assert client.parts() == ()
    assert peer.kinds.count(9) == 2 and peer.kinds.count(1) == 4
    peer.socket.close()


def test_a_server_of_before_is_not_waited_for() -> None:
    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        if kind == 0x09:
            return []
        if kind == 0x02:
            return [message(0x82, request, body[:8] + bytes([3, 0]) + bytes(8))]
        return [message(0x84, request, VITALS)] if kind == 4 else [findings(request, body, ELSEWHERE)]

    old = Peer(answer)
    well = Peer(lambda kind, request, body: [message(0x82, request, body[:8] + bytes(2) + struct.pack(">Q", 77))])
    with Directory([old.address], 7, KEY) as client:
        begun = time.monotonic()
        assert client.look_up("10.0.0.7", at_least=50)[0].kind == "elsewhere"
        assert client.look_up("10.0.0.7", at_least=50)[0].kind == "elsewhere"
        assert client.parts() == ()
        assert time.monotonic() - begun < 1.9
        assert old.kinds.count(9) == servers.MAP_TRIES, "and not asked again"
    with Directory([old.address, well.address], 7, KEY) as client:
        begun = time.monotonic()
        client._given.prefer(client._given.peers[0])
        assert client.update([Op("10.0.0.7")], known=5).outcome == "committed"
        assert time.monotonic() - begun < 1.9
    old.socket.close()
    well.socket.close()


def test_pages_are_asked_for_again_and_a_changed_map_from_the_start() -> None:
    lost = iter(range(1000))
    policies = iter([3, 3, 4])
    data = emit_map(PARTS)

    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        number = next(lost)
        if kind == 4:
            return []
        return [page(request, body, data, next(policies, 4), room=30)] if number % 3 == 0 else [b"", message(0x89, request, b"")]

    peer = Peer(answer)
    with Directory([peer.address], 7, KEY) as client:
        assert client.parts() == PARTS
        assert client._map_version == 4
    peer.socket.close()


def local_parts(*addresses: str) -> bytes:
    """A map in which the second of these servers has 20.128.0.0/9, and the first the other keys."""
    prefixes = ((), ("20.128.0.0/9",), ("30.0.0.0/8",))
    return emit_map(tuple(Part("abc"[n], (it,), prefixes[n], default=n == 0) for n, it in enumerate(addresses)))


def test_an_update_in_doubt_stays_with_its_store() -> None:
    """A server took a copy and says nothing; the other one says that a third has the key."""
    third = Peer(lambda kind, request, body: [message(0x84, request, VITALS)])

    def silent(kind: int, request: int, body: bytes) -> list[bytes]:
        return [message(0x84, request, VITALS)] if kind == 4 else []

    def elsewhere(kind: int, request: int, body: bytes) -> list[bytes]:
        if kind == 0x09:
            return [page(request, body, local_parts(second.address, third.address))]
        return [message(0x84, request, VITALS)] if kind == 4 else [message(0x82, request, body[:8] + bytes([3, 0]) + bytes(8))]

    first, second = Peer(silent), Peer(elsewhere)
    with Directory([first.address, second.address], 7, KEY, timeout=2.3) as client:
        client._given.prefer(client._given.peers[0])
        assert client.health().state == "serving", "it gives a cookie"
        with pytest.raises(InDoubtError) as error:
            client.put("20.128.0.1", Mapping("10.0.1.1"))
        assert client._map is not None and second.kinds.count(9) >= 1
        client._given.prefer(client._given.peers[1])
        client._timeout = 0.3
        with pytest.raises(InDoubtError):
            client.update([Op("20.128.0.1", Mapping("10.0.1.1"))], number=error.value.number, known=error.value.known)
        assert 2 not in third.kinds
        # Who does not know where the copies are asks those who have the key.
        with Directory([second.address], 7, KEY, timeout=0.3) as other, pytest.raises(InDoubtError, match="part `b`"):
            other.update([Op("20.128.0.1")], number=error.value.number, known=error.value.known)
        assert 2 in third.kinds
    for peer in (first, second, third):
        peer.socket.close()


class Cluster:
    """Servers of three parts; a has what the others have not."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program = str(program("weft-directory"))
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.addresses = dict(zip("abc", free_addresses(3), strict=True))
        self.of = {
            "a": "default = true",
            "b": 'prefixes = ["20.128.0.0/9"]\ntenants = [7, "100-199"]',
            # So many that the map has several pages.
            "c": f"prefixes = {json.dumps(['fd00::/8'] + [f'2001:db8:{n:x}::/48' for n in range(200)])}",
        }
        first = folder / "a"
        subprocess.run([self.program, "init", str(first)], check=True, capture_output=True)
        for name in "bc":
            shutil.copytree(first, folder / name)
        self.secret = (first / "secret").read_text()
        self.set_policy(1)
        for name in "abc":
            self.start(name)

    def set_policy(self, version: int) -> None:
        text = f'version = {version}\n[[service]]\nname = "web"\nid = 1\n[[service]]\nname = "db"\nid = 2\n'
        for number, role in ((1, "server"), (11, "server"), (12, "server"), (2, "admin")):
            text += f'[[principal]]\nid = {number}\nrole = "{role}"\n'
        for name in "abc":
            text += f'[[part]]\nname = "{name}"\nservers = ["{self.addresses[name]}"]\n{self.of[name]}\n'
        for name in "abc":
            new = self.folder / name / "policy.new"
            new.write_text(text)
            os.replace(new, self.folder / name / "policy.toml")

    def start(self, name: str) -> None:
        command = [self.program, "serve", "--dir", str(self.folder / name), "--listen", self.addresses[name], "--part", name]
        command += ["--principal", {"a": "1", "b": "11", "c": "12"}[name], "--metrics", "off", "--auth", "mac", "--json"]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.processes[name] = process
        assert process.stdout is not None and process.stdout.readline(), (self.folder / f"{name}.log").read_text()

    def stop(self, name: str) -> None:
        process = self.processes.pop(name)
        process.kill()
        process.wait(10)
        assert process.stdout is not None
        process.stdout.close()

    def key(self, principal: int) -> str:
        return directory.principal_key(self.secret, principal).hex()

    def client(self, *names: str, principal: int = 2, timeout: float = 5.0) -> Directory:
        return Directory([self.addresses[name] for name in names], principal, self.key(principal), timeout=timeout)


def free_addresses(count: int) -> list[str]:
    """Addresses of which the ports are free over UDP and TCP."""
    found: list[str] = []
    held: list[socket.socket] = []
    while len(found) < count:
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        held += [tcp, udp]
        tcp.bind(("127.0.0.1", 0))
        port = tcp.getsockname()[1]
        try:
            udp.bind(("127.0.0.1", port))
        except OSError:
            continue
        found.append(f"127.0.0.1:{port}")
    for it in held:
        it.close()
    return found


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    parts = Cluster(tmp_path)
    try:
        yield parts
    finally:
        for name in list(parts.processes):
            parts.stop(name)
        for name in "abc":
            shutil.rmtree(tmp_path / name)


KEYS = {
    "20.0.0.1": "a",
    "20.128.0.1": "b",
    "fd00::1": "c",
    "2001:db8:c7::1": "c",
    "2001:db8:c8::1": "a",
    "tenant:7/0/02:00:00:00:00:01": "b",
    "tenant:150/9/20.0.0.1": "b",
    "tenant:200/9/20.128.0.1": "a",
}


def where(n: int) -> Mapping:
    return Mapping(f"10.0.1.{n + 1}", service=1, owner=17)


def test_a_client_of_one_server_writes_and_finds_the_keys_of_all_parts(cluster: Cluster) -> None:
    for given in "abc":
        with cluster.client(given) as client:
            for n, key in enumerate(KEYS):
                assert client.put(key, where(n)).outcome == "committed", key
            assert client.put("group:3", ("10.9.0.1",)).outcome == "committed"
    for given in "abc":
        with cluster.client(given) as client:
            names = [*list(KEYS), "group:3", *list(KEYS)[::-1], "20.0.0.99"]
            found = client.look_up(*names)
            assert [finding.key for finding in found] == names
            values = [where(n) for n in range(len(KEYS))]
            assert [finding.value for finding in found] == [*values, ("10.9.0.1",), *values[::-1], None]
            many = [f"20.{128 * (n % 2)}.0.{n}" for n in range(2, 100)]
            assert [(finding.key, finding.kind) for finding in client.look_up(*many)] == [(key, "unknown") for key in many]
    for part, address in cluster.addresses.items():
        stream = Stream(address, 2, cluster.key(2))
        assert {entry.key for entry in stream.list()} == {key for key, it in {**KEYS, "group:3": "a"}.items() if it == part}
        stream.close()


def test_the_map_of_a_real_server(cluster: Cluster) -> None:
    with cluster.client("b") as client:
        assert client.health().state == "serving"
        answer = client._given.peers[0].ask_map(time.monotonic() + 5)
        assert answer is not None
        version, data = answer
        assert version == 1 and len(data) > 1400, "several pages"
        assert emit_map(read_map(version, data).parts) == data
        parts = client.parts()
        assert [(part.name, part.servers, part.default) for part in parts] == [
            (name, (cluster.addresses[name],), name == "a") for name in "abc"
        ]
        assert parts[1].tenants == ((7, 7), (100, 199))
        for name in "abc":
            assert client.health(part=name).state == "serving"
        changes = client.sync(0, client.policy, part="c")
        assert changes.policy == 1
        with pytest.raises(ValueError, match="one of a, b, c"):
            client.sync(0, 1)
        with pytest.raises(ValueError, match="no part `d`: use one of a, b, c"):
            client.health(part="d")


def test_an_update_of_two_parts_is_refused_before_it_is_sent(cluster: Cluster) -> None:
    with cluster.client("c") as client:
        # At first it does not know that there are parts, and a server says that it takes none of it.
        for _ in range(2):
            with pytest.raises(ValueError, match=r"`20.0.0.1` is of part `a` .* and `20.128.0.1` of part `b`"):
                client.update([Op("20.0.0.1", where(1)), Op("20.128.0.1", where(2))])
        with pytest.raises(ValueError, match="look up each part's by itself"):
            client.look_up("20.0.0.1", "20.128.0.1", at_least=1)
        assert [client.health(part=name).entries for name in "abc"] == [0, 0, 0]
        both = client.update([Op("20.128.0.1", where(1)), Op("tenant:7/0/::1", where(2))])
        assert both.outcome == "committed" and client.health(part="b").entries == 2
        # Part a has not come so far: `known` is of the part.
        for n in range(20):
            client.put("20.128.0.1", where(n))
        assert client.put("20.0.0.1", where(1), expect=0).outcome == "committed"


def test_lookups_for_an_asker_that_another_part_has(cluster: Cluster) -> None:
    with cluster.client("a") as client:
        asker, target, db = "20.0.0.200", "20.128.0.1", "20.128.0.2"
        client.put(asker, where(0))
        client.put(target, where(1))
        client.put(db, Mapping("10.0.1.9", service=2, owner=18))
    with cluster.client("a", principal=17) as host:
        assert host.look_up(target, asker=asker)[0].value == where(1)
        assert [finding.kind for finding in host.look_up(db, target, asker=asker)] == ["forbidden", "found"]
        assert host.look_up(asker, asker=asker)[0].value == where(0)
    with cluster.client("c", principal=18) as thief:
        assert thief.look_up(target, asker=asker)[0].kind == "forbidden"


def test_the_other_parts_go_on_without_one(cluster: Cluster) -> None:
    with cluster.client("b", "c", timeout=0.7) as client:
        for n, key in enumerate(KEYS):
            assert client.put(key, where(n)).outcome == "committed"
        cluster.stop("b")
        begun = time.monotonic()
        for n, (key, part) in enumerate(KEYS.items()):
            if part != "b":
                assert client.put(key, where(n + 1)).outcome == "committed"
                assert client.look_up(key)[0].value == where(n + 1)
        assert time.monotonic() - begun < 1.9
        dead = f"part `b` \\({cluster.addresses['b']}\\): nobody listens there within 0.7 s"
        with pytest.raises(DirectoryError, match=dead):
            client.look_up("20.0.0.1", "20.128.0.1")
        with pytest.raises(DirectoryError, match=f"part `b` \\({cluster.addresses['b']}\\)"):
            client.put("20.128.0.1", where(1))
        cluster.start("b")
        assert client.look_up("20.128.0.1")[0].value == where(1)


def test_the_map_changes(cluster: Cluster) -> None:
    with cluster.client("a", timeout=10.0) as client:
        for n, key in enumerate(KEYS):
            assert client.put(key, where(n)).outcome == "committed"
        # Keys move from b to c, and b's server is another one.
        cluster.stop("b")
        (cluster.addresses["b"],) = free_addresses(1)
        cluster.of["b"] = 'prefixes = ["20.128.0.0/9"]\ntenants = [7]'
        cluster.of["c"] = 'prefixes = ["fd00::/8", "20.192.0.0/10"]\ntenants = ["100-199"]'
        cluster.set_policy(2)
        cluster.start("b")
        assert client.look_up("20.128.0.1")[0].value == where(1), "the others know the new server"
        assert client.put("20.200.0.1", where(9)).outcome == "committed"
        assert client.look_up("tenant:150/9/20.0.0.1")[0].kind == "unknown", "another part has this tenant now"
        assert client.put("tenant:150/9/20.0.0.1", where(10)).outcome == "committed"
        found = client.look_up("20.200.0.1", "tenant:150/9/20.0.0.1", "20.0.0.1", "2001:db8:c7::1")
        assert [finding.value for finding in found] == [where(9), where(10), where(0), None]
        assert (client.policy, client._map_version) == (2, 2)
        assert [client.health(part=name).entries for name in "bc"] == [3, 4]
    stream = Stream(cluster.addresses["c"], 2, cluster.key(2))
    assert {"20.200.0.1", "tenant:150/9/20.0.0.1"} <= {entry.key for entry in stream.list()}
    stream.close()
