"""A client of the directory, written from ``docs/protocol-directory.md`` alone, with nothing but the standard library.

    from weft.directory import Directory, Mapping

    with Directory(["127.0.0.1:5303"], principal=3, key=open("key").read()) as directory:
        directory.put("10.0.0.7", Mapping("10.0.1.1", owner=17))
        directory.look_up("10.0.0.7")[0].value

    request, tagged by the principal's key  -->  server (gives a cookie at first)  -->  answer, tagged by the same key

Keys and locators are written as on the command line: ``10.0.0.7``, ``tenant:5/0/02:00:00:00:00:01``, ``group:3``;
``edge:02:00:00:00:00:09/12``.
"""

import hashlib
import hmac
import ipaddress
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TypeAlias

__all__ = [
    "Acknowledgement",
    "Changes",
    "Directory",
    "DirectoryError",
    "Entry",
    "Finding",
    "Mapping",
    "Op",
    "Stream",
    "Value",
    "Vitals",
]

MAX_KEYS = 32
MAX_OPS = 32
MAX_DATAGRAM = 1400

OUTCOMES = ("committed", "refused", "conflict", "elsewhere", "unknown", "malformed", "stale")
FINDINGS = ("found", "unknown", "forbidden", "elsewhere")
STATES = ("loading", "serving", "store lost", "leaving")


class DirectoryError(OSError):
    """No server answered, or what it sent is not the protocol."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where an address is.

    Attributes:
        locator: a ToR or host (``10.0.1.1``), or an edge switch and its port (``edge:02:00:00:00:00:09/12``).
        group: the group of intermediate switches through which it is reached; 0: none.
        service: the service it belongs to; 0: none.
        owner: the principal of the host that it lives on; 0: none.
        lease_ms: how long an agent may use it while it hears from no server, in milliseconds.
        mac: what answers ARP for it.
    """

    locator: str
    group: int = 0
    service: int = 0
    owner: int = 0
    lease_ms: int = 60_000
    mac: str | None = None


#: What a key stands for: a mapping, or the addresses of a group.
Value: TypeAlias = Mapping | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of a key of a look-up: ``kind`` is one of ``found``, ``unknown``, ``forbidden``, ``elsewhere``."""

    key: str
    kind: str
    generation: int
    value: Value | None = None


@dataclass(frozen=True, slots=True)
class Op:
    """A change of a key: to ``value``, or, without one, its deletion.

    ``expect``: only if the key has this generation (0: does not exist).
    """

    key: str
    value: Value | None = None
    expect: int | None = None


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """What became of an update: ``outcome`` is one of ``OUTCOMES``; ``at`` is the operation that was the cause."""

    number: int
    outcome: str
    at: int
    generation: int


@dataclass(frozen=True, slots=True)
class Changes:
    """What was withdrawn: (generation, key). ``reconfirm``: the server cannot say all, look up again what you hold."""

    revision: int
    policy: int
    reconfirm: bool
    withdrawn: tuple[tuple[int, str], ...]


@dataclass(frozen=True, slots=True)
class Vitals:
    """How a server is: ``state`` is one of ``STATES``."""

    state: str
    revision: int
    policy: int
    entries: int
    hash: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and what it stands for; None: it was deleted."""

    generation: int
    key: str
    value: Value | None


