"""Which part of a divided directory has which keys (``docs/protocol-directory.md``, "Divided directories").

key --longest prefix, or tenant--> part --> its servers
"""

import bisect
import ipaddress
from dataclasses import dataclass

from weft._directory_wire import DirectoryError, Reader, emit_key

#: Maximum number of bytes of a map: more than any has.
MAX_MAP = 256 << 10
MAX_PARTS = 64
MAX_PART_SERVERS = 16
#: Maximum number of prefixes and ranges of tenants, of all parts.
MAX_RANGES = 4096

_NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the directory: a store with revisions of its own, and its servers.

    Attributes:
        name: by which the policy, and ``weft directory serve --part``, name it.
        servers: as ``host:port``.
        prefixes: it has the addresses in these, except those in longer prefixes of other parts.
        tenants: it has all keys of the tenants in these ranges, as (first, last).
        default: it has the keys that no part names, groups, documents and tenants' records. One part is the default.
    """

    name: str
    servers: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    tenants: tuple[tuple[int, int], ...] = ()
    default: bool = False


class PartMap:
    """The parts of a directory; ``version`` is that of the policy that lists them."""

    def __init__(self, version: int, parts: tuple[Part, ...]) -> None:
        """Raises :class:`DirectoryError` if the parts contradict each other."""
        self.version = version
        self.parts = parts
        _check(parts)
        self.default = next(part for part in parts if part.default)
        #: By address family: by length of the prefix, the longest first: its bits, and the part.
        self._prefixes: dict[int, list[tuple[int, dict[int, Part]]]] = {}
        for width in (32, 128):
            networks = [(ipaddress.ip_network(prefix), part) for part in parts for prefix in part.prefixes]
            by_length: dict[int, dict[int, Part]] = {}
            for network, part in networks:
                if network.max_prefixlen == width:
                    bits = int(network.network_address) >> width - network.prefixlen
                    by_length.setdefault(network.prefixlen, {})[bits] = part
            self._prefixes[width] = sorted(by_length.items(), reverse=True, key=lambda item: item[0])
        self._tenants = sorted((first, last, part.name) for part in parts for first, last in part.tenants)
        self._by_name = {part.name: part for part in parts}

    def part_of(self, key: str) -> Part:
        """The part that has a key."""
        data = emit_key(key)
        kind, width = data[0], 8 * len(data[1:])
        if kind in (1, 2):
            address = int.from_bytes(data[1:], "big")
            found = (parts.get(address >> width - length) for length, parts in self._prefixes[width])
            return next((part for part in found if part is not None), self.default)
        if kind in (3, 4, 5):
            tenant = int.from_bytes(data[1:4], "big")
            at = bisect.bisect_left(self._tenants, (tenant + 1,)) - 1
            if at >= 0 and tenant <= self._tenants[at][1]:
                return self._by_name[self._tenants[at][2]]
        return self.default


def read_map(version: int, data: bytes) -> PartMap:
    """Reads all bytes of a map."""
    reader = Reader(data)
    try:
        parts = tuple(_part(reader) for _ in range(reader.u8()))
    except ValueError as error:
        raise DirectoryError(f"a map of parts: {error}") from None
    reader.end()
    return PartMap(version, parts)


def _part(reader: Reader) -> Part:
    name = reader.take(reader.u8()).decode("ascii", "replace")
    default = reader.u8()
    if default > 1:
        raise DirectoryError(f"part `{name}`: {default} is neither 0 nor 1")
    servers = tuple(_server(reader) for _ in range(reader.u8()))
    prefixes = tuple(f"{_ip(reader)}/{reader.u8()}" for _ in range(reader.number(2)))
    tenants = tuple((reader.number(3), reader.number(3)) for _ in range(reader.number(2)))
    return Part(name, servers, prefixes, tenants, bool(default))


def _ip(reader: Reader) -> str:
    return reader.ip({4: 4, 6: 16}.get(reader.u8(), 0))


def _server(reader: Reader) -> str:
    address = _ip(reader)
    return f"[{address}]:{reader.number(2)}" if ":" in address else f"{address}:{reader.number(2)}"


def _check(parts: tuple[Part, ...]) -> None:
    defaults = sum(part.default for part in parts)
    if defaults != 1:
        raise DirectoryError(f"a map of parts with {defaults} defaults: exactly one must be")
    ranges = sum(len(part.prefixes) + len(part.tenants) for part in parts)
    if len(parts) > MAX_PARTS or ranges > MAX_RANGES:
        raise DirectoryError(
            f"a map of {len(parts)} parts and {ranges} prefixes and ranges: more than {MAX_PARTS} or {MAX_RANGES}"
        )
    for part in parts:
        if not 1 <= len(part.name) <= 63 or not set(part.name) <= _NAME:
            raise DirectoryError(f"`{part.name}` is not a part's name")
        if not 1 <= len(part.servers) <= MAX_PART_SERVERS:
            raise DirectoryError(f"part `{part.name}` has {len(part.servers)} servers, not 1 to {MAX_PART_SERVERS}")
        if not part.prefixes and not part.tenants and not part.default:
            raise DirectoryError(f"part `{part.name}` has no keys")
        for prefix in part.prefixes:
            try:
                ipaddress.ip_network(prefix)
            except ValueError as error:
                raise DirectoryError(f"part `{part.name}`: {error}") from None
    for what, values in (
        ("part", [part.name for part in parts]),
        ("server", [server for part in parts for server in part.servers]),
        ("prefix", [prefix for part in parts for prefix in part.prefixes]),
    ):
        if len(set(values)) < len(values):
            raise DirectoryError(f"a map of parts that lists a {what} twice")
    last = -1
    for first, end in sorted(tenants for part in parts for tenants in part.tenants):
        if first <= last or end < first:
            raise DirectoryError(f"a map of parts that lists tenant {first} twice, or an empty range")
        last = end
