"""The streams of the client with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING

from . import _request, types
from ._aio_lanes import Lane, Pool, answer_to
from ._resume import Cursor, Outage, ViewerCursor
from ._wire import Answer
from .errors import ConnectionLost, TrlError
from .results import StreamEvent

if TYPE_CHECKING:
    from typing_extensions import Self

    from .aio import Client


class Stream(AsyncIterator[StreamEvent]):
    """Pushes of the daemon as an iterator, on a connection of its own.

    It is opened by "async with", by open, or by the first step of a loop. Closing it, or leaving
    the loop over it, frees the connection; the command goes on. Once it is open, a step that is
    cancelled, by asyncio.wait_for for instance, loses nothing.
    """

    def __init__(self, pool: Pool, cursor: Cursor) -> None:
        self._pool = pool
        self._cursor = cursor
        self._outage = Outage(pool.patience_s)
        self._opened = False
        self._closed = False
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

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    def __del__(self) -> None:
        lane = getattr(self, "_lane", None)
        if lane is not None:
            self._pool.discard_from_anywhere(lane)

    async def open(self) -> None:
        """Start the command, or begin to read an existing one. Later calls do nothing."""
        if self._opened:
            return
        self._opened = True
        try:
            await self._attach(await self._pool.dial_patiently(self._pool.patience_s))
        except TrlError as e:
            await self._resume(e)

    async def close(self) -> None:
        """Stop reading."""
        lane = self._lane
        self._opened = self._closed = True
        self._drop()
        if lane is not None:
            await lane.wait_closed()

    async def __anext__(self) -> StreamEvent:
        await self.open()
        event = None
        while event is None and not self._closed and not self._cursor.over:
            event = await self._receive()
        if self._cursor.over:
            self._drop()
        if event is None:
            raise StopAsyncIteration
        return event

    async def _receive(self) -> StreamEvent | None:
        try:
            if self._lane is None:
                raise ConnectionLost("daemon: connection lost")
            message = await self._lane.receive()
            if isinstance(message, Answer):
                return None
            event = self._cursor.accept(message)
            self._outage.over()
            return event
        except TrlError as e:
            await self._resume(e)
            return None

    async def _resume(self, cause: TrlError) -> None:
        """Continue where the stream stopped, or raise the cause."""
        while self._cursor.goes_on_after(cause):
            self._drop()
            if self._closed:
                return
            delay = None if self._pool.closed() else self._outage.delay(cause)
            if delay is None:
                raise self._cursor.lost(cause) from cause
            await self._pool.pause(delay)
            try:
                await self._attach(await self._pool.dial(again=self._cursor.opened))
                return
            except TrlError as e:
                cause = e
        self._drop()
        raise cause

    async def _attach(self, lane: Lane) -> None:
        request = self._cursor.request()
        try:
            self._cursor.started(await answer_to(lane, request.method, request.params))
        except BaseException:
            self._pool.discard(lane)
            raise
        self._lane = lane
        if self._closed:
            self._drop()

    def _drop(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            self._pool.discard(lane)


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

    async def resize(self, cols: int, rows: int) -> types.SessionResizeResult:
        """Set the size of this viewer. The terminal follows it if this viewer owns the size."""
        self._viewer.size = {"cols": cols, "rows": rows}
        await self.open()
        request = _request.session_resize(self._viewer.session_id, cols, rows, viewer_id=self.viewer_id)
        return await self._client._do(request)
