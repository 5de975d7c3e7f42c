"""Lanes: connections of the asyncio client, each used by one conversation at a time."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping
from typing import Any, Protocol

from ._lanes import EXIT_PATIENCE_S
from ._mux import Channel, Item, Mux
from ._place import check_peer, check_socket, was_stopped
from ._resume import Backoff, gone
from ._start import absent, start_daemon, stopped
from ._target import (
    CHUNK, IDLE_S, SILENCE_S, HttpTarget, StdioTarget, Target, UnixTarget, keep_alive, reason, says_something)
from ._wire import Answer, Message, Wire
from .errors import ConnectionLost, TrlError


class Lane(Protocol):
    """A connection that carries one conversation at a time. A receive that is cancelled loses nothing."""

    async def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request."""

    async def receive(self) -> Message:
        """Return the next message; raise ConnectionLost if there will be none."""

    def stale(self) -> bool:
        """Report whether the lane cannot carry another conversation."""

    def close(self) -> None:
        """Close the lane and give up its conversation; a receive ends."""

    async def wait_closed(self) -> None:
        """Wait until the lane is closed."""


async def answer_to(lane: Lane, method: str, params: Mapping[str, Any]) -> Any:
    """Send a request and return the data of its answer."""
    await lane.send(method, params)
    while True:
        message = await lane.receive()
        if isinstance(message, Answer):
            return message.result()


class SocketLane:
    """A lane that is a connection of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire, http: bool) -> None:
        self._reader, self._writer, self._wire, self._http = reader, writer, wire, http
        self._used = time.monotonic()

    async def send(self, method: str, params: Mapping[str, Any]) -> None:
        # Not drained: a daemon that refuses a request answers before it has read all of it.
        self._writer.write(self._wire.request(method, params))

    async def receive(self) -> Message:
        while (message := self._wire.next()) is None:
            watchdog = asyncio.get_running_loop().call_later(SILENCE_S, self.close) if self._http else None
            try:
                data = await self._reader.read(CHUNK)
            except OSError as e:
                raise ConnectionLost(f"daemon: connection lost: {reason(e)}") from e
            finally:
                if watchdog is not None:
                    watchdog.cancel()
            self._wire.feed(data)
        self._used = time.monotonic()
        return message

    def stale(self) -> bool:
        if self._http and time.monotonic() - self._used > IDLE_S:
            return True
        if not self._wire.reusable() or self._reader.at_eof() or self._writer.is_closing():
            return True
        return says_something(self._writer.get_extra_info("socket").fileno())

    def close(self) -> None:
        self._writer.transport.abort()

    async def wait_closed(self) -> None:
        try:
            await self._writer.wait_closed()
        except OSError:
            pass  # the lane is closed in any case


async def dial_unix(target: UnixTarget, again: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket; start a daemon if none listens and the target allows it.

    With again, the client resumes earlier work by itself: it starts no daemon if a user stopped the last one.
    """
    try:
        return await connect_unix(target.path)
    except OSError as e:
        if not target.start or not absent(e):
            raise
    if again and was_stopped():
        raise stopped(target.path)
    target.path = await asyncio.to_thread(start_daemon, target.path)
    return await connect_unix(target.path)


