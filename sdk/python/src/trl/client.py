"""The synchronous client. See trl.aio for the same with asyncio."""

from __future__ import annotations

import os
import ssl
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _request, types
from ._lanes import Dialer, Lane, Pool, answer_to
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


def connect(
    socket: str | os.PathLike[str] | None = None, *, url: str | None = None, token: str | None = None,
    tls: ssl.SSLContext | None = None, stdio: Sequence[str] | None = None,
    reconnect: bool = True, patience_s: float = 30.0,
) -> Client:
    """Connect to a daemon: on a unix socket (that of this user when nothing is said), by HTTP, or on
    the stdin and stdout of a program to start.

    A daemon that goes away later is waited for, for patience_s: streams are read on where they
    were, and requests that do no harm when sent twice are sent again. reconnect=False turns it off.
    """
    client = Client(find_target(socket, url, token, tls, stdio), patience_s if reconnect else 0.0)
    try:
        client._pool.give(client._pool.dial())
    except BaseException:
        client.close()
        raise
    return client


class Client:
    """A daemon as this program sees it. Safe for use by several threads.

    Every call that waits has a connection to itself, taken from those that are idle: none waits for
    another, and one that is interrupted gives its connection up, which ends a command run by it.
    """

    def __init__(self, target: Target, patience_s: float) -> None:
        self._pool = Pool(Dialer(target), patience_s)
        self._lock = threading.Lock()
        self._streams: weakref.WeakSet[Stream] = weakref.WeakSet()  # guarded by _lock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections. What other threads wait for ends with ConnectionLost."""
        self._pool.close()
        with self._lock:
            streams = list(self._streams)
        for stream in streams:
            stream._hang_up()

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any method by its name and return the data of its answer as it came."""
        return self._do(_request.raw(method, params))

    def session(self, **options: Unpack[SessionOptions]) -> Session:
        """Make a session. Used with "with", it is destroyed at the end."""
        return Session(self, self._do(_request.session_create(options)).session_id)

    def get_session(self, session_id: str) -> Session:
        """Return a session that exists, by its id or name."""
        return Session(self, self._do(_request.session_info(session_id)).session_id)

    def sessions(self, *, tags: Iterable[str] = (), state: types.SessionState | None = None) -> list[types.SessionInfo]:
        """List the sessions."""
        return self._do(_request.session_list(tags, state))

    def get_exec(self, exec_id: str) -> Exec:
        """Return a command that was started before, perhaps by another program."""
        return Exec(self, exec_id)

    def wait(self, execs: Iterable[Exec], *, all: bool = False, **options: Unpack[WaitOptions]) -> types.ExecWaitResult:
        """Wait until something happens to one of the commands, or to all."""
        return self._do(_request.exec_wait([x.id for x in execs], all, options))

    def events(self, **options: Unpack[EventOptions]) -> Stream:
        """Stream what happens to sessions and commands."""
        return self._open(_request.event_subscribe(options))

    def info(self) -> types.SystemInfoResult:
        """Tell version, platform, limits and methods of the daemon."""
        return types.SystemInfoResult.from_dict(self.call("system.info"))

    def _do(self, request: Request[T], patient: bool = True) -> T:
        patience_s = self._pool.patience_s if patient else 0.0
        retry = Retry(request, patience_s)
        while True:
            try:
                return request.decode(self._pool.answer_to(request.method, retry.params(), patience_s))
            except TrlError as e:
                delay = None if self._pool.closed() else retry.delay(e)
                if delay is None:
                    raise
            self._pool.pause(delay)

    def _open(self, request: Request[types.StreamStart]) -> Stream:
        stream = Stream(self._pool, request)
        with self._lock:
            self._streams.add(stream)  # before it begins, so that close can end it at any time
        stream._begin()
        return stream


class Session:
    """A place to work: a living shell with its directory and environment."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self.id = session_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        try:
            self._client._do(_request.session_destroy(self.id, False), patient=e is None)
        except TrlError as failure:
            # The end of the session must not hide what went wrong in it.
            if e is None and failure.code != "SESSION_NOT_FOUND":
                raise

    def __repr__(self) -> str:
        return f"<trl.Session {self.id}>"

    def run(self, command: str, **options: Unpack[RunOptions]) -> ExecResult:
        """Run a command and wait for its outcome. A failure or a timeout of the command is a result."""
        return self._client._do(_request.exec_run(self.id, command, options))

    def start(self, command: str, **options: Unpack[StartOptions]) -> Exec:
        """Start a command and return at once."""
        return Exec(self._client, self._client._do(_request.exec_start(self.id, command, options)).exec_id)

    def stream(self, command: str, **options: Unpack[StreamOptions]) -> Stream:
        """Start a command and iterate over its output as it comes."""
        return self._client._open(_request.exec_stream(self.id, command, options))

    def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Stop what runs now."""
        return self._client._do(_request.exec_cancel({"session_id": self.id}, signal))

    def execs(self, state: types.ExecState | None = None) -> list[types.ExecInfo]:
        """List the commands."""
        return self._client._do(_request.exec_list(self.id, state))

    def info(self) -> types.SessionDetails:
        """Tell everything about the session."""
        return self._client._do(_request.session_info(self.id))

    def destroy(self, *, force: bool = False) -> types.SessionDestroyResult:
        """End the session and every process in it."""
        return self._client._do(_request.session_destroy(self.id, force))


class Exec:
    """One command, running or ended."""

    def __init__(self, client: Client, exec_id: str) -> None:
        self._client = client
        self.id = exec_id

    def __repr__(self) -> str:
        return f"<trl.Exec {self.id}>"

    def wait(self, **options: Unpack[WaitOptions]) -> types.WaitEvent:
        """Wait until the command exits, or until what the options say; TimeoutError after timeout_ms."""
        return _request.only(self._client._do(_request.exec_wait([self.id], False, options)), self.id)

    def input(self, data: str | bytes, *, close: bool = False, write_id: str | None = None) -> types.ExecInputResult:
        """Write to the command's stdin, which was left open."""
        return self._client._do(_request.exec_input(self.id, data, close, write_id))

    def close_input(self) -> types.ExecInputResult:
        """End the command's stdin."""
        return self.input(b"", close=True)

    def output(self, **options: Unpack[OutputOptions]) -> ExecOutputResult:
        """Read a piece of what was printed: by offset, from the end, or the lines that match."""
        return self._client._do(_request.exec_output(self.id, options))

    def stream(self, **options: Unpack[AttachOptions]) -> Stream:
        """Iterate over the output, from its beginning or from where the options say."""
        return self._client._open(_request.exec_attach(self.id, options))

    def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Stop the command and everything it started."""
        return self._client._do(_request.exec_cancel({"exec_id": self.id}, signal))

    def info(self) -> types.ExecInfo:
        """Tell the state and outcome."""
        return self._client._do(_request.exec_info(self.id))


class Stream(Iterator[StreamEvent]):
    """Pushes of the daemon as an iterator, on a connection of its own.

    Closing it, or leaving the loop over it, frees the connection; the command goes on. It is read by
    one thread; close may come from another, and ends the loop.
    """

    def __init__(self, pool: Pool, request: Request[types.StreamStart]) -> None:
        self._pool = pool
        self._cursor = Cursor(request)
        self._outage = Outage(pool.patience_s)
        self._closed = False
        self._reading = threading.Lock()  # held while the lane is in use
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_lane"):
            self.close()

    def close(self) -> None:
        """Stop reading."""
        self._closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        lane = self._lane
        if lane is None:
            return
        lane.shutdown()
        # A thread that reads closes the lane itself: its descriptor must not go to another meanwhile.
        if self._reading.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._reading.release()

    def _begin(self) -> None:
        with self._reading:
            try:
                self._attach(self._pool.dial_patiently(self._pool.patience_s))
            except TrlError as e:
                self._resume(e)
            except BaseException:
                self._drop()
                raise

    def __next__(self) -> StreamEvent:
        with self._reading:
            try:
                event = None
                while event is None and not self._closed and self.outcome is None:
                    event = self._receive()
            except BaseException:
                # After an interrupt nobody knows what was read of a line. The next one begins anew.
                self._drop()
                raise
            if event is None or self._closed or self.outcome is not None:
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
        """Read on where the stream broke off, or raise the cause."""
        while self._cursor.goes_on_after(cause):
            self._drop()
            if self._closed:
                return
            delay = None if self._pool.closed() else self._outage.delay(cause)
            if delay is None:
                raise self._cursor.lost(cause) from cause
            self._pool.pause(delay)
            try:
                self._attach(self._pool.dial())
                return
            except TrlError as e:
                cause = e
        self._drop()
        raise cause

    def _attach(self, lane: Lane) -> None:
        self._lane = lane
        # Here the lane is set before the look; who closes does it the other way round, so one sees the other.
        if self._closed or self._pool.closed():
            raise ConnectionLost("client: is closed")
        request = self._cursor.request()
        self._cursor.started(answer_to(lane, request.method, request.params))

    def _drop(self) -> None:
        lane, self._lane = self._lane, None
        if lane is not None:
            lane.close()
