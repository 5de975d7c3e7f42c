"""Many conversations over the one pipe of a program, without any input or output."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol, Union

from ._wire import Answer, Message, Messages, Push, encode_request
from .errors import ConnectionLost
from .types import STREAMING

MAX_QUEUED = 8 << 20
"""How many bytes may wait for the reader of a stream. A reader that is further behind is cut off, and
resumes when it has caught up, so that it does not hold up the others."""

Item = Union[Message, ConnectionLost]


class Inbox(Protocol):
    """A queue of any kind: of threads, or of asyncio."""

    def put_nowait(self, item: tuple[int, Item], /) -> None:
        """Add an item, and its size."""


class Channel:
    """One conversation. The fields are guarded by the lock of its Mux."""

    def __init__(self, inbox: Inbox) -> None:
        self.inbox = inbox
        self.queued = 0
        self.id = ""
        self.method = ""
        self.params: Mapping[str, Any] = {}
        self.stream_id: str | None = None


class Mux:
    """Hands each message of the daemon to its conversation. Safe for use by several threads."""

    def __init__(self) -> None:
        # A reentrant lock: the garbage collector may close a stream in any thread at any time.
        self._lock = threading.RLock()
        self._messages = Messages()  # used by the one reader only
        self._last_id = 0  # guarded by _lock, as all below
        self._calls: dict[str, Channel] = {}
        self._streams: dict[str, Channel] = {}
        self._lost: ConnectionLost | None = None

    def lost(self) -> bool:
        """Report whether the pipe has ended."""
        with self._lock:
            return self._lost is not None

    def request(self, channel: Channel, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the bytes of a request; its answer goes to the channel."""
        with self._lock:
            if self._lost is not None:
                raise ConnectionLost(self._lost.message)
            self._last_id += 1
            id = str(self._last_id)
            data = encode_request(id, method, params)
            channel.id, channel.method, channel.params = id, method, params
            self._calls[id] = channel
            return data

    def forget(self, channel: Channel) -> bytes:
        """Give up a conversation. The bytes returned, if any, cancel its command.

        On a connection of its own a command ends with the connection; here it has to be told. One
        that may still wait for its turn cannot be told apart from the one that runs.
        """
        with self._lock:
            unanswered = self._calls.pop(channel.id, None) is channel
            if channel.stream_id is not None:
                self._streams.pop(channel.stream_id, None)
        params = channel.params
        if unanswered and channel.method == "exec.run" and not params.get("detach") and not params.get("wait"):
            return encode_request("", "exec.cancel", {"session_id": params["session_id"]})
        return b""

    def taken(self, channel: Channel, size: int) -> None:
        """Note that an item has left the inbox."""
        with self._lock:
            channel.queued -= size

    def feed(self, data: bytes) -> None:
        """Take the bytes that were received."""
        self._messages.feed(data)
        while (received := self._messages.next()) is not None:
            message, size = received
            if isinstance(message, Push):
                self._route_push(message, size)
            else:
                self._route_answer(message, size)

    def fail(self, cause: str) -> None:
        """End all conversations."""
        with self._lock:
            if self._lost is not None:
                return
            self._lost = ConnectionLost(cause)
            for channel in [*self._calls.values(), *self._streams.values()]:
                channel.inbox.put_nowait((0, ConnectionLost(cause)))
            self._calls.clear()
            self._streams.clear()

    def _route_answer(self, answer: Answer, size: int) -> None:
        if answer.id is None and answer.error is not None:
            raise ConnectionLost(answer.error.message)  # an error for the connection as a whole
        with self._lock:
            channel = self._calls.pop(answer.id, None) if isinstance(answer.id, str) else None
            if channel is None:
                return
            if channel.method in STREAMING and isinstance(answer.data, dict):
                channel.stream_id = str(answer.data.get("stream_id"))
                self._streams[channel.stream_id] = channel
            channel.queued += size
            channel.inbox.put_nowait((size, answer))

    def _route_push(self, push: Push, size: int) -> None:
        with self._lock:
            channel = self._streams.get(push.stream_id)
            if channel is None:
                return
            if channel.queued > MAX_QUEUED:
                del self._streams[push.stream_id]
                channel.inbox.put_nowait((0, ConnectionLost("daemon: the reader of a stream was too far behind")))
                return
            if push.fields.get("type") in ("exit", "end", "error"):
                del self._streams[push.stream_id]
            channel.queued += size
            channel.inbox.put_nowait((size, push))
