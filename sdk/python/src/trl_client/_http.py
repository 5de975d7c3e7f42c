"""The parts of HTTP/1.1 that a TRL client needs, without any I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._trace import traceparent
from ._wire import Answer, Cutter, Message, Push, encode_json, parse_error, parse_object
from .errors import ConnectionLost, TrlError, error_of
from .types import STREAMING

MAX_HEAD = 64 << 10
"""The maximum length of the head of an answer, and of a line between chunks."""

STATUS_CODES = {400: "INVALID_PARAMS", 401: "AUTH_FAILED", 403: "FORBIDDEN", 404: "METHOD_NOT_FOUND",
                413: "REQUEST_TOO_LARGE", 429: "RESOURCE_PRESSURE", 503: "RESOURCE_PRESSURE"}
"""The code of an error for a status that a proxy sent instead of the daemon."""


class HttpWire:
    """A conversation by POST /v1/<method>; streams come as lines of JSON."""

    def __init__(self, host: str, path: str, token: str | None) -> None:
        self._host, self._path, self._token = host, path, token
        self._response = Response()
        self._lines = Cutter()
        self._body: list[bytes] = []
        self._streams = False
        self._answered = True
        self._fresh = True

    def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        body = encode_json(params)
        self._streams = method in STREAMING
        self._answered = self._fresh = False
        self._response, self._lines, self._body = Response(), Cutter(), []
        head = [
            f"POST {self._path}/v1/{method} HTTP/1.1",
            f"Host: {self._host}",
            f"Accept: application/{'x-ndjson' if self._streams else 'json'}",
            "Content-Type: application/json",
            f"Content-Length: {len(body)}",
            "X-Trl-Keep-Alive: 1",  # the daemon sends a sign of life every 15 seconds during a long call
        ]
        if self._token is not None:
            head.append(f"Authorization: Bearer {self._token}")
        position = traceparent()
        if position and position.isascii() and position.isprintable():
            head.append(f"Traceparent: {position}")
        if any("\r" in line or "\n" in line for line in head):
            raise error_of("INVALID_PARAMS", f"method {method!r}, or the token, cannot be sent by HTTP")
        return "\r\n".join(head).encode() + b"\r\n\r\n" + body

    def feed(self, data: bytes) -> None:
        for piece in self._response.feed(data):
            if self._streams and self._response.status == 200:
                self._lines.feed(piece)
            else:
                self._body.append(piece)

    def next(self) -> Message | None:
        if self._streams and self._response.status == 200:
            return self._next_of_stream()
        if self._answered or not self._response.complete:
            return None
        self._answered = True
        body = b"".join(self._body)
        if self._response.status != 200:
            return Answer(None, None, self._error(body))
        fields = parse_object(body)
        if fields.keys() == {"error"}:  # the answer took so long that the status was sent before the outcome was known
            return Answer(None, None, parse_error(fields["error"]))
        return Answer(None, fields, None)

    def reusable(self) -> bool:
        if self._fresh:
            return True
        return self._answered and self._response.complete and self._response.keep_alive and self._lines.empty()

    def _next_of_stream(self) -> Message | None:
        while (line := self._lines.line()) is not None:
            if not line.strip():
                continue  # a sign of life
            fields = parse_object(line)
            if not self._answered:
                self._answered = True
                return Answer(None, fields, None)
            return Push(str(fields.get("stream_id", "")), fields)
        if self._response.complete:
            raise ConnectionLost("daemon: connection lost: the answer has ended")
        return None

    def _error(self, body: bytes) -> TrlError:
        status = self._response.status
        try:
            fields = parse_object(body)
        except ConnectionLost:
            text = body[:200].decode(errors="replace").strip()
            return error_of(STATUS_CODES.get(status, "INTERNAL_ERROR"), f"HTTP status {status}: {text}", {"status": status})
        return parse_error(fields.get("error", fields))


class Response:
    """The answer to one request: its status, and its body as it comes."""

    def __init__(self) -> None:
        self.status = 0
        self.keep_alive = False
        self.complete = False
        self._buffer = bytearray()
        self._in_body = False
        self._chunked = False
        self._left: int | None = 0
        """How many bytes of the body, or of the chunk, have not arrived; None: until the end of the connection."""
        self._chunk = "size"
        """In a chunked body, what comes next: size, data, end (of a chunk) or trailer."""

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes, empty at the end of the connection, and return what they add to the body."""
        if not data:
            self._connection_ended()
            return []
        self._buffer += data
        pieces: list[bytes] = []
        while not self.complete and self._step(pieces):
            pass
        return pieces

    def _connection_ended(self) -> None:
        if not (self._in_body and self._left is None):
            raise ConnectionLost("daemon: connection lost: the daemon closed it")
        self.complete = True

    def _step(self, pieces: list[bytes]) -> bool:
        """Parse the next part of the answer. Return False if more bytes are needed."""
        if not self._in_body:
            return self._read_head()
        if self._chunked and self._chunk != "data":
            return self._read_between_chunks()
        return self._read_data(pieces)

    def _read_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise broken("the head of an answer has no end")
            return False
        first, *lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdecimal():
            raise broken(f"not an answer in HTTP/1.1: {first[:80]!r}")
        status = int(rest[:3])
        if status < 200:
            return True  # an interim answer; the real one follows
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.status = status
        self.keep_alive = version != "HTTP/1.0" and headers.get("connection", "").lower() != "close"
        self._in_body = True
        self._chunked = headers.get("transfer-encoding", "").lower() == "chunked"
        if not self._chunked:
            length = headers.get("content-length")
            self._left = None if length is None else number(length, 10)
            if status in (204, 304):
                self._left = 0
            self.complete = self._left == 0
            self.keep_alive = self.keep_alive and self._left is not None
        return True

    def _read_data(self, pieces: list[bytes]) -> bool:
        n = len(self._buffer) if self._left is None else min(self._left, len(self._buffer))
        if n == 0:
            return False
        pieces.append(bytes(self._buffer[:n]))
        del self._buffer[:n]
        if self._left is not None:
            self._left -= n
            if self._left == 0 and self._chunked:
                self._chunk = "end"
            elif self._left == 0:
                self.complete = True
        return True

    def _read_between_chunks(self) -> bool:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > MAX_HEAD:
                raise broken("a chunk has no end")
            return False
        line = bytes(self._buffer[:end]).decode("latin-1")
        del self._buffer[: end + 2]
        if self._chunk == "size":
            self._left = number(line.partition(";")[0].strip(), 16)
            self._chunk = "data" if self._left > 0 else "trailer"
        elif self._chunk == "end":
            if line:
                raise broken("a chunk is longer than it says")
            self._chunk = "size"
        else:
            self.complete = line == ""
        return True


def number(text: str, base: int) -> int:
    """Read a length. Only digits are accepted: int() is more liberal than HTTP."""
    try:
        if not set(text) <= set("0123456789abcdefABCDEF"):
            raise ValueError
        return int(text, base)
    except ValueError:
        raise broken(f"not a length: {text[:40]!r}") from None


def broken(cause: str) -> ConnectionLost:
    """Return the error for an answer that is not HTTP."""
    return ConnectionLost(f"daemon: {cause}")
