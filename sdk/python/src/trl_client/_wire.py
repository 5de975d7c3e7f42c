"""The line protocol without any input or output: bytes in, messages out.

A Wire is one conversation: one request at a time, its answer, and the pushes behind it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, Union

from .errors import ConnectionLost, TrlError, error_of

MAX_LINE = 1 << 30
"""One line of a daemon is never longer."""


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
    """What a stream pushes behind its answer."""

    stream_id: str
    fields: dict[str, Any]


Message = Union[Answer, Push]


class Wire(Protocol):
    """One conversation with a daemon, over any kind of connection."""

    def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the bytes that ask for something."""

    def feed(self, data: bytes) -> None:
        """Take what was received; empty at the end of the connection."""

    def next(self) -> Message | None:
        """Return the next message that has been received whole."""

    def reusable(self) -> bool:
        """Tell whether another request can follow."""


class LineWire:
    """A conversation in lines of JSON."""

    def __init__(self) -> None:
        self._lines = Lines()
        self._id = 0
        self._ended = False

    def request(self, method: str, params: Mapping[str, Any]) -> bytes:
        self._id += 1
        return encode_request(str(self._id), method, params)

    def feed(self, data: bytes) -> None:
        if data:
            self._lines.feed(data)
        else:
            self._ended = True

    def next(self) -> Message | None:
        while (line := self._lines.next()) is not None:
            message = parse_line(line)
            # An error without an id is for the connection as a whole, and so for this request.
            if isinstance(message, Answer) and message.id not in (str(self._id), None):
                continue
            if message is not None:
                return message
        if self._ended:
            raise ConnectionLost("daemon: connection lost: the daemon closed it")
        return None

    def reusable(self) -> bool:
        return not self._ended and self._lines.empty()


class Lines:
    """Cuts bytes into lines, in time linear in their number."""

    def __init__(self) -> None:
        self._ready: deque[bytes] = deque()
        self._begun: list[bytes] = []
        self._size = 0  # of what has begun

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        first, *rest = data.split(b"\n")
        self._begun.append(first)
        self._size += len(first)
        if self._size > MAX_LINE:
            raise ConnectionLost(f"daemon: a line of more than {MAX_LINE} bytes")
        if rest:
            self._ready.append(b"".join(self._begun))
            self._ready.extend(rest[:-1])
            self._begun = [rest[-1]]
            self._size = len(rest[-1])

    def next(self) -> bytes | None:
        """Return the next whole line, without its end; None when there is none yet."""
        return self._ready.popleft() if self._ready else None

    def empty(self) -> bool:
        """Tell whether everything has been taken."""
        return not self._ready and self._size == 0


def encode_json(value: Any) -> bytes:
    """Return compact JSON. What JSON or UTF-8 cannot carry is refused, never replaced."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as e:  # UnicodeEncodeError is a ValueError
        raise error_of("INVALID_PARAMS", f"params: {e}") from e


def encode_request(id: str, method: str, params: Mapping[str, Any]) -> bytes:
    """Return a request as a line."""
    return encode_json({"id": id, "method": method, "params": params}) + b"\n"


def parse_line(line: bytes) -> Message | None:
    """Take a line of a daemon apart. A message of a kind that is not known here is None."""
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
        raise ConnectionLost(f"daemon: what it says is not JSON: {data[:80]!r}") from e
    if not isinstance(value, dict):
        raise ConnectionLost(f"daemon: what it says is not a JSON object: {data[:80]!r}")
    return value


def parse_error(fields: Any) -> TrlError:
    """Make an exception of the error object on the wire."""
    if not isinstance(fields, dict) or not isinstance(fields.get("code"), str):
        return error_of("INTERNAL_ERROR", "the answer has neither data nor a proper error")
    details = fields.get("details")
    return error_of(fields["code"], str(fields.get("message", "")), details if isinstance(details, dict) else None)
