"""A client of the directory, written from ``docs/protocol-directory.md`` alone, with nothing but the standard library.

    from weft.directory import Directory, Mapping

    with Directory(["127.0.0.1:5303"], principal=3, key=open("key").read()) as directory:
        directory.put("10.0.0.7", Mapping("10.0.1.1", owner=17))
        directory.look_up("10.0.0.7")[0].value

    request, tagged by the principal's key  -->  server (gives a cookie at first)  -->  answer, tagged by the same key

A directory may be divided into parts, each with some of the keys, and with servers and revisions of its own. The client is given
servers of any part, and learns the map of all from one that says "elsewhere":

    Directory: key --map--> Servers: of one part, asked in turn --> Peer: one server over UDP
        ^                                                            |
        +---- the map, or a newer one  <------- Parts <--- elsewhere-+

Keys and locators are written as on the command line: ``10.0.0.7``, ``tenant:5/0/02:00:00:00:00:01``, ``group:3``;
``edge:02:00:00:00:00:09/12``.
"""

import hashlib
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import TypeAlias

from weft._directory_parts import Part, PartMap, read_map
from weft._directory_servers import Peer, Servers, Session, key_bytes, socket_address
from weft._directory_wire import (
    DOCUMENT_PART,
    MAX_KEYS,
    MAX_OPS,
    OUTCOMES,
    PUBLISH_OUTCOMES,
    STATES,
    Acknowledgement,
    Changes,
    DirectoryError,
    Entry,
    Finding,
    Mapping,
    Op,
    Published,
    Reader,
    Value,
    Vitals,
    emit_key,
    emit_name,
    emit_op,
)

__all__ = [
    "Acknowledgement",
    "Changes",
    "Directory",
    "DirectoryError",
    "Entry",
    "Finding",
    "InDoubtError",
    "Mapping",
    "Op",
    "Part",
    "Published",
    "Stream",
    "Value",
    "Vitals",
]

#: How much time the last copy of an update must have at least, in seconds.
LAST_ATTEMPT = 0.1
#: How long a server that has just answered is asked for the map of a divided directory, in seconds.
MAP_TIMEOUT = 0.5
#: How often other parts' servers are asked for the map while those of a part do not answer, in seconds.
ASK_OTHERS = 1.0
#: Of so many updates in doubt, the last ones, a client remembers which part they were sent to.
MAX_IN_DOUBT = 1000


