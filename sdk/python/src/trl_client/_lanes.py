"""Lanes: connections of the synchronous client, each used by one conversation at a time."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping
from typing import Any, Protocol

from ._mux import Channel, Item, Mux
from ._place import check_peer, check_socket, was_stopped
from ._resume import Backoff, gone
from ._start import absent, start_daemon, stopped
from ._target import (
    CHUNK, IDLE_S, SILENCE_S, HttpTarget, StdioTarget, Target, UnixTarget, keep_alive, reason, says_something)
from ._wire import Answer, Message, Wire
from .errors import ConnectionLost, TrlError

EXIT_PATIENCE_S = 20.0
"""How long a program may take to end its sessions when its input has ended."""


class Lane(Protocol):
    """A connection that carries one conversation at a time. Only shutdown may come from another thread."""

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a request."""

    def receive(self) -> Message:
        """Return the next message; raise ConnectionLost if there will be none."""

    def stale(self) -> bool:
        """Report whether the lane cannot carry another conversation."""

    def shutdown(self) -> None:
        """End a receive in another thread."""

    def close(self) -> None:
        """Close the lane and give up its conversation."""


def answer_to(lane: Lane, method: str, params: Mapping[str, Any]) -> Any:
    """Send a request and return the data of its answer."""
    lane.send(method, params)
    while True:
        message = lane.receive()
        if isinstance(message, Answer):
            return message.result()


class SocketLane:
    """A lane that is a connection of its own."""

    def __init__(self, sock: socket.socket, wire: Wire, http: bool) -> None:
        self._sock, self._wire, self._http = sock, wire, http
        self._used = time.monotonic()

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        data = self._wire.request(method, params)
        self._sock.settimeout(None)
        try:
            self._sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the last messages of the daemon, which may say why, are read next
        except OSError as e:
            raise ConnectionLost(f"daemon: connection lost: {reason(e)}") from e
        if self._http:
            self._sock.settimeout(SILENCE_S)

    def receive(self) -> Message:
        while (message := self._wire.next()) is None:
            try:
                data = self._sock.recv(CHUNK)
            except OSError as e:
                raise ConnectionLost(f"daemon: connection lost: {reason(e)}") from e
            self._wire.feed(data)
        self._used = time.monotonic()
        return message

    def stale(self) -> bool:
        if self._http and time.monotonic() - self._used > IDLE_S:
            return True
        return not self._wire.reusable() or says_something(self._sock.fileno())

    def shutdown(self) -> None:
        try:
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
        except OSError:
            pass  # the other side was first

    def close(self) -> None:
        self._sock.close()


def dial_unix(target: UnixTarget, again: bool) -> socket.socket:
    """Connect to a socket; start a daemon if none listens and the target allows it.

    With again, the client resumes earlier work by itself: it starts no daemon if a user stopped the last one.
    """
    try:
        return connect_unix(target.path)
    except OSError as e:
        if not target.start or not absent(e):
            raise
    if again and was_stopped():
        raise stopped(target.path)
    target.path = start_daemon(target.path)
    return connect_unix(target.path)


