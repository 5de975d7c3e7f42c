"""The client with asyncio. It has the names of the synchronous one.

    async with trl.aio.connect() as t, t.session(shell="bash") as s:
        print((await s.run("make test", timeout_s=60)).exit_code)
        async for c in s.stream("npm ci"):
            print(c.data, end="")
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from . import _request, types
from ._aio_lanes import Dialer, Lane, Pool, answer_to
from ._request import (
    AttachOptions, EventOptions, OutputOptions, Request, RunOptions, SessionOptions, StartOptions, StreamOptions, WaitOptions)
from ._resume import Cursor, Outage, Retry
from ._target import Target, find_target
from ._wire import Answer
from .errors import ConnectionLost, TrlError
from .results import ExecOutputResult, ExecResult, StreamEvent

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


class _Leaves(Protocol):
    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None, /
    ) -> None: ...


L = TypeVar("L", bound=_Leaves)


class Opening(Generic[L]):
    """Something that is to be opened: with "async with", which closes it at the end, or with await."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, L]]) -> None:
        self._open = open
        self._opened: L | None = None

    def __await__(self) -> Generator[Any, None, L]:
        return self._open().__await__()

    async def __aenter__(self) -> L:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, e, where)


def connect(
    socket: str | os.PathLike[str] | None = None, *, url: str | None = None, token: str | None = None,
    tls: ssl.SSLContext | None = None, stdio: Sequence[str] | None = None,
    reconnect: bool = True, patience_s: float = 30.0,
) -> Opening[Client]:
    """Connect to a daemon: on a unix socket (that of this user when nothing is said), by HTTP, or on
    the stdin and stdout of a program to start.

    A daemon that goes away later is waited for, for patience_s: streams are read on where they
    were, and requests that do no harm when sent twice are sent again. reconnect=False turns it off.
    """
    target = find_target(socket, url, token, tls, stdio)

    async def open() -> Client:
        client = Client(target, patience_s if reconnect else 0.0)
        try:
            client._pool.give(await client._pool.dial())
        except BaseException:
            await client.close()
            raise
        return client

    return Opening(open)


