"""The client of the directory: its bytes, its manners towards a bad network, and a real server."""

import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from weft import _directory_servers as servers
from weft import _directory_wire as wire
from weft import directory
from weft.directory import Directory, DirectoryError, InDoubtError, Mapping, Op, Published, Stream

SECRET = bytes(range(32))
KEY = directory.principal_key(SECRET, 7)


def test_the_key_of_a_principal() -> None:
    assert KEY.hex() == "4007471deb4c8fd380b775c9dc467995c8d904ac60ce026dd084b14ebd65306c"
    assert directory.principal_key(SECRET.hex(), 7) == KEY


def test_a_server_of_another_version_is_named() -> None:
    session = servers.Session(7, KEY)
    message = struct.pack(">2sBBIQQ", b"WD", 2, 0xFF, 7, 0, 1)
    with pytest.raises(DirectoryError, match="speaks version 2 of the protocol"):
        session.open(message + hashlib.blake2b(message, key=KEY, digest_size=16).digest())
    assert session.open(message + bytes(16)) is None, "a wrong tag"


KEYS = {
    "10.0.0.7": "01 0a000007",
    "2001:db8::7": "02 20010db8000000000000000000000007",
    "tenant:5/9/02:00:00:00:00:01": "03 000005 00000009 020000000001",
    "tenant:5/9/10.0.0.7": "04 000005 00000009 0a000007",
    "tenant:16777215/0/::1": "05 ffffff 00000000 00000000000000000000000000000001",
    "group:3": "06 0003",
}


@pytest.mark.parametrize("text", KEYS)
def test_the_bytes_of_keys(text: str) -> None:
    data = bytes.fromhex(KEYS[text])
    assert wire.emit_key(text) == data
    assert wire.Reader(data).key() == text


VALUES: list[tuple[directory.Value, str]] = [
    (Mapping("10.0.1.1", 3, 1, 17, 60_000), "01 0a000101 0003 00000001 00000011 0000ea60"),
    (Mapping("::2", mac="02:00:00:00:00:09", lease_ms=0), f"82 {2:032x} 0000 00000000 00000000 00000000 020000000009"),
    (Mapping("edge:02:00:00:00:00:09/12", lease_ms=1), "03 020000000009 000c 0000 00000000 00000000 00000001"),
    (("10.9.0.1", "::9"), f"10 02 04 0a090001 06 {9:032x}"),
]


@pytest.mark.parametrize(("value", "text"), VALUES)
def test_the_bytes_of_values(value: directory.Value, text: str) -> None:
    data = bytes.fromhex(text)
    assert wire.emit_value(value) == data
    assert wire.Reader(data[1:]).value(data[0]) == value


@pytest.mark.parametrize("text", ["", "10.0.0", "tenant:5/0", "tenant:16777216/0/::1", "group:x", "group:70000"])
def test_what_is_no_key(text: str) -> None:
    with pytest.raises((ValueError, OverflowError, struct.error)):
        wire.emit_key(text)


class Peer:
    """A server of a few lines: it challenges, and leaves the answer to the test."""

    def __init__(self, answer: Callable[[int, int, bytes], list[bytes]]) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.requests: list[tuple[int, int]] = []
        self.kinds: list[int] = []
        self._answer = answer
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                data, sender = self.socket.recvfrom(65_535)
            except OSError:
                return
            assert data[-16:] == hashlib.blake2b(data[:-16], key=KEY, digest_size=16).digest()
            magic, version, kind, principal, cookie, request = struct.unpack(">2sBBIQQ", data[:24])
            assert (magic, version, principal) == (b"WD", 1, 7)
            self.requests.append((cookie, request))
            self.kinds.append(kind)
            if cookie != 99:
                self.socket.sendto(message(0x80, request), sender)
                continue
            for answer in self._answer(kind, request, data[24:-16]):
                self.socket.sendto(answer, sender)


def message(kind: int, request: int, body: bytes = b"", key: bytes = KEY) -> bytes:
    covered = struct.pack(">2sBBIQQ", b"WD", 1, kind, 7, 99, request) + body
    return covered + hashlib.blake2b(covered, key=key, digest_size=16).digest()


VITALS = struct.pack(">BQIQQ", 1, 42, 3, 10, 2**63)


def test_a_challenge_is_met_once() -> None:
    peer = Peer(lambda kind, request, body: [message(0x84, request, VITALS)])
    with Directory([peer.address], 7, KEY) as client:
        for _ in range(3):
            assert client.health() == directory.Vitals("serving", 42, 3, 10, 2**63)
        assert [cookie for cookie, _ in peer.requests] == [0, 99, 99, 99]
        first = peer.requests[0][1]
        assert [request - first for _, request in peer.requests] == [0, 1, 2, 3]
        assert (client.revision, client.policy) == (42, 3)
    peer.socket.close()


