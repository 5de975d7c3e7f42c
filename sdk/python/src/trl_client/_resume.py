"""How a stream continues after its connection was lost, and how long a client waits for a daemon."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, get_args

from . import types
from ._request import Request
from ._wire import Push, parse_error
from .errors import ConnectionLost, TrlError, error_of
from .results import StreamEvent

OUTPUT = ("stdout", "stderr")
KNOWN = frozenset(get_args(types.EventType))

FIRST_DELAY = 0.05
LONGEST_DELAY = 1.0
SESSION_S = 3.0
FORGET_S = 60.0
"""An attempt that lasted longer than this was a success, even if it ended with an error; one that timed out was not."""

STARTING = "starting"
STOPPING = "stopping"
"""The reasons of a daemon that is starting or stopping; the code of the error is RUNTIME_UNAVAILABLE."""

LASTING = ("exec.run", "exec.start", "exec.wait", "session.wait", "exec.stream", "session.attach")
"""The calls and streams that cannot succeed any more once the daemon has ended its sessions."""

CREATING = ("session.create", "dialogue.create")
"""The calls that leave nothing if they fail."""


class Backoff:
    """The pauses between attempts to reach a daemon: short at first, and bounded in total."""

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._clock = patience_s, clock
        self._begun: float | None = None
        self._last = 0.0
        self._delay = 0.0

    def reset(self) -> None:
        """Forget the failures: there was progress."""
        self._begun = None

    def delay(self) -> float | None:
        """Return how long to wait before the next attempt; None when the patience is over."""
        now = self._clock()
        if self._begun is None or now - self._last > max(self._patience, FORGET_S):
            self._begun, self._delay = now, 0.0
        self._last = now
        left = self._begun + self._patience - now
        if left <= 0:
            return None
        delay, self._delay = self._delay, min(max(2 * self._delay, FIRST_DELAY), LONGEST_DELAY)
        # The pause is random, so that the streams of a daemon that ended do not all return at once.
        return min(left, delay * random.uniform(0.5, 1))


def gone(error: TrlError) -> bool:
    """Report whether an error means that the daemon, or its way to a session, cannot be reached now."""
    return error.code == "RUNTIME_UNAVAILABLE"


def not_begun(error: TrlError) -> bool:
    """Report whether the request has certainly not taken effect."""
    return gone(error) and error.reason == STARTING


def not_created(error: TrlError, method: str) -> bool:
    """Report whether a daemon that is ending refused or cancelled a creation, so that the next one may try."""
    return method in CREATING and gone(error) and error.reason == STOPPING and not isinstance(error, ConnectionLost)


class Outage:
    """A time without a daemon, with the limit for it."""

    def __init__(self, patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._daemon = Backoff(patience_s, clock)
        # A daemon that is being replaced may answer with another reason. Or it has lost a session permanently.
        self._session = Backoff(min(patience_s, SESSION_S), clock)

    def over(self) -> None:
        """Forget the failures: there was progress."""
        self._daemon.reset()
        self._session.reset()

    def delay(self, error: TrlError) -> float | None:
        """Return how long to wait before the next attempt; None when the patience is over."""
        daemon = isinstance(error, ConnectionLost) or error.reason in (STARTING, STOPPING)
        return (self._daemon if daemon else self._session).delay()


class Retry:
    """Whether a request is sent again after a loss, and with which parameters."""

    def __init__(self, request: Request[Any], patience_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._request, self._clock = request, clock
        self._outage = Outage(patience_s, clock)
        self._begun = clock()

    def params(self) -> Mapping[str, Any]:
        """Return the parameters for this attempt, with the elapsed time subtracted from the timeout."""
        params = self._request.params
        if self._request.method not in ("exec.wait", "session.wait"):
            return params
        passed = self._clock() - self._begun
        if "timeout_s" in params:
            return {**params, "timeout_s": max(0.0, params["timeout_s"] - passed)}
        if "timeout_ms" in params:
            return {**params, "timeout_ms": max(0, params["timeout_ms"] - int(passed * 1000))}
        return params

    def delay(self, error: TrlError) -> float | None:
        """Return how long to wait before the request is sent again; None if it must not be."""
        method = self._request.method
        if method in LASTING + CREATING and error.details.get("sessions") == "ended":
            return None  # the daemon was stopped: there is nothing left to wait for, and the user wants nothing new
        if not_begun(error) or not_created(error, method) or gone(error) and self._request.repeatable():
            return self._outage.delay(error)
        return None


class Cursor:
    """The position of a reader in a stream: what to ask for next, and which pushes are new."""

    def __init__(self, request: Request[types.StreamStart]) -> None:
        self._first = request
        self._from_offset: int = request.params.get("from_offset", 0)
        self._have = dict.fromkeys(OUTPUT, self._from_offset)  # the offset after the last byte, by stream
        self.exec_id: str = request.params.get("exec_id", "")
        self.session_id: str = request.params.get("session_id", "")
        self.seq: int | None = request.params.get("after_seq")
        self.outcome: types.ExecOutcome | None = None
        self.opened = False
        """Whether the daemon has answered the request."""
        self.over = False
        """Whether the last push was taken."""

    def request(self) -> Request[types.StreamStart]:
        """Return what asks for everything that is still to come."""
        if self.seq is not None:
            return replace(self._first, params=self._resume(self._first.params))
        return self._first

    def goes_on_after(self, error: TrlError) -> bool:
        """Report whether opening the stream again may succeed, and starts no command a second time."""
        if self._first.method in LASTING and error.details.get("sessions") == "ended":
            return False  # the daemon was stopped, and the command or terminal has ended with it
        return not_begun(error) or gone(error) and self._resumable()

    def _resumable(self) -> bool:
        return self._first.method != "exec.stream" or self.exec_id != "" or bool(self._first.params.get("run_id"))

    def started(self, data: Any) -> None:
        """Take the answer to the request."""
        start = self._first.decode(data)
        self.opened = True
        self.exec_id = start.exec_id or self.exec_id
        self.session_id = start.session_id or self.session_id
        if self.seq is None:
            self.seq = start.seq

    def accept(self, push: Push) -> StreamEvent | None:
        """Take a push. Return None if the reader must not get it: it was seen before, or its kind is unknown.

        The push that says that the stream broke off is raised.
        """
        fields = push.fields
        if fields.get("type") == "error":
            raise parse_error(fields.get("error"))
        event = StreamEvent.from_dict(fields)
        if push.raw is not None and event.offset is not None:
            event = event.with_data(event.offset, push.raw)
        seen, self.seq = self.seq or 0, max(self.seq or 0, event.seq)
        if event.type not in KNOWN:
            return None
        if event.type == "exit":
            self.outcome = types.ExecOutcome.from_dict(fields)
        if event.type in ("exit", "end"):
            self.over = True
        if event.type in OUTPUT and event.offset is not None:
            return self._new_output(event, event.offset)
        if event.type == "gap" and event.from_ is not None and event.to is not None:
            return self._new_gap(event, event.from_, event.to)
        if event.type != "end" and self._first.method in ("event.subscribe", "dialogue.events") and event.seq <= seen:
            return None
        return event

    def lost(self, cause: TrlError) -> ConnectionLost:
        """Return the error of a stream that cannot continue, with the parameters that continue it later."""
        where = {"exec_id": self.exec_id, "after_seq": self.seq} if self.exec_id else {"after_seq": self.seq}
        return ConnectionLost(cause.message, where)

    def _resume(self, first: Mapping[str, Any]) -> dict[str, Any]:
        if self._first.method != "exec.stream":
            return {**first, "after_seq": self.seq}
        again: dict[str, Any] = {"exec_id": self.exec_id}
        if "stream" in first:
            again["stream"] = first["stream"]
        if first.get("detach") is False:
            again["detach"] = False
        # The two exclude each other; accept cuts off earlier bytes that after_seq lets through.
        again.update({"after_seq": self.seq} if self.seq else {"from_offset": self._from_offset})
        return again

    def _new_output(self, event: StreamEvent, offset: int) -> StreamEvent | None:
        have, end = self._have[event.type], offset + event.size
        self._have[event.type] = max(have, end)
        if offset >= have:
            return event
        return event.with_data(have, event.data_bytes[have - offset:]) if end > have else None

    def _new_gap(self, event: StreamEvent, begin: int, end: int) -> StreamEvent | None:
        have = self._have.get(event.stream, 0)
        self._have[event.stream] = max(have, end)
        return replace(event, from_=max(begin, have)) if end > have else None


class WholeCursor(Cursor):
    """The position of a reader of a protocol, which cannot continue after a gap."""

    def accept(self, push: Push) -> StreamEvent | None:
        """Take a push; bytes that are no longer kept are an error."""
        event = super().accept(push)
        if event is None or event.type != "gap" or event.from_ is None or event.to is None:
            return event
        gap = {"from": event.from_, "to": event.to}
        message = f"exec {self.exec_id!r}: the bytes {event.from_} to {event.to - 1} of {event.stream} are no longer kept"
        raise error_of("INVALID_PARAMS", message, {"gap": gap})


class ViewerCursor(Cursor):
    """The position of a viewer in the output of a terminal."""

    def __init__(self, request: Request[types.StreamStart]) -> None:
        super().__init__(request)
        self.viewer_id = ""
        self.size: types.TerminalSize | None = request.params.get("size")
        self._offset: int | None = None
        self._owned = False

    def request(self) -> Request[types.StreamStart]:
        """Return what asks for everything that is still to come."""
        if self._offset is None:
            return self._first
        again = {**self._first.params, "from_offset": self._offset}
        again.pop("take_size", None)
        if self.size is not None:
            again["size"] = self.size
            if self._owned:  # the viewer keeps the size; the daemon may still know its lost connection
                again["take_size"] = True
        return replace(self._first, params=again)

    def started(self, data: Any) -> None:
        """Take the answer to the request."""
        super().started(data)
        self.viewer_id = self._first.decode(data).viewer_id or self.viewer_id

    def accept(self, push: Push) -> StreamEvent | None:
        """Take a push, and note the offset where the output continues after it."""
        event = super().accept(push)
        if event is None:
            return None
        if event.type in ("snapshot", "resize"):
            self._owned = event.owner_id == self.viewer_id
        if event.offset is not None:
            self._offset = event.offset + (event.size if event.type == "output" else 0)
        return event

    def lost(self, cause: TrlError) -> ConnectionLost:
        """Return the error of a viewer that cannot continue, with the parameters to attach later."""
        return ConnectionLost(cause.message, {"session_id": self.session_id, "from_offset": self._offset})