class Client:
    """A daemon as this program sees it, for the tasks of one event loop.

    Every call that waits has a connection to itself, taken from those that are idle: none waits for
    another, and one that is cancelled gives its connection up, which ends a command run by it.
    """

    def __init__(self, target: Target, patience_s: float) -> None:
        self._pool = Pool(Dialer(target), patience_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. What other tasks wait for ends with ConnectionLost."""
        await self._pool.close()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any method by its name and return the data of its answer as it came."""
        return await self._do(_request.raw(method, params))

    def session(self, **options: Unpack[SessionOptions]) -> Opening[Session]:
        """Make a session. Used with "async with", it is destroyed at the end."""

        async def open() -> Session:
            return Session(self, (await self._do(_request.session_create(options))).session_id)

        return Opening(open)

    async def get_session(self, session_id: str) -> Session:
        """Return a session that exists, by its id or name."""
        return Session(self, (await self._do(_request.session_info(session_id))).session_id)

    async def sessions(
        self, *, tags: Iterable[str] = (), state: types.SessionState | None = None
    ) -> list[types.SessionInfo]:
        """List the sessions."""
        return await self._do(_request.session_list(tags, state))

    def get_exec(self, exec_id: str) -> Exec:
        """Return a command that was started before, perhaps by another program."""
        return Exec(self, exec_id)

    async def wait(
        self, execs: Iterable[Exec], *, all: bool = False, **options: Unpack[WaitOptions]
    ) -> types.ExecWaitResult:
        """Wait until something happens to one of the commands, or to all."""
        return await self._do(_request.exec_wait([x.id for x in execs], all, options))

    def events(self, **options: Unpack[EventOptions]) -> Stream:
        """Stream what happens to sessions and commands."""
        return Stream(self._pool, _request.event_subscribe(options))

    async def info(self) -> types.SystemInfoResult:
        """Tell version, platform, limits and methods of the daemon."""
        return types.SystemInfoResult.from_dict(await self.call("system.info"))

    async def _do(self, request: Request[T], patient: bool = True) -> T:
        patience_s = self._pool.patience_s if patient else 0.0
        retry = Retry(request, patience_s)
        while True:
            try:
                return request.decode(await self._pool.answer_to(request.method, retry.params(), patience_s))
            except TrlError as e:
                delay = None if self._pool.closed else retry.delay(e)
                if delay is None:
                    raise
            await asyncio.sleep(delay)


class Session:
    """A place to work: a living shell with its directory and environment."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self.id = session_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        try:
            await self._client._do(_request.session_destroy(self.id, False), patient=e is None)
        except TrlError as failure:
            # The end of the session must not hide what went wrong in it.
            if e is None and failure.code != "SESSION_NOT_FOUND":
                raise

    def __repr__(self) -> str:
        return f"<trl.aio.Session {self.id}>"

    async def run(self, command: str, **options: Unpack[RunOptions]) -> ExecResult:
        """Run a command and wait for its outcome. A failure or a timeout of the command is a result."""
        return await self._client._do(_request.exec_run(self.id, command, options))

    async def start(self, command: str, **options: Unpack[StartOptions]) -> Exec:
        """Start a command and return at once."""
        return Exec(self._client, (await self._client._do(_request.exec_start(self.id, command, options))).exec_id)

    def stream(self, command: str, **options: Unpack[StreamOptions]) -> Stream:
        """Iterate over the output of a command as it comes. It is started when the stream is opened."""
        return Stream(self._client._pool, _request.exec_stream(self.id, command, options))

    async def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Stop what runs now."""
        return await self._client._do(_request.exec_cancel({"session_id": self.id}, signal))

    async def execs(self, state: types.ExecState | None = None) -> list[types.ExecInfo]:
        """List the commands."""
        return await self._client._do(_request.exec_list(self.id, state))

    async def info(self) -> types.SessionDetails:
        """Tell everything about the session."""
        return await self._client._do(_request.session_info(self.id))

    async def destroy(self, *, force: bool = False) -> types.SessionDestroyResult:
        """End the session and every process in it."""
        return await self._client._do(_request.session_destroy(self.id, force))


class Exec:
    """One command, running or ended."""

    def __init__(self, client: Client, exec_id: str) -> None:
        self._client = client
        self.id = exec_id

    def __repr__(self) -> str:
        return f"<trl.aio.Exec {self.id}>"

    async def wait(self, **options: Unpack[WaitOptions]) -> types.WaitEvent:
        """Wait until the command exits, or until what the options say; TimeoutError after timeout_ms."""
        return _request.only(await self._client._do(_request.exec_wait([self.id], False, options)), self.id)

    async def input(self, data: str | bytes, *, close: bool = False, write_id: str | None = None) -> types.ExecInputResult:
        """Write to the command's stdin, which was left open."""
        return await self._client._do(_request.exec_input(self.id, data, close, write_id))

    async def close_input(self) -> types.ExecInputResult:
        """End the command's stdin."""
        return await self.input(b"", close=True)

    async def output(self, **options: Unpack[OutputOptions]) -> ExecOutputResult:
        """Read a piece of what was printed: by offset, from the end, or the lines that match."""
        return await self._client._do(_request.exec_output(self.id, options))

    def stream(self, **options: Unpack[AttachOptions]) -> Stream:
        """Iterate over the output, from its beginning or from where the options say."""
        return Stream(self._client._pool, _request.exec_attach(self.id, options))

    async def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Stop the command and everything it started."""
        return await self._client._do(_request.exec_cancel({"exec_id": self.id}, signal))

    async def info(self) -> types.ExecInfo:
        """Tell the state and outcome."""
        return await self._client._do(_request.exec_info(self.id))


class Stream(AsyncIterator[StreamEvent]):
    """Pushes of the daemon as an iterator, on a connection of its own.

    It is opened by "async with", by open, or by the first step of a loop. Closing it, or leaving
    the loop over it, frees the connection; the command goes on. Once it is open, a step that is
    cancelled, by asyncio.wait_for for instance, loses nothing.
    """

    def __init__(self, pool: Pool, request: Request[types.StreamStart]) -> None:
        self._pool = pool
        self._cursor = Cursor(request)
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
        """The number of the last push: with it as after_seq another reader goes on from here."""
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
        """Start the command, or begin to read the one that was named. Later calls do nothing."""
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
        while event is None and not self._closed and self.outcome is None:
            event = await self._receive()
        if self.outcome is not None:
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
        """Read on where the stream broke off, or raise the cause."""
        while self._cursor.goes_on_after(cause):
            self._drop()
            if self._closed:
                return
            delay = None if self._pool.closed else self._outage.delay(cause)
            if delay is None:
                raise self._cursor.lost(cause) from cause
            await asyncio.sleep(delay)
            try:
                await self._attach(await self._pool.dial())
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
