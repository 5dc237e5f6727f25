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
import secrets
import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import TracebackType

from weft._directory_wire import (
    DOCUMENT_PART,
    MAX_DATAGRAM,
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
    "Published",
    "Stream",
    "Value",
    "Vitals",
]

#: How much time the last copy of an update must have at least, in seconds.
LAST_ATTEMPT = 0.1


class Directory:
    """Asks directory servers over UDP. Not for use by several threads at once."""

    #: The newest revision and policy in any answer.
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

        After :class:`InDoubtError` it may have been applied or not; the same again, with the error's ``number`` and ``known``,
        finds out, and never applies it twice. After any other error it was not applied, and will not be.
        """
        if not 1 <= len(ops) <= MAX_OPS:
            raise ValueError(f"an update has 1 to {MAX_OPS} operations, not {len(ops)}")
        if known is None:
            known = self.revision or self.health().revision
        # A server speaks of the copy that it was sent. Is there another that may have been applied, or may be yet?
        in_doubt = number is not None
        number = secrets.randbits(64) if number is None else number
        body = struct.pack(">QQB", number, known, len(ops)) + b"".join(map(emit_op, ops))
        why, declined = "no answer", False
        for turn, peer, until in self._turns(timeout=2.0):
            if declined and not in_doubt and until - time.monotonic() < LAST_ATTEMPT:
                break  # A copy without an answer would put in doubt what is certain now: that none was applied.
            answer = peer.ask(0x02, body, until)
            in_doubt |= peer.in_doubt
            why = peer.why
            if answer is None:
                continue
            reader = Reader(answer)
            said = Acknowledgement(reader.u64(), reader.one_of(OUTCOMES), reader.u8(), reader.u64())
            reader.end()
            if said.outcome == "elsewhere":
                why, declined = "it cannot take updates now", True
                continue
            if in_doubt and said.outcome not in ("committed", "unknown"):
                said = Acknowledgement(number, "unknown", 0, 0)
            self._first = turn
            self.revision = max(self.revision, said.generation)
            return said
        if in_doubt:
            raise InDoubtError(f"{self._names()}: {why}; the update may have been applied or not", number, known)
        raise DirectoryError(f"{self._names()}: {why} within {self._timeout:g} s; the update was not applied")

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

    def _is_of_now(self, reader: Reader) -> bool:
        """Whether the answer is of no older policy than was seen; a peek at what :meth:`_note` reads."""
        reader.u64()
        return reader.u32() >= self.policy

    def _note(self, reader: Reader) -> tuple[int, int]:
        revision, policy = reader.u64(), reader.u32()
        self.revision, self.policy = max(self.revision, revision), max(self.policy, policy)
        return revision, policy

    def _ask(self, kind: int, body: bytes, accept: Callable[[Reader], bool] | None = None) -> Reader:
        """Asks the servers in turn until an answer is accepted."""
        why = "no answer"
        for turn, peer, until in self._turns(timeout=0.02):
            answer = peer.ask(kind, body, until)
            if answer is not None and (accept is None or accept(Reader(answer))):
                self._first = turn
                return Reader(answer)
            why = "it cannot say" if answer is not None else peer.why
        name = self._peers[0].principal
        raise DirectoryError(
            f"{self._names()}: {why} within {self._timeout:g} s; is the server up, and is the key principal {name}'s?"
        )

    def _turns(self, timeout: float) -> "Iterator[tuple[int, _Peer, float]]":
        """Server after server, and until when it is asked: for ``timeout`` seconds, doubled after each round up to 2."""
        deadline = time.monotonic() + self._timeout
        turn = self._first
        while (now := time.monotonic()) < deadline:
            until = min(deadline, now + timeout)
            yield turn, self._peers[turn % len(self._peers)], until
            # Who says no at once is not asked again at once.
            time.sleep(max(0.0, min(0.01, until - time.monotonic())))
            turn += 1
            if (turn - self._first) % len(self._peers) == 0:
                timeout = min(2.0, timeout * 2)

    def _names(self) -> str:
        return ", ".join(f"{peer.address[0]}:{peer.address[1]}" for peer in self._peers)


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
        if (magic, kind, principal) == (b"WD", 0xFF, self.principal) and hmac.compare_digest(tag, right):
            raise DirectoryError(f"the server speaks version {version} of the protocol, this client version 1")
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
        self.in_doubt, self.why = False, ""

    def ask(self, kind: int, body: bytes, deadline: float) -> bytes | None:
        """The body of the answer, None if there is none in time (``why``). A challenge is answered at once.

        ``in_doubt`` afterwards: a copy that had a cookie was not answered, or challenged; without a cookie none is ever taken.
        """
        self.in_doubt, self.why, had_cookie = False, "no answer", False
        try:
            had_cookie, first = self._send(kind, body)
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                frame = self.open(self.socket.recv(65_535))
                if frame is None or frame[1] < first:
                    continue
                if frame[0] == 0x80:
                    self.in_doubt |= had_cookie
                    had_cookie, first = self._send(kind, body)
                elif frame[0] == kind | 0x80:
                    return frame[2]
        except TimeoutError:
            pass
        except ConnectionRefusedError:
            self.why = "nobody listens there"
        self.in_doubt |= had_cookie
        return None

    def _send(self, kind: int, body: bytes) -> tuple[bool, int]:
        """Sends it; whether it had a cookie, and its request's number."""
        had_cookie = self._cookie != 0
        message = self.seal(kind, body)
        if len(message) > MAX_DATAGRAM:
            raise ValueError(f"{len(message)} bytes do not fit a datagram of {MAX_DATAGRAM}: ask for less at once")
        self.socket.send(message)
        return had_cookie, self._request


def principal_key(secret: str | bytes, principal: int) -> bytes:
    """The key of a principal, from the cluster's secret."""
    name = b"weft principal" + struct.pack(">I", principal)
    return hashlib.blake2b(name, key=_key_bytes(secret), digest_size=32).digest()


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
