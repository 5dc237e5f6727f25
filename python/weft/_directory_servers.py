"""Conversations with the directory's servers: with one of them, and with those that have the same store."""

import hashlib
import hmac
import secrets
import socket
import struct
import time
from collections.abc import Iterable, Iterator

from weft._directory_parts import MAX_MAP
from weft._directory_wire import MAX_DATAGRAM, DirectoryError, Reader

#: Bytes of zeros in a question for the map of parts: they let the answer fill a datagram.
MAP_ROOM = 160
#: A server that so many times answered only what was asked after the question for the map does not know that question.
MAP_TRIES = 3
#: How long a server that does not know the question is not asked again, in seconds.
MAP_PAUSE = 60.0


class Session:
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


class Peer(Session):
    """One server over UDP."""

    def __init__(self, server: str, principal: int, key: bytes) -> None:
        super().__init__(principal, key)
        self.server = server
        address = socket_address(server)
        family = socket.getaddrinfo(*address, type=socket.SOCK_DGRAM)[0][0]
        self.socket = socket.socket(family, socket.SOCK_DGRAM)
        self.socket.connect(address)
        #: As a map of parts names it.
        self.name = _name(self.socket.getpeername())
        self.in_doubt, self.why = False, ""
        #: Under this cookie the server does not know the question for the map, until then.
        self._no_map = (0, 0.0)

    def ask(self, kind: int, body: bytes, deadline: float) -> bytes | None:
        """The body of the answer, None if there is none in time (``why`` says the reason). A challenge is answered at once.

        ``in_doubt`` afterwards: a copy that had a cookie was not answered, or challenged; without a cookie none is ever taken.
        """
        self.in_doubt, self.why, had_cookie = False, "no answer", False
        try:
            had_cookie, first = self._send(kind, body)
            while (frame := self._receive(first, deadline)) is not None:
                if frame[0] == 0x80:
                    self.in_doubt |= had_cookie
                    had_cookie, first = self._send(kind, body)
                elif frame[0] == kind | 0x80:
                    self.why = ""
                    return frame[2]
        except ConnectionRefusedError:
            self.why = "nobody listens there"
        self.in_doubt |= had_cookie
        return None

    def knows_no_map(self) -> bool:
        """Whether it did not know the question for the map a moment ago: a server of before."""
        cookie, until = self._no_map
        return cookie == self._cookie and time.monotonic() < until

    def ask_map(self, deadline: float) -> tuple[int, bytes] | None:
        """The version and the bytes of the map of parts, no bytes if the directory is not divided; None if it does not answer."""
        version, data = 0, b""
        while (page := self._ask_page(len(data), deadline)) is not None:
            reader = Reader(page)
            found, length, at, part = reader.u32(), reader.u32(), reader.u32(), reader.rest()
            if length > MAX_MAP or (length and at < length and not part):
                raise DirectoryError(f"{self.server}: a map of {length} bytes, and a page of {len(part)}")
            if (found, at) != (version, len(data)):
                # The policy has changed since the first page.
                version, data = found, b""
            if at == len(data):
                data += part
            if len(data) >= length:
                return version, data
        return None

    def _ask_page(self, at: int, deadline: float) -> bytes | None:
        """The bytes of a page.

        A server of before drops the question. So that it is not waited for, a question for its health follows: if that alone is
        answered several times, it does not know the other.
        """
        if self.knows_no_map():
            return None
        body = struct.pack(">I", at) + bytes(MAP_ROOM)
        tries, first, timeout = 0, None, 0.02
        try:
            while tries < MAP_TRIES and (now := time.monotonic()) < deadline:
                _, asked = self._send(0x09, body)
                _, after = self._send(0x04, b"")
                first = asked if first is None else first
                while (frame := self._receive(first, min(deadline, now + timeout))) is not None:
                    if frame[0] == 0x89 and frame[2][8:12] == body[:4]:
                        return frame[2]
                    if frame[1] >= asked and frame[0] == 0x80:
                        break
                    if frame[1] >= after and frame[0] == 0x84:
                        tries += 1
                        break
                else:
                    timeout = min(2.0, timeout * 2)
        except ConnectionRefusedError:
            return None
        if tries == MAP_TRIES:
            self._no_map = (self._cookie, time.monotonic() + MAP_PAUSE)
        return None

    def _send(self, kind: int, body: bytes) -> tuple[bool, int]:
        """Sends it; whether it had a cookie, and its request's number."""
        had_cookie = self._cookie != 0
        message = self.seal(kind, body)
        if len(message) > MAX_DATAGRAM:
            raise ValueError(f"{len(message)} bytes do not fit a datagram of {MAX_DATAGRAM}: ask for less at once")
        self.socket.send(message)
        return had_cookie, self._request

    def _receive(self, first: int, deadline: float) -> tuple[int, int, bytes] | None:
        """The next message for us that answers the request of this number, or one after it; None if there is none in time."""
        while (left := deadline - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame = self.open(self.socket.recv(65_535))
            except TimeoutError:
                break
            if frame is not None and frame[1] >= first:
                return frame
        return None


class Servers:
    """The servers of one store: of a part, or of a directory that is not divided."""

    #: The newest revision in any answer.
    revision: int

    def __init__(self, servers: Iterable[str], principal: int, key: bytes, part: str | None = None) -> None:
        """``part``: the part's name, None if it is not known that there are any."""
        self.part = part
        self.peers = [Peer(server, principal, key) for server in servers]
        self.revision = 0
        self._principal = principal
        self._key = key
        #: Who is asked first.
        self.preferred = self.peers[secrets.randbelow(len(self.peers))]

    def set(self, servers: Iterable[str]) -> None:
        """These are its servers from now on."""
        before = {peer.server: peer for peer in self.peers}
        self.peers = [before.get(server) or Peer(server, self._principal, self._key) for server in servers]
        for peer in before.values():
            if peer not in self.peers:
                peer.socket.close()
        if self.preferred not in self.peers:
            self.prefer(self.peers[0])

    def prefer(self, peer: Peer) -> None:
        """Asks this one first from now on, if it is one of them."""
        if peer in self.peers:
            self.preferred = peer

    def turns(self, timeout: float, deadline: float) -> Iterator[tuple[Peer, float]]:
        """Server after server, and until when it is asked: for ``timeout`` seconds, doubled after each round up to 2."""
        turn, asked = self.peers.index(self.preferred), 0
        while (now := time.monotonic()) < deadline:
            until = min(deadline, now + timeout)
            yield self.peers[turn % len(self.peers)], until
            # Who says no at once is not asked again at once.
            time.sleep(max(0.0, min(0.01, until - time.monotonic())))
            turn, asked = turn + 1, asked + 1
            if asked % len(self.peers) == 0:
                timeout = min(2.0, timeout * 2)

    def close(self) -> None:
        """Closes the sockets."""
        for peer in self.peers:
            peer.socket.close()

    def __str__(self) -> str:
        names = ", ".join(peer.server for peer in self.peers)
        return names if self.part is None else f"part `{self.part}` ({names})"


def key_bytes(key: str | bytes) -> bytes:
    """The bytes of a key that may be written in hexadecimal digits."""
    data = bytes.fromhex(key) if isinstance(key, str) else key
    if len(data) != 32:
        raise ValueError("a key is 32 bytes, or 64 hexadecimal digits: `weft directory key` prints one")
    return data


def socket_address(server: str) -> tuple[str, int]:
    """Host and port of ``host:port``."""
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"`{server}` is not an address: write host:port")
    return host.strip("[]"), int(port)


def _name(address: tuple[str, int]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