def test_forged_and_old_answers_are_ignored_and_lost_ones_asked_for_again() -> None:
    turns = iter(range(100))

    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        forged = message(0x84, request, bytes(29), key=bytes(32))
        old = message(0x84, request - 1, bytes(29))
        if next(turns) < 3:
            return [forged, old, b"", b"WD"]
        return [forged, old, message(0x84, request, VITALS)]

    peer = Peer(answer)
    with Directory([peer.address], 7, KEY.hex()) as client:
        assert client.health().revision == 42
    peer.socket.close()


def test_a_server_that_cannot_say_is_passed_over() -> None:
    def elsewhere(kind: int, request: int, body: bytes) -> list[bytes]:
        return [message(0x82, request, body[:8] + bytes([3, 0]) + bytes(8))]

    def committed(kind: int, request: int, body: bytes) -> list[bytes]:
        return [message(0x82, request, body[:8] + bytes([0, 0]) + struct.pack(">Q", 77))]

    first, second = Peer(elsewhere), Peer(committed)
    with Directory([first.address, second.address], 7, KEY) as client:
        for _ in range(3):
            answer = client.update([Op("10.0.0.7")], known=5, number=12)
            assert answer == directory.Acknowledgement(12, "committed", 0, 77)
    first.socket.close()
    second.socket.close()


def said(outcome: int, generation: int = 7) -> Callable[[int, int, bytes], list[bytes]]:
    """A server that says the same of every update, and is well."""

    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        if kind == 0x04:
            return [message(0x84, request, VITALS)]
        return [message(0x82, request, body[:8] + bytes([outcome, 0]) + struct.pack(">Q", generation))]

    return answer


def silent(kind: int, request: int, body: bytes) -> list[bytes]:
    """A server that takes updates and says nothing of them."""
    return [message(0x84, request, VITALS)] if kind == 0x04 else []


OF_ONE_COPY = {1: "refused", 2: "conflict", 5: "malformed", 6: "stale"}


@pytest.mark.parametrize("outcome", OF_ONE_COPY)
def test_of_the_only_copy_every_outcome_holds(outcome: int) -> None:
    elsewhere, peer = Peer(said(3)), Peer(said(outcome))
    with Directory([elsewhere.address, peer.address], 7, KEY) as client:
        answer = client.put("10.0.0.7", Mapping("10.0.1.1"))
        assert (answer.outcome, answer.generation) == (OF_ONE_COPY[outcome], 7)
    elsewhere.socket.close()
    peer.socket.close()


@pytest.mark.parametrize("outcome", OF_ONE_COPY)
def test_with_another_copy_in_flight_nobody_knows(outcome: int) -> None:
    peer = Peer(said(outcome))
    with Directory([peer.address], 7, KEY) as client:
        again = client.update([Op("10.0.0.7")], number=12, known=5)
        assert again == directory.Acknowledgement(12, "unknown", 0, 0), "an earlier call may have sent a copy"
    first = Peer(silent)
    with Directory([first.address, peer.address], 7, KEY) as client:
        client._given.prefer(client._given.peers[0])
        assert client._given.peers[0].ask(0x04, b"", time.monotonic() + 10), "it gives a cookie"
        assert client.put("10.0.0.7", Mapping("10.0.1.1")).outcome == "unknown"
    first.socket.close()
    peer.socket.close()


def test_committed_is_final_whichever_copy_it_answers() -> None:
    first, second = Peer(silent), Peer(said(0))
    with Directory([first.address, second.address], 7, KEY) as client:
        client._given.prefer(client._given.peers[0])
        assert client._given.peers[0].ask(0x04, b"", time.monotonic() + 10), "it gives a cookie"
        assert client.put("10.0.0.7", Mapping("10.0.1.1")).outcome == "committed"
    first.socket.close()
    second.socket.close()


def test_at_the_end_of_its_time_an_update_is_in_doubt() -> None:
    peer = Peer(silent)
    with Directory([peer.address], 7, KEY, timeout=2.0) as client, pytest.raises(InDoubtError) as error:
        client.delete("10.0.0.7")
    assert error.value.known == 42 and error.value.number > 0
    peer.socket.close()


class Clock:
    """The system's clock, in which a pause lasts 3 s and is over at once: no load on the machine uses up a client's time."""

    def __init__(self) -> None:
        self.paused = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.paused

    def sleep(self, seconds: float) -> None:
        self.paused += 3.0


def test_at_the_end_of_its_time_an_update_whose_copies_are_all_dead_was_not_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    peer = Peer(said(3))
    with Directory([peer.address], 7, KEY, timeout=9.05) as client:
        assert client.health().revision == 42
        clock = Clock()
        monkeypatch.setattr(directory, "time", clock)
        monkeypatch.setattr(servers, "time", clock)
        with pytest.raises(DirectoryError, match="was not applied") as refused:
            client.delete("10.0.0.7")
        assert not isinstance(refused.value, InDoubtError)
        assert peer.kinds.count(0x02) == 3, "after 0, 3 and 6 s, not with 50 ms left"
    peer.socket.close()