class Directory:
    """Asks directory servers over UDP. Not for use by several threads at once."""

    #: The newest revision in any answer. Each part of a divided directory has revisions of its own: this is the greatest of them.
    revision: int
    #: The newest policy in any answer.
    policy: int

    def __init__(self, servers: Iterable[str], principal: int, key: str | bytes, *, timeout: float = 5.0) -> None:
        """``servers`` as ``host:port``; ``key`` is the principal's, 32 bytes or 64 hex digits; ``timeout`` in seconds.

        Of a divided directory, ``servers`` are some of the servers of any part: the client learns the others from them.
        """
        given = list(servers)
        if not given:
            raise ValueError("no servers")
        self._principal = principal
        self._key = key_bytes(key)
        self._timeout = timeout
        self._given = Servers(given, principal, self._key)
        #: None: the directory is not divided, or no server has said yet that it is.
        self._map: PartMap | None = None
        #: The policy that the map is of, or that does not divide the directory; 0: not known.
        self._map_version = 0
        #: By name: of the parts that this client has asked, those of earlier maps included.
        self._parts: dict[str, Servers] = {}
        #: By number: updates in doubt of which this client sent copies.
        self._in_doubt: dict[int, _Copies] = {}
        self.revision = 0
        self.policy = 0

    def look_up(self, *keys: str, asker: str | None = None, at_least: int = 0) -> list[Finding]:
        """Looks up keys, in their order. ``asker``: a key of this host, on whose behalf it asks.

        ``at_least``: the server must have everything up to this revision; of a divided directory, the keys are then of one part.
        """
        findings: dict[int, Finding] = {}
        missing: Sequence[int] = range(len(keys))
        asked: _Asked = set()
        while missing:
            by_servers: dict[Servers, list[int]] = {}
            for place in missing:
                by_servers.setdefault(self._home(keys[place]), []).append(place)
            if at_least and len(by_servers) > 1:
                names = " and ".join(map(str, by_servers))
                raise ValueError(
                    f"`at_least` is a revision of one part, but the keys are of {names}: look up each part's by itself"
                )
            try:
                for servers, places in by_servers.items():
                    done = 0
                    while done < len(places):
                        batch = places[done : done + MAX_KEYS]
                        found = self._find(servers, [keys[place] for place in batch], asker, at_least, asked)
                        findings.update(zip(batch, found, strict=False))
                        done += len(found)
            except _MovedError:
                pass
            missing = [place for place in missing if place not in findings]
        return [findings[place] for place in range(len(keys))]

    def put(self, key: str, value: Value, *, expect: int | None = None) -> Acknowledgement:
        """Makes or replaces what a key stands for; returns once it is durable, or the server said why not."""
        return self.update([Op(key, value, expect)])

    def delete(self, *keys: str) -> Acknowledgement:
        """Deletes keys, all or none."""
        return self.update([Op(key) for key in keys])

    def update(self, ops: Sequence[Op], *, number: int | None = None, known: int | None = None) -> Acknowledgement:
        """Applies all operations, or none. Keys of two parts of a divided directory are a :class:`ValueError`; none was applied.

        After :class:`InDoubtError` it may have been applied or not; the same again, with the error's ``number`` and ``known``,
        finds out, and never applies it twice. After any other error it was not applied, and will not be.
        """
        if not 1 <= len(ops) <= MAX_OPS:
            raise ValueError(f"an update has 1 to {MAX_OPS} operations, not {len(ops)}")
        copies = None if number is None else self._in_doubt.get(number)
        copies = copies or _Copies(in_doubt=number is not None)
        number = secrets.randbits(64) if number is None else number
        deadline = None
        asked: _Asked = set()
        while True:
            servers = self._writer(ops, copies)
            try:
                since = known
                if since is None:
                    since = servers.revision or self._health(servers, [op.key for op in ops]).revision
                deadline = deadline or time.monotonic() + self._timeout
                said = self._write(servers, ops, number, since, copies, deadline, asked)
            except _MovedError:
                continue
            except InDoubtError:
                self._in_doubt[number] = copies
                if len(self._in_doubt) > MAX_IN_DOUBT:
                    del self._in_doubt[next(iter(self._in_doubt))]
                raise
            self._in_doubt.pop(number, None)
            return said

    def sync(self, revision: int, policy: int, *, room: int = 512, part: str | None = None) -> Changes:
        """What was withdrawn since ``revision``, of a divided directory from the named part.

        ``room``: how many bytes longer than the bare request it is made, and so the answer may be.
        """
        if part is None and self._map is not None:
            names = ", ".join(it.name for it in self._map.parts)
            raise ValueError(f"the directory is divided, and each part has revisions of its own: sync with part=, one of {names}")
        servers = self._servers_of(part)
        body = struct.pack(">QI", revision, policy) + bytes(room)
        reader = self._ask(servers, 0x03, body, lambda _, answer: self._is_of_now(answer))
        revision, policy = self._note(servers, reader)
        reconfirm = bool(reader.u8())
        withdrawn = tuple((reader.u64(), reader.key()) for _ in range(reader.u8()))
        reader.end()
        return Changes(revision, policy, reconfirm, withdrawn)

    def health(self, *, part: str | None = None) -> Vitals:
        """The state of one of the servers: of those that the client was given, or of the named part."""
        return self._health(self._servers_of(part))

    def parts(self) -> tuple[Part, ...]:
        """The parts of the directory, by its newest policy; none if it is not divided."""
        known = self._map is not None and self._learn_from_others()
        for peer, until in self._given.turns(0.02, time.monotonic() + self._timeout):
            if known or self._learn(peer, until) or peer.knows_no_map():
                return self._map.parts if self._map else ()
        raise DirectoryError(f"{self._given}: no answer within {self._timeout:g} s; is the server up?")

    def close(self) -> None:
        """Closes the sockets."""
        for servers in (self._given, *self._parts.values()):
            servers.close()

    def __enter__(self) -> "Directory":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _find(self, servers: Servers, keys: Sequence[str], asker: str | None, at_least: int, asked: "_Asked") -> list[Finding]:
        """The findings of the first keys, at least of one."""
        body = struct.pack(">Q", at_least) + (emit_key(asker) if asker else b"\0") + bytes([len(keys)])
        # A server looks askers of other parts up there, and says "elsewhere" until it knows.
        waits = asker is not None and self._home(asker) is not servers
        findings: list[Finding] = []

        def accept(peer: Peer, reader: Reader) -> bool:
            nonlocal findings
            if not self._is_of_now(reader):
                return False
            count = reader.u8()
            if not 1 <= count <= len(keys):
                raise DirectoryError(f"{count} findings for {len(keys)} keys")
            findings = [reader.finding(key) for key in keys[:count]]
            reader.end()
            if all(finding.kind != "elsewhere" for finding in findings):
                return True
            self._learn_after_elsewhere(peer, asked, self.policy)
            if any(self._home(key) is not servers for key in keys):
                raise _MovedError
            return not waits

        try:
            reader = self._ask(servers, 0x01, body + b"".join(map(emit_key, keys)), accept, keys)
            self._note(servers, reader)
        except DirectoryError:
            if not findings:
                raise
        return findings

    def _write(
        self,
        servers: Servers,
        ops: Sequence[Op],
        number: int,
        known: int,
        copies: "_Copies",
        deadline: float,
        asked: "_Asked",
    ) -> Acknowledgement:
        """Sends copies of an update to the servers of one store until one says what became of it."""
        body = struct.pack(">QQB", number, known, len(ops)) + b"".join(map(emit_op, ops))
        why, declined = "no answer", False
        for peer, until in self._turns(servers, 2.0, deadline):
            if self._writer(ops, copies) is not servers:
                raise _MovedError
            if declined and not copies.in_doubt and until - time.monotonic() < LAST_ATTEMPT:
                break  # A copy without an answer would put in doubt what is certain now: that none was applied.
            answer = peer.ask(0x02, body, until)
            if peer.in_doubt:
                copies.sent(servers, peer)
            why = peer.why
            if answer is None:
                continue
            reader = Reader(answer)
            said = Acknowledgement(reader.u64(), reader.one_of(OUTCOMES), reader.u8(), reader.u64())
            reader.end()
            if said.outcome == "elsewhere":
                why, declined = "it cannot take updates now", True
                self._learn_after_elsewhere(peer, asked)
                if self._writer(ops, copies) is not servers:
                    raise _MovedError
                continue
            if copies.in_doubt and said.outcome not in ("committed", "unknown"):
                said = Acknowledgement(number, "unknown", 0, 0)
            servers.prefer(peer)
            servers.revision = max(servers.revision, said.generation)
            self.revision = max(self.revision, said.generation)
            return said
        if copies.in_doubt:
            raise InDoubtError(f"{servers}: {why}; the update may have been applied or not", number, known)
        raise DirectoryError(f"{servers}: {why} within {self._timeout:g} s; the update was not applied")

    def _health(self, servers: Servers, keys: Sequence[str] = ()) -> Vitals:
        reader = self._ask(servers, 0x04, b"", keys=keys)
        state = reader.one_of(STATES)
        revision, policy = self._note(servers, reader)
        vitals = Vitals(state, revision, policy, reader.u64(), reader.u64())
        reader.end()
        return vitals

    def _is_of_now(self, reader: Reader) -> bool:
        """Reads the head of an answer: whether it is of no older policy than was seen."""
        reader.u64()
        policy = reader.u32()
        if policy < self.policy:
            return False
        self.policy = policy
        return True

    def _note(self, servers: Servers, reader: Reader) -> tuple[int, int]:
        revision, policy = reader.u64(), reader.u32()
        servers.revision = max(servers.revision, revision)
        self.revision, self.policy = max(self.revision, revision), max(self.policy, policy)
        return revision, policy

    def _ask(
        self,
        servers: Servers,
        kind: int,
        body: bytes,
        accept: Callable[[Peer, Reader], bool] | None = None,
        keys: Sequence[str] = (),
    ) -> Reader:
        """Asks the servers in turn until an answer is accepted; :class:`_MovedError` when one of the keys has others."""
        why, version = "no answer", self._map_version
        for peer, until in self._turns(servers, 0.02, time.monotonic() + self._timeout):
            if self._map_version != version and any(self._home(key) is not servers for key in keys):
                raise _MovedError
            answer = peer.ask(kind, body, until)
            if answer is not None and (accept is None or accept(peer, Reader(answer))):
                servers.prefer(peer)
                if self._map is not None and self.policy > self._map_version:
                    self._learn(peer, time.monotonic() + MAP_TIMEOUT)
                return Reader(answer)
            why = "it cannot say" if answer is not None else peer.why
        raise DirectoryError(
            f"{servers}: {why} within {self._timeout:g} s; is the server up, and is the key principal {self._principal}'s?"
        )

    def _turns(self, servers: Servers, timeout: float, deadline: float) -> Iterator[tuple[Peer, float]]:
        """Server after server of one store. While none of a part answers, others may know that the part has other servers now."""
        ask_others = 0.0
        for count, turn in enumerate(servers.turns(timeout, deadline), 1):
            yield turn
            silent = count >= len(servers.peers) and all(peer.why for peer in servers.peers)
            if self._map is not None and silent and time.monotonic() >= ask_others:
                self._learn_from_others(servers)
                ask_others = time.monotonic() + ASK_OTHERS

    def _home(self, key: str) -> Servers:
        """The servers that have a key."""
        return self._given if self._map is None else self._of_part(self._map.part_of(key))

    def _of_part(self, part: Part) -> Servers:
        if part.name not in self._parts:
            self._parts[part.name] = Servers(part.servers, self._principal, self._key, part.name)
        return self._parts[part.name]

    def _writer(self, ops: Sequence[Op], copies: "_Copies") -> Servers:
        """The servers that an update is sent to. Copies in doubt stay with their store: another one does not know of them."""
        homes = {self._home(op.key): op.key for op in ops}
        home, key = next(iter(homes.items()))
        if copies.servers is None and len(homes) > 1:
            other, other_key = list(homes.items())[1]
            raise ValueError(f"`{key}` is of {home} and `{other_key}` of {other}: send an update for each part")
        same_store = copies.servers is self._given and copies.names <= {peer.name for peer in home.peers}
        return home if copies.servers is None or (same_store and len(homes) == 1) else copies.servers

    def _servers_of(self, part: str | None) -> Servers:
        if part is None:
            return self._given
        parts = {it.name: it for it in (self._map.parts if self._map else ())}
        if part not in parts:
            parts = {it.name: it for it in self.parts()}
        if part not in parts:
            valid = f"use one of {', '.join(parts)}" if parts else "it is not divided"
            raise ValueError(f"the directory has no part `{part}`: {valid}")
        return self._of_part(parts[part])

    def _learn_after_elsewhere(self, peer: Peer, asked: "_Asked", policy: int | None = None) -> None:
        """A server has said "elsewhere", under this policy: does another part have the key? Asks once per call and policy."""
        if policy in asked or (policy is not None and policy <= self._map_version):
            return
        asked.add(policy)
        self._learn(peer, time.monotonic() + MAP_TIMEOUT)

    def _learn_from_others(self, servers: Servers | None = None) -> bool:
        """Asks a server of any part but this; whether one has answered."""
        deadline = time.monotonic() + MAP_TIMEOUT
        others = [it for it in (*self._parts.values(), self._given) if it is not servers]
        return any(self._learn(it.preferred, min(deadline, time.monotonic() + MAP_TIMEOUT / 5)) for it in others)

    def _learn(self, peer: Peer, deadline: float) -> bool:
        """Asks a server how the directory is divided; whether it has answered."""
        answer = peer.ask_map(deadline)
        if answer is not None and answer[0] > self._map_version:
            version, data = answer
            self._map = read_map(version, data) if data else None
            self._map_version = version
            for part in self._map.parts if self._map else ():
                if part.name in self._parts:
                    self._parts[part.name].set(part.servers)
        return answer is not None