class Directory:
    """Asks directory servers over UDP. Not for use by several threads at once."""

    #: The newest revision and policy that any answer told.
    revision: int
    policy: int

    def __init__(self, servers: Iterable[str], principal: int, key: str | bytes, *, timeout: float = 5.0) -> None:
        """``servers`` as ``host:port``; ``key`` is the principal's, 32 bytes or 64 hex digits; ``timeout`` in seconds."""
        self._peers = [_Peer(server, principal, _key_bytes(key)) for server in servers]
        if not self._peers:
            raise ValueError("no servers")
        self._timeout = timeout
        self._first = secrets.randbelow(len(self._peers))
        self.revision = 0
        self.policy = 0

    def look_up(self, *keys: str, asker: str | None = None, at_least: int = 0) -> list[Finding]:
        """Where the keys are, in their order. ``asker``: a key that lives on this host, on whose behalf it asks."""
        findings: list[Finding] = []
        while len(findings) < len(keys):
            part = keys[len(findings) : len(findings) + MAX_KEYS]
            body = struct.pack(">Q", at_least) + (emit_key(asker) if asker else b"\0") + bytes([len(part)])
            reader = self._ask(0x01, body + b"".join(map(emit_key, part)), self._is_of_now)
            self._note(reader)
            count = reader.u8()
            if not 1 <= count <= len(part):
                raise DirectoryError(f"{count} findings for {len(part)} keys")
            findings += [reader.finding(key) for key in part[:count]]
            reader.end()
        return findings

    def put(self, key: str, value: Value, *, expect: int | None = None) -> Acknowledgement:
        """Makes or replaces what a key stands for; returns once it is durable, or the server said why not."""
        return self.update([Op(key, value, expect)])

    def delete(self, *keys: str) -> Acknowledgement:
        """Deletes keys, all or none."""
        return self.update([Op(key) for key in keys])

    def update(self, ops: Sequence[Op], *, number: int | None = None, known: int | None = None) -> Acknowledgement:
        """Applies all operations, or none.

        After a :class:`DirectoryError` it may have been applied or not; the same ``number`` and ``known`` again find out, and
        never apply it twice.
        """
        if not 1 <= len(ops) <= MAX_OPS:
            raise ValueError(f"an update has 1 to {MAX_OPS} operations, not {len(ops)}")
        if known is None:
            known = self.revision or self.health().revision
        number = secrets.randbits(64) if number is None else number
        body = struct.pack(">QQB", number, known, len(ops)) + b"".join(map(_emit_op, ops))

        def is_final(reader: _Reader) -> bool:
            return reader.u64() == number and reader.u8() != OUTCOMES.index("elsewhere")

        reader = self._ask(0x02, body, is_final, patience=2.0)
        answer = Acknowledgement(reader.u64(), reader.one_of(OUTCOMES), reader.u8(), reader.u64())
        reader.end()
        self.revision = max(self.revision, answer.generation)
        return answer

    def sync(self, revision: int, policy: int, *, room: int = 512) -> Changes:
        """What was withdrawn since ``revision``.

        ``room``: how many bytes longer than the bare request it is made, and so the answer may be.
        """
        reader = self._ask(0x03, struct.pack(">QI", revision, policy) + bytes(room), self._is_of_now)
        revision, policy = self._note(reader)
        reconfirm = bool(reader.u8())
        withdrawn = tuple((reader.u64(), reader.key()) for _ in range(reader.u8()))
        reader.end()
        return Changes(revision, policy, reconfirm, withdrawn)

    def health(self) -> Vitals:
        """How one of the servers is."""
        reader = self._ask(0x04, b"")
        state = reader.one_of(STATES)
        revision, policy = self._note(reader)
        vitals = Vitals(state, revision, policy, reader.u64(), reader.u64())
        reader.end()
        return vitals

    def close(self) -> None:
        """Closes the sockets."""
        for peer in self._peers:
            peer.socket.close()

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _is_of_now(self, reader: "_Reader") -> bool:
        """Whether the answer is of no older policy than was seen; a peek at what :meth:`_note` reads."""
        reader.u64()
        return reader.u32() >= self.policy

    def _note(self, reader: "_Reader") -> tuple[int, int]:
        revision, policy = reader.u64(), reader.u32()
        self.revision, self.policy = max(self.revision, revision), max(self.policy, policy)
        return revision, policy

    def _ask(
        self, kind: int, body: bytes, accept: "Callable[[_Reader], bool] | None" = None, patience: float = 0.02
    ) -> "_Reader":
        """Asks the servers in turn, each given ``patience`` seconds (doubled after each round), until an answer is accepted."""
        deadline = time.monotonic() + self._timeout
        turn = self._first
        last = "no answer"
        while (now := time.monotonic()) < deadline:
            peer = self._peers[turn % len(self._peers)]
            try:
                answer = peer.ask(kind, body, min(deadline, now + patience))
            except ConnectionRefusedError:
                answer, last = None, "nobody listens there"
                time.sleep(min(0.01, patience))
            if answer is not None:
                if accept is None or accept(_Reader(answer)):
                    self._first = turn
                    return _Reader(answer)
                last = "it cannot say"
                time.sleep(min(0.01, patience))
            turn += 1
            if (turn - self._first) % len(self._peers) == 0:
                patience = min(2.0, patience * 2)
        names = ", ".join(f"{peer.address[0]}:{peer.address[1]}" for peer in self._peers)
        raise DirectoryError(
            f"{names}: {last} within {self._timeout:g} s; is the server up, and is the key principal {peer.principal}'s?"
        )


