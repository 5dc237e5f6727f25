"""The parts of the directory's messages as bytes, and what they stand for (``docs/protocol-directory.md``, "Parts")."""

import ipaddress
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

MAX_KEYS = 32
MAX_OPS = 32
MAX_DATAGRAM = 1400

OUTCOMES = ("committed", "refused", "conflict", "elsewhere", "unknown", "malformed", "stale")
FINDINGS = ("found", "unknown", "forbidden", "elsewhere")
#: The result of publishing a part of a document, and a whole one.
PUBLISH_OUTCOMES = ("committed", "refused", "conflict", "unknown", "malformed", "more")
#: Maximum number of document bytes in one message.
DOCUMENT_PART = 32 * 1024
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
    """The result of a key of a lookup: ``kind`` is one of ``found``, ``unknown``, ``forbidden``, ``elsewhere``."""

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
    """The state of a server: ``state`` is one of ``STATES``."""

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


@dataclass(frozen=True, slots=True)
class Published:
    """The result of publishing a document; ``version``: the document's, as far as the server knows, 0: none."""

    outcome: str
    version: int


class Reader:
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

    def rest(self) -> bytes:
        """All that is left."""
        return self.take(len(self._data) - self._at)

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

    def entries(self) -> list[Entry]:
        count = self.number(2)
        found = []
        for _ in range(count):
            generation, key, kind = self.u64(), self.key(), self.u8()
            found.append(Entry(generation, key, self.value(kind) if kind else None))
        self.end()
        return found


def emit_name(name: str) -> bytes:
    """A document's name."""
    data = name.encode()
    if not 1 <= len(data) <= 32 or any(c not in b"abcdefghijklmnopqrstuvwxyz0123456789-" for c in data):
        raise ValueError(f"`{name}` is not a document's name: 1 to 32 of a to z, 0 to 9 and -")
    return bytes([len(data)]) + data


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


def emit_op(op: Op) -> bytes:
    """The bytes of an operation."""
    expect = 2**64 - 1 if op.expect is None else op.expect
    kind, value = (2, b"") if op.value is None else (1, emit_value(op.value))
    return bytes([kind]) + emit_key(op.key) + struct.pack(">Q", expect) + value


def _is_mac(text: str) -> bool:
    return len(text) == 17 and text.count(":") == 5 and all(len(part) == 2 for part in text.split(":"))


def _mac_bytes(text: str) -> bytes:
    if not _is_mac(text):
        raise ValueError(f"`{text}` is not a MAC address")
    return bytes.fromhex(text.replace(":", ""))