#: The policies under which a server was asked for the map during a call; None: an answer did not name its policy.
_Asked: TypeAlias = set[int | None]


class _MovedError(Exception):
    """By a map that was just learned, other servers have the keys."""


@dataclass
class _Copies:
    """Copies of an update that a server may have applied, or may apply yet.

    Attributes:
        in_doubt: whether there may be any, of this client or an earlier one.
        servers: to which this client sent some.
        names: those of them that it sent them to, as a map names them.
    """

    in_doubt: bool
    servers: Servers | None = None
    names: set[str] = field(default_factory=set)

    def sent(self, servers: Servers, peer: Peer) -> None:
        self.in_doubt, self.servers = True, servers
        self.names.add(peer.name)


class InDoubtError(DirectoryError):
    """An update was sent, and no server said in time what became of it.

    Attributes:
        number, known: what to give :meth:`Directory.update` with the same operations to find out.
    """

    def __init__(self, message: str, number: int, known: int) -> None:
        super().__init__(message)
        self.number = number
        self.known = known


class Stream:
    """Asks one server over a bare TCP connection (``weft directory serve --auth mac``): what needs more than a datagram.

    Of a divided directory, it lists and watches that server's part. Documents are in the default part (:meth:`Directory.parts`).
    """

    def __init__(self, server: str, principal: int, key: str | bytes, *, timeout: float | None = 5.0) -> None:
        self._session = Session(principal, key_bytes(key))
        self._socket = socket.create_connection(socket_address(server), timeout)

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
            reader = Reader(frame[2])

    def document(self, name: str) -> tuple[int, bytes] | None:
        """The version and the bytes of a named document, such as ``tenants``; None if there is none."""
        for _ in range(5):
            data, held = b"", None
            while held is None or len(data) < held[1]:
                reader = self._ask(0x13, emit_name(name) + struct.pack(">IQ", 0, len(data)))
                outcome, version, length = reader.u8(), reader.u32(), reader.u64()
                if outcome == 1:
                    return None
                if outcome != 0:
                    raise DirectoryError("the server's store does not answer, and it has not read the document before")
                if reader.u64() != len(data) or (held is not None and held != (version, length)):
                    break
                held, part = (version, length), reader.rest()
                data += part
                if not part and len(data) < length:
                    raise DirectoryError("an empty part, and yet more")
            else:
                return held[0], data
        raise DirectoryError(f"the document `{name}` changes faster than it can be read")

    def publish(self, name: str, document: bytes, *, expect: int, version: int) -> Published:
        """Replaces version ``expect`` of a document (0: there is none); ``version`` is greater than that.

        Its ``outcome`` is ``committed``, ``refused``, ``conflict``, ``unknown`` (send it again) or ``malformed``.
        """
        offset = 0
        while True:
            part = document[offset : offset + DOCUMENT_PART]
            head = struct.pack(">IIQQ", expect, version, len(document), offset)
            reader = self._ask(0x14, emit_name(name) + head + part)
            answer = Published(reader.one_of(PUBLISH_OUTCOMES), reader.u32())
            offset += len(part)
            if answer.outcome != "more" or offset >= len(document):
                return answer

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _ask(self, kind: int, body: bytes) -> Reader:
        while True:
            message = self._session.seal(kind, body)
            self._socket.sendall(struct.pack(">H", len(message)) + message)
            while (frame := self._session.open(self._receive())) is None or frame[0] not in (0x80, kind | 0x80):
                pass
            if frame[0] != 0x80:
                return Reader(frame[2])

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


def principal_key(secret: str | bytes, principal: int) -> bytes:
    """The key of a principal, from the cluster's secret."""
    name = b"weft principal" + struct.pack(">I", principal)
    return hashlib.blake2b(name, key=key_bytes(secret), digest_size=32).digest()
