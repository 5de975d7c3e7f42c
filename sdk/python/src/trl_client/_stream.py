"""The streams of the synchronous client."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING

from . import _request, types
from ._lanes import Lane, Pool, answer_to
from ._resume import Cursor, Outage, ViewerCursor
from ._wire import Answer
from .errors import ConnectionLost, TrlError
from .results import StreamEvent

if TYPE_CHECKING:
    from typing_extensions import Self

    from .client import Client


class Stream(Iterator[StreamEvent]):
    """Pushes of the daemon as an iterator, on a connection of its own.

    It is opened by "with", by open, or by the first step of a loop. Closing it, or leaving the loop
    over it, frees the connection; the command goes on. It is read by one thread; close may come from
    another, and ends the loop.
    """

    def __init__(self, pool: Pool, cursor: Cursor) -> None:
        self._pool = pool
        self._cursor = cursor
        self._outage = Outage(pool.patience_s)
        self._opened = False  # set while _reading is held
        self._closed = False
        self._reading = threading.Lock()  # held while the lane is in use
        self._lane: Lane | None = None

    @property
    def exec_id(self) -> str:
        """The command whose output this is."""
        return self._cursor.exec_id

    @property
    def seq(self) -> int:
        """The number of the last push. Another reader continues from here with it as after_seq."""
        return self._cursor.seq or 0

    @property
    def outcome(self) -> types.ExecOutcome | None:
        """How the command ended, once its exit was read."""
        return self._cursor.outcome

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lane"):
            self.close()

    def open(self) -> None:
        """Start the command, or begin to read an existing one. Later calls do nothing."""
        if not self._opened:  # else another thread may be reading, and would keep this one waiting
            with self._reading:
                self._open()

    def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        lane = self._lane
        if lane is None:
            return
        lane.shutdown()
        # A thread that reads closes the lane itself: its descriptor must not be reused meanwhile.
        if self._reading.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._reading.release()

    def _open(self) -> None:
        if self._opened or self._closed:
            return
        self._pool.track(self)  # before it begins, so that close can end it at any time
        try:
            self._attach(self._pool.dial_patiently(self._pool.patience_s))
        except TrlError as e:
            self._resume(e)
        except BaseException:
            self._drop()
            raise
        finally:
            self._opened = True

    def __next__(self) -> StreamEvent:
        with self._reading:
            self._open()
            try:
                event = None
                while event is None and not self._closed and not self._cursor.over:
                    event = self._receive()
            except BaseException:
                # After an interrupt, part of a line may have been read. The next step reconnects.
                self._drop()
                raise
            if event is None or self._closed or self._cursor.over:
                self._drop()
        if event is None:
            raise StopIteration
        return event

    def _receive(self) -> StreamEvent | None:
        try:
            if self._lane is None:
                raise ConnectionLost("daemon: connection lost")
            message = self._lane.receive()
            if isinstance(message, Answer):
                return None
            event = self._cursor.accept(message)
            self._outage.over()
            return event
        except TrlError as e:
            self._resume(e)
            return None

    def _resume(self, cause: TrlError) -> None:
        """Continue where the stream stopped, or raise the cause."""
        while self._cursor.goes_on_after(cause):
            self._drop()
            if self._closed:
                return
            delay = None if self._pool.closed() else self._outage.delay(cause)
            if delay is None:
                raise self._cursor.lost(cause) from cause
            self._pool.pause(delay)
            try:
                self._attach(self._pool.dial(again=self._cursor.opened))
                return
            except TrlError as e:
                cause = e
        self._drop()
        raise cause

    def _attach(self, lane: Lane) -> None:
        self._lane = lane
        # The lane is set before the check; close does it in the reverse order, so one of them sees the other.
        if self._closed or self._pool.closed():
            raise ConnectionLost("client: is closed")
        request = self._cursor.request()
        self._cursor.started(answer_to(lane, request.method, request.params))

    def _drop(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()


class Viewer(Stream):
    """The screen of a terminal: a snapshot, the bytes that follow, changes of size, the exit.

    After a lost connection it continues with exactly the missing bytes; or with a new snapshot, if
    they are too many.
    """

    def __init__(self, client: Client, cursor: ViewerCursor) -> None:
        super().__init__(client._pool, cursor)
        self._client = client
        self._viewer = cursor

    @property
    def viewer_id(self) -> str:
        """The id of this viewer, once the stream is open. It changes whenever the stream reconnects."""
        return self._viewer.viewer_id

    def resize(self, cols: int, rows: int) -> types.SessionResizeResult:
        """Set the size of this viewer. The terminal follows it if this viewer owns the size."""
        self._viewer.size = {"cols": cols, "rows": rows}
        self.open()
        request = _request.session_resize(self._viewer.session_id, cols, rows, viewer_id=self.viewer_id)
        return self._client._do(request)
