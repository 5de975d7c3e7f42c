"""The client with asyncio. It has the names of the synchronous one.

    async with trl.aio.connect() as t, t.session(shell="bash") as s:
        print((await s.run("make test", timeout_s=60)).exit_code)
        async for c in s.stream("npm ci"):
            print(c.data, end="")
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _request, _talk, types
from ._aio_dialogue import Dialogue, DialogueEvents
from ._aio_lanes import Dialer, Pool
from ._aio_session import AnySession, Exec, Program, Session, Terminal
from ._aio_stream import Stream, Viewer
from ._opening import Opening
from ._options import (
    DialogueOptions, EventOptions, OneRunOptions, ProgramOptions, SessionOptions, TerminalOptions, WaitOptions)
from ._request import Request
from ._resume import LASTING, Cursor, Retry
from ._start import STOPPED
from ._target import HttpTarget, Target, find_target
from .errors import TrlError
from .results import ExecResult

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = [
    "AnySession", "Client", "Dialogue", "DialogueEvents", "Exec", "Opening", "Program", "Session", "Stream", "Terminal", "Viewer",
    "connect", "run",
]

T = TypeVar("T")


def connect(
    socket: str | os.PathLike[str] | None = None, *, url: str | None = None, token: str | None = None,
    tls: ssl.SSLContext | None = None, stdio: Sequence[str] | None = None,
    start: bool = True, reconnect: bool = True, patience_s: float = 30.0,
) -> Opening[Client]:
    """Connect to a daemon: on a unix socket (by default that of this user's daemon), by HTTP, or on
    the stdin and stdout of a program that connect starts.

    If the daemon of this user does not run, the program trl on PATH starts it; start=False forbids it.

    When the connection is lost, the client tries to reconnect for patience_s: streams continue where
    they were, and requests that may safely be sent twice are sent again. reconnect=False turns it off.
    """
    target = find_target(socket, url, token, tls, stdio, start)

    async def open() -> Client:
        client = Client(target, patience_s if reconnect else 0.0)
        try:
            client._pool.give(await client._pool.dial())
        except BaseException:
            await client.close()
            raise
        return client

    return Opening(open)


async def run(command: str, **options: Unpack[OneRunOptions]) -> ExecResult:
    """Run one command in a session of its own, on the daemon of this user."""
    async with connect() as client:
        return await client.run(command, **options)


class Client:
    """A client of one daemon, for the tasks of one event loop.

    Every call that waits has a connection to itself, taken from those that are idle: none waits for
    another, and one that is cancelled or interrupted gives its connection up, which ends a command run by it.
    """

    def __init__(self, target: Target, patience_s: float) -> None:
        self._pool = Pool(Dialer(target), patience_s)
        self._ties = not isinstance(target, HttpTarget)  # whether a session can end with a connection

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. Calls of other tasks that still wait raise ConnectionLost."""
        await self._pool.close()

    async def call(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Call any method by its name and return the data of its answer undecoded."""
        return await self._do(_request.raw(method, params))

    def session(self, **options: Unpack[SessionOptions]) -> Opening[Session]:
        """Create a session. Used with "async with", it is destroyed at the end."""

        async def open() -> Session:
            return Session(self, (await self._do(_request.session_create(options))).session_id)

        return Opening(open)

    async def run(self, command: str, **options: Unpack[OneRunOptions]) -> ExecResult:
        """Run one command in a session of its own, which ends with the command and everything it started."""
        session, run = _request.one_run(options, self._ties)
        async with self.session(**session) as s:
            return await s.run(command, **run)

    def terminal(self, **options: Unpack[TerminalOptions]) -> Opening[Terminal]:
        """Start a program on a pseudo-terminal, such as an editor or a debugger; without a command, a shell."""

        async def open() -> Terminal:
            return Terminal(self, await self._do(_request.terminal_create(options)))

        return Opening(open)

    def program(self, command: Sequence[str], **options: Unpack[ProgramOptions]) -> Opening[Program]:
        """Start a program on three pipes, for protocols such as JSON lines."""

        async def open() -> Program:
            return Program(self, await self._do(_request.program_create(command, options)))

        return Opening(open)

    async def get_session(self, session_id: str) -> Session:
        """Return a session that exists, by its id or name."""
        return Session(self, (await self._do(_request.session_info(session_id))).session_id)

    async def get_terminal(self, session_id: str) -> Terminal:
        """Return a terminal that exists, by its id or name."""
        info = await self._do(_request.session_info(session_id))
        return Terminal(self, info)

    async def get_program(self, session_id: str) -> Program:
        """Return the session of a program, by its id or name."""
        info = await self._do(_request.session_info(session_id))
        return Program(self, info)

    async def sessions(
        self, *, tags: Iterable[str] = (), state: types.SessionState | None = None
    ) -> list[types.SessionInfo]:
        """List the sessions."""
        return await self._do(_request.session_list(tags, state))

    def dialogue(self, agent: str, **options: Unpack[DialogueOptions]) -> Opening[Dialogue]:
        """Start a conversation with a coding agent: claude, codex, or one that speaks acp."""

        async def open() -> Dialogue:
            return Dialogue(self, await self._do(_talk.create(agent, options)))

        return Opening(open)

    async def get_dialogue(self, dialogue_id: str) -> Dialogue:
        """Return a dialogue that exists, by its id or name."""
        return Dialogue(self, await self._do(_talk.info(dialogue_id)))

    async def dialogues(
        self, *, tags: Sequence[str] = (), state: types.DialogueState | None = None
    ) -> list[types.DialogueInfo]:
        """List the dialogues."""
        return await self._do(_talk.listing(tags, state))

    def get_exec(self, exec_id: str) -> Exec:
        """Return a command that this or another client has started, by its id."""
        return Exec(self, exec_id)

    async def wait(
        self, execs: Iterable[Exec], *, all: bool = False, **options: Unpack[WaitOptions]
    ) -> types.ExecWaitResult:
        """Wait until something happens to one of the commands, or to all."""
        return await self._do(_request.exec_wait([x.id for x in execs], all, options))

    def events(self, **options: Unpack[EventOptions]) -> Stream:
        """Stream the events of sessions and commands."""
        return Stream(self._pool, Cursor(_request.event_subscribe(options)))

    async def info(self) -> types.SystemInfoResult:
        """Return version, platform, limits and methods of the daemon."""
        return types.SystemInfoResult.from_dict(await self.call("system.info"))

    async def _do(self, request: Request[T]) -> T:
        retry = Retry(request, self._pool.patience_s)
        again = False
        while True:
            try:
                params = retry.params()
                return request.decode(await self._pool.answer_to(request.method, params, self._pool.patience_s, again))
            except TrlError as e:
                delay = None if self._pool.closed() else retry.delay(e)
                if delay is None:
                    raise
            again = request.method in LASTING  # it waits for earlier work; any other call is new
            await self._pool.pause(delay)

    async def _leave(self, request: Request[Any], missing: str, e: BaseException | None) -> None:
        """End what a block created. missing is the code if it has ended; e is the error that left the block.

        If a user stopped the daemon, it has ended the sessions, or keeps them on purpose: none is started for this.
        """
        retry = Retry(request, self._pool.patience_s if e is None else 0.0)
        while True:
            try:
                await self._pool.answer_to(request.method, retry.params(), 0.0, again=True)
                return
            except TrlError as failure:
                if failure.code == missing or failure.reason == STOPPED:
                    if "session_id" in request.params:
                        self._pool.unbind(request.params["session_id"])
                    return
                delay = None if self._pool.closed() else retry.delay(failure)
                if delay is None:
                    if e is None:
                        raise
                    return  # a failure to end it must not hide the error that left the block
            await self._pool.pause(delay)
