"""A daemon that says what the test wants, on a real socket."""

from __future__ import annotations

import fcntl
import json
import queue
import shutil
import socket
import sys
import tempfile
import termios
import threading
from collections.abc import Callable
from typing import Any

from conftest import PATIENCE


class Conn:
    """One client, as the daemon sees it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._lines = sock.makefile("rb")

    def request(self) -> dict[str, Any]:
        """The next request; EOFError when the client is gone."""
        line = self._lines.readline()
        if not line:
            raise EOFError
        request = json.loads(line)
        assert isinstance(request, dict)
        return request

    def gone(self) -> bool:
        """Wait until the client says something or is gone; tell which."""
        return self._lines.peek(1) == b""

    def unread(self) -> int:
        """How many bytes the client has not read yet."""
        return int.from_bytes(fcntl.ioctl(self.sock, termios.TIOCOUTQ, bytes(4)), sys.byteorder)

    def say(self, **message: Any) -> None:
        """Send one line."""
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def answer(self, request: dict[str, Any], **data: Any) -> None:
        """Answer a request with data."""
        self.say(id=request["id"], ok=True, data=data)

    def close(self) -> None:
        self._lines.close()
        self.sock.close()


class FakeDaemon:
    """Listens on a unix socket. Each connection is served by the next function in line, the last one again and again."""

    def __init__(self, *serve: Callable[[Conn], None]) -> None:
        self._serve = list(serve)
        self._directory = tempfile.mkdtemp(prefix="trlfake", dir="/tmp")
        self.path = f"{self._directory}/s"
        self.requests: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._conns: list[Conn] = []
        self._failures: list[BaseException] = []
        self._listen()

    def _listen(self) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(128)
        self._start(self._accept, self._listener)

    def _start(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.settimeout(PATIENCE)
            serve = self._serve.pop(0) if len(self._serve) > 1 else self._serve[0]
            conn = Conn(sock)
            self._conns.append(conn)
            self._start(self._run, conn, serve)

    def _run(self, conn: Conn, serve: Callable[[Conn], None]) -> None:
        try:
            serve(conn)
        except (EOFError, OSError):
            pass
        except BaseException as e:
            self._failures.append(e)
        finally:
            conn.close()

    def __enter__(self) -> FakeDaemon:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for conn in self._conns:
            try:
                conn.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(PATIENCE)
        shutil.rmtree(self._directory)
        if self._failures:
            raise self._failures[0]


def echo(conn: Conn) -> None:
    """Answer every request with its method and parameters, and with fields nobody knows."""
    while True:
        r = conn.request()
        conn.answer(r, method=r["method"], session_id="s-1", exec_id="x-1", version="9", colour="blue", **{"params": r["params"]})
