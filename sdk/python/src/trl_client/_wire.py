"""The line protocol without any input or output: bytes in, messages out.

A Wire is one conversation: one request at a time, its answer, and the pushes behind it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Union

from ._trace import traceparent
from .errors import ConnectionLost, TrlError, error_of
from .types import STREAMING

MAX_LINE = 1 << 30
"""The maximum length of a line from the daemon."""

MAX_RAW = 8 << 20
"""The maximum number of bytes that follow the line of a push."""


class Answer(NamedTuple):
    """The answer to a request: data, or an error."""

    id: Any
    data: Any
    error: TrlError | None

    def result(self) -> Any:
        """Return the data, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.data


class Push(NamedTuple):
    """A push of a stream."""

    stream_id: str
    fields: dict[str, Any]
    raw: bytes | None = None
    """The output, if it came as bytes after the line and not in its fields."""


Message = Union[Answer, Push]


class Wire(Protocol):
    """One conversation with a daemon, over any kind of connection."""

    def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the bytes of a request."""

    def feed(self, data: bytes) -> None:
        """Take the bytes that were received; empty at the end of the connection."""

    def next(self) -> Message | None:
        """Return the next complete message."""

    def reusable(self) -> bool:
        """Report whether another request can follow."""


class LineWire:
    """A conversation in lines of JSON."""

    def __init__(self) -> None:
        self._messages = Messages()
        self._id = 0
        self._ended = False

    def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        self._id += 1
        return encode_request(str(self._id), method, params)

    def feed(self, data: bytes) -> None:
        if data:
            self._messages.feed(data)
        else:
            self._ended = True

    def next(self) -> Message | None:
        while (received := self._messages.next()) is not None:
            message, _ = received
            # An error without an id is for the connection as a whole, and so for this request.
            if isinstance(message, Answer) and message.id not in (str(self._id), None):
                continue
            return message
        if self._ended:
            raise ConnectionLost("daemon: connection lost: the daemon closed it")
        return None

    def reusable(self) -> bool:
        return not self._ended and self._messages.empty()


class Messages:
    """Cuts bytes into messages: a line each, and the bytes after the line of a push."""

    def __init__(self) -> None:
        self._cutter = Cutter()
        self._push: tuple[Push, int, int] | None = None
        """A push whose bytes have not all arrived, their number, and the length of its line."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        self._cutter.feed(data)

    def next(self) -> tuple[Message, int] | None:
        """Return the next complete message and its size. Messages of an unknown kind are skipped."""
        while self._push is None:
            line = self._cutter.line()
            if line is None:
                return None
            message = parse_line(line)
            if isinstance(message, Push) and (n := message.fields.get("raw")) is not None:
                if type(n) is not int or not 0 <= n <= MAX_RAW:
                    raise ConnectionLost(f"daemon: a push with a wrong number of bytes: {n!r}")
                self._push = message, n, len(line)
            elif message is not None:
                return message, len(line)
        push, n, size = self._push
        raw = self._cutter.counted(n)
        if raw is None:
            return None
        self._push = None
        return push._replace(raw=raw), size + n

    def empty(self) -> bool:
        """Report whether everything has been taken."""
        return self._push is None and self._cutter.empty()


class Cutter:
    """Cuts a byte stream into lines and counted bytes, in linear time."""

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()  # in the order of arrival
        self._at = 0  # how much of the first piece has been taken
        self._begun: list[memoryview] = []  # the beginning of a line, or of counted bytes, that is not complete yet
        self._size = 0  # size of _begun

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        if data:
            self._pieces.append(data)

    def line(self) -> bytes | None:
        """Return the next complete line, without its end; None if there is none yet."""
        while self._pieces:
            end = self._pieces[0].find(b"\n", self._at)
            self._take(end if end >= 0 else len(self._pieces[0]), past=1 if end >= 0 else 0)
            if self._size > MAX_LINE:
                raise ConnectionLost(f"daemon: a line of more than {MAX_LINE} bytes")
            if end >= 0:
                return self._whole()
        return None

    def counted(self, n: int) -> bytes | None:
        """Return the next n bytes; None if they have not all arrived. The caller must then ask for the same bytes again."""
        while self._size < n and self._pieces:
            self._take(min(len(self._pieces[0]), self._at + n - self._size))
        return self._whole() if self._size == n else None

    def empty(self) -> bool:
        """Report whether everything has been taken."""
        return not self._pieces and self._size == 0

    def _take(self, end: int, past: int = 0) -> None:
        """Take the first piece up to end, and skip as many bytes after it."""
        piece = self._pieces[0]
        self._begun.append(memoryview(piece)[self._at:end])
        self._size += end - self._at
        self._at = end + past
        if self._at == len(piece):
            self._pieces.popleft()
            self._at = 0

    def _whole(self) -> bytes:
        whole = b"".join(self._begun)
        self._begun, self._size = [], 0
        return whole


def encode_json(value: Any) -> bytes:
    """Return compact JSON. Raise an error for a value that JSON or UTF-8 cannot carry."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as e:  # UnicodeEncodeError is a ValueError
        raise error_of("INVALID_PARAMS", f"params: {e}") from e


def encode_request(id: str, method: str, params: Mapping[str, Any]) -> bytes:
    """Return a request as a line. It asks for the output of a stream as bytes, which an older daemon ignores."""
    raw = {"raw": True} if method in STREAMING else {}
    trace = {"traceparent": position} if (position := traceparent()) else {}
    return encode_json({"id": id, "method": method, "params": params, **raw, **trace}) + b"\n"


def parse_line(line: bytes) -> Message | None:
    """Parse a line of the daemon. Return None for a message of an unknown kind."""
    fields = parse_object(line)
    if "id" not in fields and isinstance(fields.get("stream_id"), str):
        return Push(fields["stream_id"], fields)
    if fields.get("ok") is True:
        return Answer(fields.get("id"), fields.get("data"), None)
    if "error" in fields:
        return Answer(fields.get("id"), None, parse_error(fields["error"]))
    return None


def parse_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object. Anything else means that there is no TRL at the other end."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise ConnectionLost(f"daemon: sent a line that is not JSON: {data[:80]!r}") from e
    if not isinstance(value, dict):
        raise ConnectionLost(f"daemon: sent a line that is not a JSON object: {data[:80]!r}")
    return value


def parse_error(fields: Any) -> TrlError:
    """Make an exception from the error object on the wire."""
    if not isinstance(fields, dict) or not isinstance(fields.get("code"), str):
        return error_of("INTERNAL_ERROR", "the answer has neither data nor a proper error")
    details = fields.get("details")
    return error_of(fields["code"], str(fields.get("message", "")), details if isinstance(details, dict) else None)
