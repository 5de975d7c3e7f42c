"""The protocol without input and output."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

import trl_client as trl
from trl_client import _http, types
from trl_client._http import HttpWire
from trl_client._mux import MAX_QUEUED, Channel, Item, Mux
from trl_client._wire import MAX_RAW, Answer, Cutter, LineWire, Push, Wire, encode_request, parse_line

RUNS = 300


def pieces(rng: random.Random, data: bytes) -> list[bytes]:
    """Cut bytes at random places."""
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randrange(12)))
    return [p for p in (data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)])) if p]


def test_lines_do_not_depend_on_how_they_arrive() -> None:
    for seed in range(RUNS):
        rng = random.Random(seed)
        lines = [rng.randbytes(rng.choice((0, 1, 5, 3000))).replace(b"\n", b"") for _ in range(rng.randrange(1, 9))]
        cutter, got = Cutter(), []
        for piece in pieces(rng, b"".join(line + b"\n" for line in lines)):
            cutter.feed(piece)
            while (line := cutter.line()) is not None:
                got.append(line)
        assert got == lines and cutter.empty()


def test_bytes_behind_a_push_do_not_depend_on_how_they_arrive() -> None:
    for seed in range(RUNS):
        rng = random.Random(seed)
        wanted, data = [], b""
        for seq in range(rng.randrange(1, 9)):
            raw = rng.randbytes(rng.choice((0, 1, 5, 3000))).replace(b"a", b"\n") if rng.randrange(3) else None
            fields = {"stream_id": "q", "seq": seq, **({} if raw is None else {"raw": len(raw)})}
            wanted.append(Push("q", fields, raw))
            data += json.dumps(fields).encode() + b"\n" + (raw or b"")
        wire, got = LineWire(), []
        for piece in pieces(rng, data):
            wire.feed(piece)
            while (message := wire.next()) is not None:
                got.append(message)
        assert got == wanted and wire.reusable()


@pytest.mark.parametrize("n", ["-1", "1.5", '"7"', "true", "[]", str(MAX_RAW + 1)])
def test_a_wrong_number_of_bytes_ends_the_connection(n: str) -> None:
    wire = LineWire()
    wire.feed(b'{"stream_id":"q","seq":1,"type":"stdout","raw":' + n.encode() + b"}\n")
    with pytest.raises(trl.ConnectionLost):
        wire.next()


def test_only_streams_are_asked_for_bytes() -> None:
    for method in types.METHODS:
        assert json.loads(encode_request("1", method, {})).get("raw") is (True if method in types.STREAMING else None)


def test_a_request_is_one_line() -> None:
    line = encode_request("7", "exec.run", {"command": "echo 'a\nb' ü"})
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"id": "7", "method": "exec.run", "params": {"command": "echo 'a\nb' ü"}}


@pytest.mark.parametrize("params", [{"command": "\udc80"}, {"timeout_s": float("nan")}, {"x": object()}])
def test_what_json_cannot_carry_is_refused(params: dict[str, Any]) -> None:
    with pytest.raises(trl.TrlError) as e:
        encode_request("1", "exec.run", params)
    assert e.value.code == "INVALID_PARAMS"


def test_messages_of_unknown_kinds_are_ignored() -> None:
    wire = LineWire()
    wire.request("m", {})
    wire.feed(b'{"something":"else"}\n{"id":"99","ok":true,"data":{}}\n{"notice":1,"id":"1"}\n')
    assert wire.next() is None
    wire.feed(b'{"id":"1","ok":true,"data":{"big":12345678901234567890},"extra":[]}\n')
    assert wire.next() == Answer("1", {"big": 12345678901234567890}, None)
    assert wire.reusable()


def test_errors_keep_code_and_details() -> None:
    message = parse_line(b'{"id":"1","ok":false,"error":{"code":"BRAND_NEW","message":"m","details":{"a":1},"x":2}}')
    assert isinstance(message, Answer)
    with pytest.raises(trl.TrlError) as e:
        message.result()
    assert (e.value.code, e.value.message, e.value.details, str(e.value)) == ("BRAND_NEW", "m", {"a": 1}, "BRAND_NEW: m")
    for line in (b'{"id":"1","ok":false,"error":null}', b'{"id":"1","error":{"code":3}}'):
        message = parse_line(line)
        assert isinstance(message, Answer) and message.error is not None and message.error.code == "INTERNAL_ERROR"


@pytest.mark.parametrize("line", [b"hello", b"[1]", b"", b"\xff\xfe", b"[" * 100_000])
def test_what_is_not_the_protocol_ends_the_connection(line: bytes) -> None:
    with pytest.raises(trl.ConnectionLost):
        parse_line(line)


def http(method: str = "system.ping") -> HttpWire:
    wire = HttpWire("localhost:1", "/base", "secret")
    wire.request(method, {})
    return wire


def test_http_request() -> None:
    assert HttpWire("h:1", "", None).reusable() and not http().reusable()
    head, _, body = HttpWire("h:1", "/base", "secret").request("exec.stream", {"a": "ü"}).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /base/v1/exec.stream HTTP/1.1"
    assert {"Host: h:1", "Accept: application/x-ndjson", "Authorization: Bearer secret", "Content-Length: 10"} <= set(lines)
    assert body.decode() == '{"a":"ü"}'
    with pytest.raises(trl.TrlError):
        HttpWire("h:1", "", "a\r\nX: y").request("m", {})


CHUNKED = (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n"
           b"3;ext=1\r\n{\"a\r\n" b"5\r\n\":[1]\r\n" b"1\r\n}\r\n"
           b"0\r\nTrailer: t\r\n\r\n")
ANSWERS = {
    "length": (b"HTTP/1.1 200 OK\r\ncontent-length:  9\r\n\r\n{\"a\":[1]}", True),
    "chunked": (CHUNKED, True),
    "interim": (b"HTTP/1.1 100 Continue\r\n\r\n" + CHUNKED, True),
    "close": (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{\"a\":[1]}", False),
    "old": (b"HTTP/1.0 200 OK\r\n\r\n{\"a\":[1]}", False),
    "late": (b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n\n\n\n{\"a\":[1]}", True),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_http_answers_do_not_depend_on_how_they_arrive(kind: str) -> None:
    data, reusable = ANSWERS[kind]
    for seed in range(50):
        wire = http()
        for piece in pieces(random.Random(seed), data):
            assert wire.next() is None
            wire.feed(piece)
        if kind == "old":
            assert wire.next() is None
            wire.feed(b"")
        assert wire.next() == Answer(None, {"a": [1]}, None)
        assert wire.reusable() is reusable
        assert wire.next() is None


def test_http_errors() -> None:
    def error(status: str, body: bytes) -> trl.TrlError:
        wire = http()
        wire.feed(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        message = wire.next()
        assert isinstance(message, Answer) and message.error is not None
        return message.error

    e = error("409 Conflict", b'{"error":{"code":"SESSION_BUSY","message":"m","details":{"a":1}}}')
    assert (e.code, e.message, e.details) == ("SESSION_BUSY", "m", {"a": 1})
    assert error("200 OK", b'\n{"error":{"code":"SESSION_BUSY","message":"m"}}').code == "SESSION_BUSY"
    e = error("502 Bad Gateway", b"<h1>no</h1>")
    assert e.code == "INTERNAL_ERROR" and "502" in e.message and "<h1>no</h1>" in e.message
    assert error("401 Unauthorized", b"").code == "AUTH_FAILED"


def test_http_stream() -> None:
    body = b'{"stream_id":"q","exec_id":"x"}\n\n\n{"stream_id":"q","seq":1,"type":"stdout","data":"a"}\n\n'
    for seed in range(50):
        wire, got = http("exec.stream"), []
        data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for piece in pieces(random.Random(seed), body):
            data += f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
        for piece in pieces(random.Random(-seed), data):
            wire.feed(piece)
            while (message := wire.next()) is not None:
                got.append(message)
        assert got == [Answer(None, {"stream_id": "q", "exec_id": "x"}, None),
                       Push("q", {"stream_id": "q", "seq": 1, "type": "stdout", "data": "a"})]
        assert not wire.reusable()
        wire.feed(b"0\r\n\r\n")
        with pytest.raises(trl.ConnectionLost):  # it ended without saying so
            wire.next()


@pytest.mark.parametrize("data", [
    b"", b"SSH-2.0-x\r\n\r\n", b"HTTP/1.1 abc\r\n\r\n", b"x" * (_http.MAX_HEAD + 1),
    b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1_0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (_http.MAX_HEAD + 1),
])
def test_what_is_not_http_ends_the_connection(data: bytes) -> None:
    wire = http()
    with pytest.raises(trl.ConnectionLost):
        wire.feed(data)


@pytest.mark.parametrize("make", [LineWire, http])
def test_random_bytes_raise_nothing_else(make: Any) -> None:
    seeds = [data for data, _ in ANSWERS.values()] + [b'{"id":"1","ok":true,"data":{}}\n{"stream_id":"q","seq":1,"raw":5}\n12345']
    for seed in range(RUNS):
        rng = random.Random(seed)
        data = bytearray(rng.choice(seeds))
        for _ in range(rng.randrange(6)):
            at = rng.randrange(len(data))
            data[at:at + rng.randrange(3)] = rng.randbytes(rng.randrange(3)) or b"\r\n"
        wire: Wire = make()
        wire.request("exec.stream", {})
        try:
            for piece in [*pieces(rng, bytes(data)), b""]:
                wire.feed(piece)
                while wire.next() is not None:
                    pass
        except trl.TrlError:
            pass


class Inbox(list[tuple[int, Item]]):
    def put_nowait(self, item: tuple[int, Item], /) -> None:
        self.append(item)


def test_mux_hands_everything_to_whom_it_belongs() -> None:
    mux, a, b = Mux(), Inbox(), Inbox()
    mux.request(Channel(a), "exec.stream", {})
    mux.request(Channel(b), "system.ping", {})
    mux.feed(b'{"id":"2","ok":true,"data":{"n":2}}\n{"id":"1","ok":true,"data":{"stream_id":"q"}}\n'
             b'{"stream_id":"q","seq":1}\n{"stream_id":"other","seq":1}\n{"id":"9","ok":true}\n{"unknown":1}\n')
    assert [item for _, item in a] == [Answer("1", {"stream_id": "q"}, None), Push("q", {"stream_id": "q", "seq": 1})]
    assert [item for _, item in b] == [Answer("2", {"n": 2}, None)]
    mux.feed(b'{"stream_id":"q","seq":2,"raw":3}\n{"\n{"stream_id":"q","seq":3}\n')
    assert [item.raw for _, item in a[-2:] if isinstance(item, Push)] == [b'{"\n', None]
    mux.fail("gone")
    assert isinstance(a[-1][1], trl.ConnectionLost) and mux.lost()
    with pytest.raises(trl.ConnectionLost):
        mux.request(Channel(a), "system.ping", {})


def test_mux_cuts_off_a_reader_that_is_far_behind() -> None:
    mux, inbox = Mux(), Inbox()
    mux.request(Channel(inbox), "exec.stream", {})
    mux.feed(b'{"id":"1","ok":true,"data":{"stream_id":"q"}}\n')
    push = b'{"stream_id":"q","seq":1,"data":"' + b"x" * (1 << 20) + b'"}\n'
    for _ in range(20):
        mux.feed(push)
    assert sum(size for size, _ in inbox) < MAX_QUEUED + 3 * len(push)
    assert isinstance(inbox[-1][1], trl.ConnectionLost) and not mux.lost()


def test_mux_takes_back_a_command_whose_caller_gave_up() -> None:
    mux = Mux()
    for params, wanted in (({"session_id": "s"}, True), ({"session_id": "s", "detach": True}, False),
                           ({"session_id": "s", "wait": True}, False)):
        channel = Channel(Inbox())
        mux.request(channel, "exec.run", params)
        assert (b'"exec.cancel"' in mux.forget(channel)) is wanted
        assert mux.forget(channel) == b""
