"""The synchronous client. See trl_client.aio for the same with asyncio."""

from __future__ import annotations

import os
import ssl
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from . import _request, _talk, types
from ._dialogue import Dialogue, DialogueEvents
from ._lanes import Dialer, Pool
from ._request import EventOptions, OneRunOptions, ProgramOptions, Request, SessionOptions, TerminalOptions, WaitOptions
from ._resume import Cursor, Retry
from ._session import AnySession, Exec, Program, Session, Terminal
from ._stream import Stream, Viewer
from ._talk import DialogueOptions
from ._target import HttpTarget, Target, find_target
from .errors import TrlError
from .results import ExecResult

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = [
    "AnySession", "Client", "Dialogue", "DialogueEvents", "Exec", "Program", "Session", "Stream", "Terminal", "Viewer", "connect", "run",
]

T = TypeVar("T")
S = TypeVar("S", bound=Stream)


def connect(
    socket: str | os.PathLike[str] | None = None, *, url: str | None = None, token: str | None = None,
    tls: ssl.SSLContext | None = None, stdio: Sequence[str] | None = None,
    start: bool = True, reconnect: bool = True, patience_s: float = 30.0,
) -> Client:
    """Connect to a daemon: on a unix socket (that of this user when nothing is said), by HTTP, or on
    the stdin and stdout of a program to start.

    The daemon of this user is started when none runs, by the program trl on PATH; start=False forbids it.

    A daemon that goes away later is waited for, for patience_s: streams are read on where they
    were, and requests that do no harm when sent twice are sent again. reconnect=False turns it off.
    """
    client = Client(find_target(socket, url, token, tls, stdio, start), patience_s if reconnect else 0.0)
    try:
        client._pool.give(client._pool.dial())
    except BaseException:
        client.close()
        raise
    return client


def run(command: str, **options: Unpack[OneRunOptions]) -> ExecResult:
    """Run one command in a session of its own, on the daemon of this user."""
    with connect() as client:
        return client.run(command, **options)


class Client:
    """A daemon as this program sees it. Safe for use by several threads.

    Every call that waits has a connection to itself, taken from those that are idle: none waits for
    another, and one that is interrupted gives its connection up, which ends a command run by it.
    """

    def __init__(self, target: Target, patience_s: float) -> None:
        self._pool = Pool(Dialer(target), patience_s)
        self._ties = not isinstance(target, HttpTarget)  # whether a session can end with a connection
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

    def run(self, command: str, **options: Unpack[OneRunOptions]) -> ExecResult:
        """Run one command in a session of its own, which ends with it and with everything it started."""
        session, run = _request.one_run(options, self._ties)
        with self.session(**session) as s:
            return s.run(command, **run)

    def terminal(self, **options: Unpack[TerminalOptions]) -> Terminal:
        """Start a program on a pseudo-terminal: an editor, a debugger, a shell when there is no command."""
        return Terminal(self, self._do(_request.terminal_create(options)))

    def program(self, command: Sequence[str], **options: Unpack[ProgramOptions]) -> Program:
        """Start a program on three pipes, for protocols such as JSON lines."""
        return Program(self, self._do(_request.program_create(command, options)))

    def get_session(self, session_id: str) -> Session:
        """Return a session that exists, by its id or name."""
        return Session(self, self._do(_request.session_info(session_id)).session_id)

    def get_terminal(self, session_id: str) -> Terminal:
        """Return a terminal that exists, by its id or name."""
        return Terminal(self, self._do(_request.session_info(session_id)))

    def get_program(self, session_id: str) -> Program:
        """Return the session of a program, by its id or name."""
        return Program(self, self._do(_request.session_info(session_id)))

    def sessions(self, *, tags: Iterable[str] = (), state: types.SessionState | None = None) -> list[types.SessionInfo]:
        """List the sessions."""
        return self._do(_request.session_list(tags, state))

    def dialogue(self, agent: str, **options: Unpack[DialogueOptions]) -> Dialogue:
        """Start a conversation with a coding agent: claude, codex, or one that speaks acp."""
        return Dialogue(self, self._do(_talk.create(agent, options)))

    def get_dialogue(self, dialogue_id: str) -> Dialogue:
        """Return a dialogue that exists, by its id or name."""
        return Dialogue(self, self._do(_talk.info(dialogue_id)))

    def dialogues(self, *, tags: Sequence[str] = (), state: types.DialogueState | None = None) -> list[types.DialogueInfo]:
        """List the dialogues."""
        return self._do(_talk.listing(tags, state))

    def get_exec(self, exec_id: str) -> Exec:
        """Return a command that was started before, perhaps by another program."""
        return Exec(self, exec_id)

    def wait(self, execs: Iterable[Exec], *, all: bool = False, **options: Unpack[WaitOptions]) -> types.ExecWaitResult:
        """Wait until something happens to one of the commands, or to all."""
        return self._do(_request.exec_wait([x.id for x in execs], all, options))

    def events(self, **options: Unpack[EventOptions]) -> Stream:
        """Stream what happens to sessions and commands."""
        return self._open(Stream(self._pool, Cursor(_request.event_subscribe(options))))

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

    def _open(self, stream: S) -> S:
        with self._lock:
            self._streams.add(stream)  # before it begins, so that close can end it at any time
        stream._begin()
        return stream