def connect_unix(path: str) -> socket.socket:
    """Connect to a socket of this user."""
    check_socket(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(path)
        check_peer(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def dial(target: UnixTarget | HttpTarget, again: bool) -> SocketLane:
    """Connect to a daemon that listens, with again as in dial_unix."""
    try:
        if isinstance(target, UnixTarget):
            return SocketLane(dial_unix(target, again), target.wire(), http=False)
        sock = socket.create_connection((target.host, target.port), timeout=SILENCE_S)
        try:
            keep_alive(sock)
            if target.tls is not None:
                sock = target.tls.wrap_socket(sock, server_hostname=target.host)
        except BaseException:
            sock.close()
            raise
        return SocketLane(sock, target.wire(), http=True)
    except OSError as e:
        raise target.unreachable(e) from e


class StdioLane:
    """A lane on the pipe of a program, which it shares with others."""

    def __init__(self, process: StdioProcess) -> None:
        self._process = process
        self._inbox: queue.SimpleQueue[tuple[int, Item]] = queue.SimpleQueue()
        self._channel = Channel(self._inbox)

    def send(self, method: str, params: Mapping[str, Any]) -> None:
        self._process.write(self._process.mux.request(self._channel, method, params))

    def receive(self) -> Message:
        size, item = self._inbox.get()
        self._process.mux.taken(self._channel, size)
        if isinstance(item, ConnectionLost):
            raise item
        return item

    def stale(self) -> bool:
        return self._process.mux.lost()

    def shutdown(self) -> None:
        self._inbox.put((0, ConnectionLost("daemon: connection lost: closed by this side")))

    def close(self) -> None:
        self.shutdown()
        if last_words := self._process.mux.forget(self._channel):
            self._process.write(last_words)


class StdioProcess:
    """A program that serves this client alone.

    Thread: one that reads what the program says; it ends with the program, and close waits for it.
    """

    def __init__(self, target: StdioTarget) -> None:
        self.mux = Mux()
        self._writing = threading.Lock()
        try:
            # In a session of its own, or Ctrl-C on the terminal would end it too.
            self._program = subprocess.Popen(
                target.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True)
        except OSError as e:
            raise target.unreachable(e) from e
        assert self._program.stdin is not None and self._program.stdout is not None
        self._stdin, self._stdout = self._program.stdin, self._program.stdout
        self._reader = threading.Thread(target=self._read, name="trl-stdio", daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        """Write one line whole. If that fails, the reader gets the error."""
        with self._writing:
            left = memoryview(data)
            try:
                while left and not self._stdin.closed:
                    left = left[os.write(self._stdin.fileno(), left):]
            except OSError:
                pass
            except BaseException:  # an interrupt: it is unknown how much of the line was written
                self.mux.fail("daemon: connection lost: interrupted while writing")
                self._stdin.close()
                raise

    def close(self) -> None:
        """End the program, and with it its sessions."""
        self.mux.fail("daemon: connection lost: closed by this side")
        if self._writing.acquire(timeout=EXIT_PATIENCE_S):
            self._stdin.close()
            self._writing.release()
        self._program.terminate()  # without a signal, it would first answer all pending requests
        try:
            self._program.wait(EXIT_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._reader.join()
        self._stdout.close()

    def _read(self) -> None:
        cause = "the daemon closed it"
        try:
            while data := os.read(self._stdout.fileno(), CHUNK):
                self.mux.feed(data)
        except OSError as e:
            cause = reason(e)
        except ConnectionLost as e:
            cause = e.message
        self.mux.fail(f"daemon: connection lost: {cause}")
        while os.read(self._stdout.fileno(), CHUNK):
            pass  # otherwise the program could not end


class Dialer:
    """Makes lanes to one target. Safe for use by several threads."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._process: StdioProcess | None = None  # guarded by _lock

    def dial(self, again: bool) -> Lane:
        """Make a lane, with again as in dial_unix. A program that has ended is started again."""
        if not isinstance(self._target, StdioTarget):
            return dial(self._target, again)
        with self._lock:
            if self._process is not None and self._process.mux.lost():
                self._process.close()
                self._process = None
            if self._process is None:
                self._process = StdioProcess(self._target)
            return StdioLane(self._process)

    def close(self) -> None:
        """End the program, if there is one."""
        with self._lock:
            if self._process is not None:
                self._process.close()
                self._process = None


class HangsUp(Protocol):
    """A stream, which has a lane of its own."""

    def _hang_up(self) -> None: ...


class Pool:
    """The lanes of a client: those in use, and those that wait for the next call."""

    def __init__(self, dialer: Dialer, patience_s: float) -> None:
        self.patience_s = patience_s
        self._dialer = dialer
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._idle: list[Lane] = []  # guarded by _lock, as all below
        self._busy: set[Lane] = set()
        self._bound: dict[str, Lane] = {}  # the connections that keep ephemeral sessions alive, by their id
        self._unowned: set[str] = set()  # ephemeral sessions that could not be owned again yet
        self._claimed: set[str] = set()  # those that a call is owning again now
        self._streams: weakref.WeakSet[HangsUp] = weakref.WeakSet()  # the open streams

    def track(self, stream: HangsUp) -> None:
        """Let close end a stream, too."""
        with self._lock:
            self._streams.add(stream)

    def answer_to(self, method: str, params: Mapping[str, Any], patience_s: float, again: bool) -> Any:
        """Make a request on a lane of its own, with again as in dial_unix."""
        lane = self._take(patience_s, again)
        try:
            data = answer_to(lane, method, params)
        except BaseException as e:
            if isinstance(e, TrlError) and not isinstance(e, ConnectionLost):
                self.give(lane)
            else:  # an interrupt gives up the lane, and the command with it
                self._forget(lane)
            raise
        if method == "session.create" and params.get("ephemeral"):
            self._bind(data["session_id"], lane)
            return data
        self.give(lane)
        if method == "session.destroy":
            self.unbind(data["session_id"])
        return data

    def dial(self, again: bool = False) -> Lane:
        """Make a lane for one user, with again as in dial_unix."""
        if self._closed.is_set():
            raise ConnectionLost("client: is closed")
        lane = self._dialer.dial(again)
        try:
            self._own_again()
        except BaseException:
            lane.close()
            raise
        return lane

    def dial_patiently(self, patience_s: float, again: bool = False) -> Lane:
        """Make a lane, with again as in dial_unix; wait for a daemon that cannot be reached."""
        backoff = Backoff(patience_s)
        while True:
            try:
                return self.dial(again)
            except ConnectionLost:
                delay = None if self.closed() else backoff.delay()
                if delay is None:
                    raise
            self.pause(delay)

    def closed(self) -> bool:
        """Report whether the client has been closed."""
        return self._closed.is_set()

    def pause(self, seconds: float) -> None:
        """Wait, but not longer than the client is open."""
        self._closed.wait(seconds)

    def give(self, lane: Lane) -> None:
        """Keep a lane for the next call."""
        with self._lock:
            self._busy.discard(lane)
            if not self._closed.is_set():
                self._idle.append(lane)
                return
        lane.close()

    def close(self) -> None:
        """Close what is idle, and end what is in use."""
        self._closed.set()
        with self._lock:
            idle = [*self._idle, *self._bound.values()]
            self._idle.clear()
            self._bound.clear()
            self._unowned.clear()
            self._claimed.clear()
            for lane in self._busy:
                lane.shutdown()
            streams = list(self._streams)
        for lane in idle:
            lane.close()
        for stream in streams:
            stream._hang_up()
        self._dialer.close()

    def _take(self, patience_s: float, again: bool) -> Lane:
        if self._unowned:
            self._own_again()
        while True:
            with self._lock:
                lane = self._idle.pop() if self._idle else None
            if lane is None:
                lane = self.dial_patiently(patience_s, again)
            elif lane.stale():
                lane.close()
                continue
            with self._lock:
                if not self._closed.is_set():
                    self._busy.add(lane)
                    return lane
            lane.close()
            raise ConnectionLost("client: is closed")

    def _forget(self, lane: Lane) -> None:
        with self._lock:
            self._busy.discard(lane)
        lane.close()

    def _own_again(self) -> None:
        """Claim the ephemeral sessions again after their connection was lost, before the daemon ends them."""
        with self._lock:
            lost = {session_id: lane for session_id, lane in self._bound.items() if lane.stale()}
            for session_id in lost:
                del self._bound[session_id]
                self._unowned.add(session_id)
            unowned = [*self._unowned]
        for old in lost.values():
            old.close()
        for session_id in unowned:
            with self._lock:
                if session_id not in self._unowned:  # another call claims it, or it was given up
                    continue
                self._unowned.remove(session_id)
                self._claimed.add(session_id)
            lane = None
            try:
                lane = self._dialer.dial(again=True)
                answer_to(lane, "session.own", {"session_id": session_id})
            except BaseException as e:
                if lane is not None:
                    lane.close()
                with self._lock:
                    # The daemon is not there yet, or an interrupt ended the call; else the session has ended.
                    if session_id in self._claimed and (gone(e) if isinstance(e, TrlError) else True):
                        self._unowned.add(session_id)
                    self._claimed.discard(session_id)
                if not isinstance(e, TrlError):
                    raise
                continue
            with self._lock:
                claimed = session_id in self._claimed
                if claimed:
                    self._claimed.remove(session_id)
                    self._bound[session_id] = lane
            if not claimed:  # given up meanwhile, or the client was closed
                self.give(lane)

    def _bind(self, session_id: str, lane: Lane) -> None:
        with self._lock:
            self._busy.discard(lane)
            self._bound[session_id] = lane

    def unbind(self, session_id: str) -> None:
        """Give up an ephemeral session: it is not owned again."""
        with self._lock:
            self._unowned.discard(session_id)
            self._claimed.discard(session_id)
            lane = self._bound.pop(session_id, None)
        if lane is not None:
            self.give(lane)