async def connect_unix(path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket of this user."""
    check_socket(path)
    reader, writer = await asyncio.open_unix_connection(path, limit=CHUNK)
    try:
        check_peer(writer.get_extra_info("socket"))
    except OSError:
        writer.transport.abort()
        raise
    return reader, writer


async def dial(target: UnixTarget | HttpTarget, again: bool) -> SocketLane:
    """Connect to a daemon that listens, with again as in dial_unix."""
    try:
        if isinstance(target, UnixTarget):
            reader, writer = await dial_unix(target, again)
            return SocketLane(reader, writer, target.wire(), http=False)
        connecting = asyncio.open_connection(target.host, target.port, ssl=target.tls, limit=CHUNK)
        reader, writer = await asyncio.wait_for(connecting, SILENCE_S)
        keep_alive(writer.get_extra_info("socket"))
        return SocketLane(reader, writer, target.wire(), http=True)
    except asyncio.TimeoutError as e:
        raise target.unreachable(OSError("no connection in time")) from e
    except OSError as e:
        raise target.unreachable(e) from e


class StdioLane:
    """A lane on the pipe of a program, which it shares with others."""

    def __init__(self, process: StdioProcess) -> None:
        self._process = process
        self._inbox: asyncio.Queue[tuple[int, Item]] = asyncio.Queue()
        self._channel = Channel(self._inbox)

    async def send(self, method: str, params: Mapping[str, Any]) -> None:
        await self._process.write(self._process.mux.request(self._channel, method, params))

    async def receive(self) -> Message:
        size, item = await self._inbox.get()
        self._process.mux.taken(self._channel, size)
        if isinstance(item, ConnectionLost):
            raise item
        return item

    def stale(self) -> bool:
        return self._process.mux.lost()

    def close(self) -> None:
        self._inbox.put_nowait((0, ConnectionLost("daemon: connection lost: closed by this side")))
        if last_words := self._process.mux.forget(self._channel):
            self._process.write_soon(last_words)

    async def wait_closed(self) -> None:
        pass


class StdioProcess:
    """A program that serves this client alone.

    Task: one that reads what the program says; it ends with the program, and close waits for it.
    """

    def __init__(self, program: asyncio.subprocess.Process) -> None:
        self.mux = Mux()
        self._program = program
        assert program.stdin is not None and program.stdout is not None
        self._stdin, self._stdout = program.stdin, program.stdout
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, target: StdioTarget) -> StdioProcess:
        """Start the program."""
        try:
            # In a session of its own, or Ctrl-C on the terminal would end it too.
            return cls(await asyncio.create_subprocess_exec(
                *target.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=CHUNK, start_new_session=True))
        except OSError as e:
            raise target.unreachable(e) from e

    async def write(self, data: bytes) -> None:
        """Write one line. If that fails, the reader gets the error."""
        self.write_soon(data)
        try:
            await self._stdin.drain()
        except OSError:
            pass

    def write_soon(self, data: bytes) -> None:
        """Write one line without waiting until it is out."""
        if not self._stdin.is_closing():
            self._stdin.write(data)

    async def close(self) -> None:
        """End the program, and with it its sessions."""
        self.mux.fail("daemon: connection lost: closed by this side")
        self._stdin.close()
        if self._program.returncode is None:
            self._program.terminate()  # without a signal, it would first answer all pending requests
        try:
            await asyncio.wait_for(self._program.wait(), EXIT_PATIENCE_S)
        except asyncio.TimeoutError:
            self._program.kill()
            await self._program.wait()
        await self._reader

    async def _read(self) -> None:
        cause = "the daemon closed it"
        try:
            while data := await self._stdout.read(CHUNK):
                self.mux.feed(data)
        except OSError as e:
            cause = reason(e)
        except ConnectionLost as e:
            cause = e.message
        self.mux.fail(f"daemon: connection lost: {cause}")
        while await self._stdout.read(CHUNK):
            pass  # otherwise the program could not end


class Dialer:
    """Makes lanes to one target."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = asyncio.Lock()
        self._process: StdioProcess | None = None  # guarded by _lock

    async def dial(self, again: bool) -> Lane:
        """Make a lane, with again as in dial_unix. A program that has ended is started again."""
        if not isinstance(self._target, StdioTarget):
            return await dial(self._target, again)
        async with self._lock:
            if self._process is not None and self._process.mux.lost():
                await self._process.close()
                self._process = None
            if self._process is None:
                self._process = await StdioProcess.start(self._target)
            return StdioLane(self._process)

    async def close(self) -> None:
        """End the program, if there is one."""
        async with self._lock:
            if self._process is not None:
                await self._process.close()
                self._process = None


class Pool:
    """The lanes of a client: those in use, and those that wait for the next call."""

    def __init__(self, dialer: Dialer, patience_s: float) -> None:
        self.patience_s = patience_s
        self._closed = False
        self._dialer = dialer
        self._loop = asyncio.get_running_loop()
        self._idle: list[Lane] = []
        self._all: set[Lane] = set()  # the open lanes
        self._bound: dict[str, Lane] = {}  # the connections that keep ephemeral sessions alive, by their id
        self._unowned: set[str] = set()  # ephemeral sessions that could not be owned again yet
        self._claimed: set[str] = set()  # those that a call is owning again now

    async def answer_to(self, method: str, params: Mapping[str, Any], patience_s: float, again: bool) -> Any:
        """Make a request on a lane of its own, with again as in dial_unix."""
        lane = await self._take(patience_s, again)
        try:
            data = await answer_to(lane, method, params)
        except BaseException as e:
            if isinstance(e, TrlError) and not isinstance(e, ConnectionLost):
                self.give(lane)
            else:  # a cancelled call gives up the lane, and the command with it
                self.discard(lane)
            raise
        if method == "session.create" and params.get("ephemeral"):
            self._bound[data["session_id"]] = lane
            return data
        self.give(lane)
        if method == "session.destroy":
            self.unbind(data["session_id"])
        return data

    def unbind(self, session_id: str) -> None:
        """Give up an ephemeral session: it is not owned again."""
        self._unowned.discard(session_id)
        self._claimed.discard(session_id)
        if session_id in self._bound:
            self.give(self._bound.pop(session_id))

    async def dial(self, again: bool = False) -> Lane:
        """Make a lane for one user, with again as in dial_unix."""
        if self._closed:
            raise ConnectionLost("client: is closed")
        lane = await self._dialer.dial(again)
        self._all.add(lane)
        try:
            await self._own_again()
        except BaseException:
            self.discard(lane)
            raise
        if self._closed:
            self.discard(lane)
            raise ConnectionLost("client: is closed")
        return lane

    async def _own_again(self) -> None:
        """Claim the ephemeral sessions again after their connection was lost, before the daemon ends them."""
        lost = {session_id: lane for session_id, lane in self._bound.items() if lane.stale()}
        for session_id, old in lost.items():
            del self._bound[session_id]
            self.discard(old)
            self._unowned.add(session_id)
        for session_id in [*self._unowned]:
            if session_id not in self._unowned:  # another call claims it, or it was given up
                continue
            self._unowned.remove(session_id)
            self._claimed.add(session_id)
            lane = None
            try:
                lane = await self._dialer.dial(again=True)
                self._all.add(lane)
                await answer_to(lane, "session.own", {"session_id": session_id})
            except BaseException as e:
                if lane is not None:
                    self.discard(lane)
                waits = session_id in self._claimed and (gone(e) if isinstance(e, TrlError) else True)
                self._claimed.discard(session_id)
                if waits:  # the daemon is not there yet, or the call was cancelled; else the session has ended
                    self._unowned.add(session_id)
                if not isinstance(e, TrlError):
                    raise
                continue
            if session_id in self._claimed:
                self._claimed.remove(session_id)
                self._bound[session_id] = lane
            else:  # given up meanwhile, or the client was closed
                self.give(lane)

    async def dial_patiently(self, patience_s: float, again: bool = False) -> Lane:
        """Make a lane, with again as in dial_unix; wait for a daemon that cannot be reached."""
        backoff = Backoff(patience_s)
        while True:
            try:
                return await self.dial(again)
            except ConnectionLost:
                delay = None if self._closed else backoff.delay()
                if delay is None:
                    raise
            await self.pause(delay)

    def closed(self) -> bool:
        """Report whether the client has been closed."""
        return self._closed

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def give(self, lane: Lane) -> None:
        """Keep a lane for the next call."""
        if self._closed:
            self.discard(lane)
        else:
            self._idle.append(lane)

    def discard(self, lane: Lane) -> None:
        """Close a lane."""
        lane.close()
        self._all.discard(lane)

    def discard_from_anywhere(self, lane: Lane) -> None:
        """Close a lane from any thread: the garbage collector may run in any."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.discard, lane)

    async def close(self) -> None:
        """Close all lanes."""
        self._closed = True
        lanes = list(self._all)
        self._idle.clear()
        self._bound.clear()
        self._unowned.clear()
        self._claimed.clear()
        for lane in lanes:
            self.discard(lane)
        for lane in lanes:
            await lane.wait_closed()
        await self._dialer.close()
        await asyncio.sleep(0)  # lanes that were given up just before are closed in this turn

    async def _take(self, patience_s: float, again: bool) -> Lane:
        if self._unowned:
            await self._own_again()
        while self._idle:
            lane = self._idle.pop()
            if not lane.stale():
                return lane
            self.discard(lane)
        return await self.dial_patiently(patience_s, again)