class Stream:
    """Asks one server over a bare TCP connection (``weft directory serve --auth mac``): what needs more than a datagram."""

    def __init__(self, server: str, principal: int, key: str | bytes, *, timeout: float | None = 5.0) -> None:
        self._session = _Session(principal, _key_bytes(key))
        self._socket = socket.create_connection(_address(server), timeout)

    def list(self, *, limit: int = 1000) -> Iterator[Entry]:
        """All entries, in order of the keys' bytes; ``limit`` entries a page."""
        after, more = b"\0", True
        while more:
            reader = self._ask(0x10, after + struct.pack(">H", limit))
            reader.u64()
            more = bool(reader.u8())
            page = reader.entries()
            if more and not page:
                raise DirectoryError("an empty page, and yet more")
            yield from page
            after = emit_key(page[-1].key) if page else after

    def watch(self, since: int) -> Iterator[tuple[int, int, tuple[Entry, ...]]]:
        """Changes after revision ``since``: (from, revision, entries), again and again.

        A first ``from`` above ``since`` means that the server has forgotten what was between: list, then watch again.
        """
        reader = self._ask(0x11, struct.pack(">Q", since))
        while True:
            yield reader.u64(), reader.u64(), tuple(reader.entries())
            frame = None
            while frame is None or frame[0] != 0x91:
                frame = self._session.open(self._receive())
            reader = _Reader(frame[2])

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _ask(self, kind: int, body: bytes) -> "_Reader":
        while True:
            message = self._session.seal(kind, body)
            self._socket.sendall(struct.pack(">H", len(message)) + message)
            while (frame := self._session.open(self._receive())) is None or frame[0] not in (0x80, kind | 0x80):
                pass
            if frame[0] != 0x80:
                return _Reader(frame[2])

    def _receive(self) -> bytes:
        (length,) = struct.unpack(">H", self._exactly(2))
        return self._exactly(length)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise DirectoryError("the server closed the connection")
            data += part
        return data


class _Session:
    """The header's part of a conversation with one server: the tag, the cookie, the request numbers."""

    def __init__(self, principal: int, key: bytes) -> None:
        self.principal = principal
        self._key = key
        self._cookie = 0
        # An earlier process may have spoken from the same port, under the same cookie: its numbers were smaller.
        self._request = time.time_ns()

    def seal(self, kind: int, body: bytes) -> bytes:
        self._request += 1
        message = struct.pack(">2sBBIQQ", b"WD", 1, kind, self.principal, self._cookie, self._request) + body
        return message + hashlib.blake2b(message, key=self._key, digest_size=16).digest()

    def open(self, message: bytes) -> tuple[int, int, bytes] | None:
        """Kind, request number and body of a message for us; None: not one."""
        covered, tag = message[:-16], message[-16:]
        if len(covered) < 24:
            return None
        magic, version, kind, principal, cookie, request = struct.unpack(">2sBBIQQ", covered[:24])
        right = hashlib.blake2b(covered, key=self._key, digest_size=16).digest()
        if magic != b"WD" or version != 1 or principal != self.principal or not hmac.compare_digest(tag, right):
            return None
        if request and kind & 0x80:
            self._cookie = cookie
        return kind, request, covered[24:]


class _Peer(_Session):
    """One server over UDP."""

    def __init__(self, server: str, principal: int, key: bytes) -> None:
        super().__init__(principal, key)
        self.address = _address(server)
        family = socket.getaddrinfo(*self.address, type=socket.SOCK_DGRAM)[0][0]
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.connect(self.address)

    def ask(self, kind: int, body: bytes, deadline: float) -> bytes | None:
        """The body of the answer, None if there is none in time. A challenge is answered at once."""
        self._send(kind, body)
        first = self._request
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame = self.open(self.socket.recv(65_535))
            except TimeoutError:
                break
            if frame is None or frame[1] < first:
                continue
            if frame[0] == 0x80:
                self._send(kind, body)
                first = self._request
            elif frame[0] == kind | 0x80:
                return frame[2]
        return None

    def _send(self, kind: int, body: bytes) -> None:
        message = self.seal(kind, body)
        if len(message) > MAX_DATAGRAM:
            raise ValueError(f"{len(message)} bytes do not fit a datagram of {MAX_DATAGRAM}: ask for less at once")
        self.socket.send(message)