def test_answers_without_room_for_all_are_asked_for_the_rest() -> None:
    def answer(kind: int, request: int, body: bytes) -> list[bytes]:
        assert body[8] == 0
        count = min(3, body[9])
        finding = b"\1" + struct.pack(">Q", 42)
        return [message(0x81, request, struct.pack(">QIB", 42, 3, count) + finding * count)]

    peer = Peer(answer)
    keys = [f"10.0.0.{i}" for i in range(40)]
    with Directory([peer.address], 7, KEY) as client:
        assert [f.key for f in client.look_up(*keys)] == keys
    peer.socket.close()


def test_nobody_there() -> None:
    with Directory(["127.0.0.1:9"], 7, KEY, timeout=0.1) as client, pytest.raises(DirectoryError, match="is the server up"):
        client.health()


def program(name: str) -> Path:
    """The program beside the tests' build, the newer of debug and release."""
    built = [path for kind in ("debug", "release") if (path := ROOT / "target" / kind / name).is_file()]
    if not built:
        assert not os.environ.get("CI"), f"{name} is not built: cargo build -p weft-directory -p weft-agent"
        pytest.skip(f"{name} is not built")
    return max(built, key=lambda path: path.stat().st_mtime)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A real server with a fresh store, whose address and administrator's key it gives."""
    weft_directory = str(program("weft-directory"))
    folder = str(tmp_path / "directory")
    subprocess.run([weft_directory, "init", folder], check=True, capture_output=True)
    command = [weft_directory, "serve", "--dir", folder, "--listen", "127.0.0.1:0", "--metrics", "off", "--auth", "mac", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = json.loads(process.stdout.readline())
        key = directory.principal_key((tmp_path / "directory" / "secret").read_text(), 2)
        yield line["listen"], key.hex()
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
        shutil.rmtree(folder)


def test_a_real_server(server: tuple[str, str]) -> None:
    address, key = server
    value = Mapping("10.0.1.1", owner=2, mac="02:00:00:00:00:01")
    with Directory([address], 2, key) as client:
        before = client.health()
        assert (before.state, before.entries) == ("serving", 0)
        assert [f.kind for f in client.look_up("10.0.0.7", "10.0.0.8")] == ["unknown", "unknown"]

        put = client.put("10.0.0.7", value)
        assert put.outcome == "committed"
        again = client.update([Op("10.0.0.7", value)], number=put.number, known=before.revision)
        assert again == put, "the same update is applied once"
        (found,) = client.look_up("10.0.0.7", at_least=put.generation)
        assert (found.kind, found.generation, found.value) == ("found", put.generation, value)

        assert client.put("10.0.0.7", value, expect=0).outcome == "conflict"
        assert client.update([Op("10.0.0.9", value), Op("10.0.0.9")]).outcome == "malformed"
        both = client.update([Op("10.0.0.8", value), Op("group:3", ("10.9.0.1", "::9"))])
        assert both.outcome == "committed" and client.health().entries == 3

        gone = client.delete("10.0.0.7")
        changes = client.sync(put.generation, client.policy)
        assert changes.reconfirm or (gone.generation, "10.0.0.7") in changes.withdrawn
        assert client.look_up("10.0.0.7")[0].kind == "unknown"
        assert client.look_up("10.0.0.7", at_least=gone.generation + 1000)[0].kind == "elsewhere"
        assert client.parts() == () and client._map_version == client.policy, "it is not divided"


def test_list_and_watch_of_a_real_server(server: tuple[str, str]) -> None:
    address, key = server
    with Directory([address], 2, key) as client:
        begin = client.health().revision
        for i in range(40):
            assert client.put(f"10.0.0.{i}", Mapping("10.0.1.1")).outcome == "committed"
        client.delete("10.0.0.3")
    stream = Stream(address, 2, key)
    entries = list(stream.list(limit=7))
    assert [entry.key for entry in entries] == [f"10.0.0.{i}" for i in range(40) if i != 3]
    seen: dict[str, directory.Value | None] = {}
    deadline = time.monotonic() + 5
    for _, _, changed in stream.watch(begin):
        seen.update((entry.key, entry.value) for entry in changed)
        assert time.monotonic() < deadline
        if len(seen) == 40 and seen["10.0.0.3"] is None:
            break
    stream.close()


def test_documents_of_a_real_server(server: tuple[str, str]) -> None:
    address, key = server
    stream = Stream(address, 2, key)
    assert stream.document("notes") is None
    long = bytes(range(256)) * 400
    assert stream.publish("notes", b"one", expect=0, version=1).outcome == "committed"
    assert stream.publish("notes", long, expect=0, version=2) == Published("conflict", 1)
    assert stream.publish("notes", long, expect=1, version=1).outcome == "malformed"
    assert stream.document("notes") == (1, b"one")
    assert stream.publish("notes", long, expect=1, version=4) == Published("committed", 4)
    assert stream.document("notes") == (4, long)
    assert stream.publish("notes", b"", expect=4, version=5).outcome == "committed"
    assert stream.document("notes") == (5, b"")
    with pytest.raises(ValueError, match="not a document's name"):
        stream.document("../notes")
    stream.close()