class _Reader:
    """Takes a body apart."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, count: int) -> bytes:
        part = self._data[self._at : self._at + count]
        if len(part) < count:
            raise DirectoryError("truncated")
        self._at += count
        return part

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def u8(self) -> int:
        return self.number(1)

    def u32(self) -> int:
        return self.number(4)

    def u64(self) -> int:
        return self.number(8)

    def one_of(self, names: Sequence[str]) -> str:
        value = self.u8()
        if value >= len(names):
            raise DirectoryError(f"{value} is none of {', '.join(names)}")
        return names[value]

    def end(self) -> None:
        if self._at != len(self._data):
            raise DirectoryError("longer than its contents")

    def ip(self, width: int) -> str:
        return str(ipaddress.ip_address(self.take(width)))

    def mac(self) -> str:
        return self.take(6).hex(":")

    def key(self) -> str:
        kind = self.u8()
        if kind in (1, 2):
            return self.ip(4 if kind == 1 else 16)
        if kind in (3, 4, 5):
            space = f"tenant:{self.number(3)}/{self.u32()}/"
            return space + (self.mac() if kind == 3 else self.ip(4 if kind == 4 else 16))
        if kind == 6:
            return f"group:{self.number(2)}"
        raise DirectoryError(f"key of kind {kind}")

    def value(self, kind: int) -> Value:
        if kind == 0x10:
            return tuple(self.ip({4: 4, 6: 16}.get(self.u8(), 0)) for _ in range(self.u8()))
        if kind & 0x7F == 3:
            locator = f"edge:{self.mac()}/{self.number(2)}"
        elif kind & 0x7F in (1, 2):
            locator = self.ip(4 if kind & 0x7F == 1 else 16)
        else:
            raise DirectoryError(f"value of kind {kind}")
        group, service, owner, lease = self.number(2), self.u32(), self.u32(), self.u32()
        return Mapping(locator, group, service, owner, lease, self.mac() if kind & 0x80 else None)

    def finding(self, key: str) -> Finding:
        kind = self.one_of(FINDINGS)
        generation = self.u64()
        return Finding(key, kind, generation, self.value(self.u8()) if kind == "found" else None)

    def entries(self) -> "list[Entry]":
        count = self.number(2)
        found = []
        for _ in range(count):
            generation, key, kind = self.u64(), self.key(), self.u8()
            found.append(Entry(generation, key, self.value(kind) if kind else None))
        self.end()
        return found


def emit_key(text: str) -> bytes:
    """The bytes of a key."""
    if text.startswith("group:"):
        return b"\6" + struct.pack(">H", int(text[6:]))
    if not text.startswith("tenant:"):
        address = ipaddress.ip_address(text)
        return (b"\1" if address.version == 4 else b"\2") + address.packed
    tenant, space, name = text[7:].split("/", 2)
    head = int(tenant).to_bytes(3, "big") + struct.pack(">I", int(space))
    if _is_mac(name):
        return b"\3" + head + _mac_bytes(name)
    address = ipaddress.ip_address(name)
    return (b"\4" if address.version == 4 else b"\5") + head + address.packed


def emit_value(value: Value) -> bytes:
    """The bytes of a value."""
    if not isinstance(value, Mapping):
        addresses = [ipaddress.ip_address(text) for text in value]
        return bytes([0x10, len(addresses)]) + b"".join(bytes([a.version]) + a.packed for a in addresses)
    flag = 0 if value.mac is None else 0x80
    if value.locator.startswith("edge:"):
        switch, port = value.locator[5:].split("/")
        locator = bytes([3 | flag]) + _mac_bytes(switch) + struct.pack(">H", int(port))
    else:
        address = ipaddress.ip_address(value.locator)
        locator = bytes([(1 if address.version == 4 else 2) | flag]) + address.packed
    fields = struct.pack(">HIII", value.group, value.service, value.owner, value.lease_ms)
    return locator + fields + (b"" if value.mac is None else _mac_bytes(value.mac))


def principal_key(secret: str | bytes, principal: int) -> bytes:
    """The key of a principal, from the cluster's secret."""
    name = b"weft principal" + struct.pack(">I", principal)
    return hashlib.blake2b(name, key=_key_bytes(secret), digest_size=32).digest()


def _emit_op(op: Op) -> bytes:
    expect = 2**64 - 1 if op.expect is None else op.expect
    kind, value = (2, b"") if op.value is None else (1, emit_value(op.value))
    return bytes([kind]) + emit_key(op.key) + struct.pack(">Q", expect) + value


def _is_mac(text: str) -> bool:
    return len(text) == 17 and text.count(":") == 5 and all(len(part) == 2 for part in text.split(":"))


def _mac_bytes(text: str) -> bytes:
    if not _is_mac(text):
        raise ValueError(f"`{text}` is not a MAC address")
    return bytes.fromhex(text.replace(":", ""))


def _key_bytes(key: str | bytes) -> bytes:
    data = bytes.fromhex(key) if isinstance(key, str) else key
    if len(data) != 32:
        raise ValueError("a key is 32 bytes, or 64 hexadecimal digits: `weft directory key` prints one")
    return data


def _address(server: str) -> tuple[str, int]:
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"`{server}` is not an address: write host:port")
    return host.strip("[]"), int(port)
