"""Where a daemon is: a unix socket, a URL, or a program to start."""

from __future__ import annotations

import os
import select
import socket
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union
from urllib.parse import urlsplit

from ._http import HttpWire
from ._place import default_socket
from ._start import absent
from ._wire import LineWire, Wire
from .errors import ConnectionLost

CHUNK = 256 << 10
"""How many bytes are read at once."""

SILENCE_S = 60.0
"""Over HTTP the daemon sends a sign of life every 15 seconds; a connection that is silent for longer than this is lost."""

IDLE_S = 30.0
"""An HTTP connection that was idle for longer is not reused: the other side may be about to close it."""


@dataclass
class UnixTarget:
    """A daemon that listens on a unix socket."""

    path: str
    start: bool = False
    """Whether to start a daemon if none listens. path is then the socket of the new daemon."""
    forbidden: bool = False
    """Whether the caller forbade to start one; a path that was given starts none either."""

    def wire(self) -> Wire:
        """Begin a conversation."""
        return LineWire()

    def unreachable(self, cause: OSError) -> ConnectionLost:
        """Explain why there is no connection."""
        if self.forbidden and absent(cause):
            return ConnectionLost(f"no daemon runs at {self.path}, and start=False forbids starting one")
        return ConnectionLost(f"daemon at {self.path}: {reason(cause)}")


@dataclass(frozen=True)
class HttpTarget:
    """A daemon that listens for HTTP."""

    url: str
    host: str
    port: int
    host_header: str
    path: str
    token: str | None
    tls: ssl.SSLContext | None

    def wire(self) -> Wire:
        """Begin a conversation."""
        return HttpWire(self.host_header, self.path, self.token)

    def unreachable(self, cause: OSError) -> ConnectionLost:
        """Explain why there is no connection."""
        return ConnectionLost(f"daemon at {self.url}: {reason(cause)}")


@dataclass(frozen=True)
class StdioTarget:
    """A program that serves this client alone, on its stdin and stdout."""

    argv: tuple[str, ...]

    def unreachable(self, cause: OSError) -> ConnectionLost:
        """Explain why there is no connection."""
        return ConnectionLost(f"daemon {self.argv[0]}: {reason(cause)}")


Target = Union[UnixTarget, HttpTarget, StdioTarget]


def find_target(
    socket: str | os.PathLike[str] | None, url: str | None, token: str | None,
    tls: ssl.SSLContext | None, stdio: Sequence[str] | None, start: bool,
) -> Target:
    """Make a target from the arguments of connect. Without any, it is the unix socket of this user.

    Only the daemon of this user is started; a caller that passes an address means a running daemon.
    """
    if sum(where is not None for where in (socket, url, stdio)) > 1:
        raise ValueError("pass only one of socket, url and stdio")
    if url is None and (token is not None or tls is not None):
        raise ValueError("token and tls need a url")
    if stdio is not None:
        if isinstance(stdio, str) or not stdio:
            raise ValueError('stdio must be a list of words, such as ["trl", "serve", "--stdio"]')
        return StdioTarget(tuple(stdio))
    if url is not None:
        return http_target(url, token, tls)
    if socket is None:
        return UnixTarget(default_socket(), start, not start)
    return UnixTarget(os.fspath(socket), forbidden=not start)


def http_target(url: str, token: str | None, tls: ssl.SSLContext | None) -> HttpTarget:
    """Make a target from a URL. Without a token, TRL_AUTH_TOKEN is used."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError(f"url {url!r}: must be http://host:port or https://host:port")
    if parts.scheme == "https" and tls is None:
        tls = ssl.create_default_context()
    if parts.scheme == "http" and tls is not None:
        raise ValueError(f"url {url!r}: tls needs https")
    return HttpTarget(
        url=url, host=parts.hostname, port=parts.port or (443 if tls else 80), host_header=parts.netloc,
        path=parts.path.rstrip("/"), token=token or os.environ.get("TRL_AUTH_TOKEN") or None, tls=tls,
    )


def reason(cause: OSError) -> str:
    """Return the text of a system error, without its number and path."""
    return (cause.strerror or str(cause) or type(cause).__name__).lower()


def keep_alive(sock: socket.socket) -> None:
    """Make the system detect that the other machine has vanished while the client waits for an answer."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPALIVE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        option = getattr(socket, name, None)
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def says_something(fd: int) -> bool:
    """Report whether there is something to read. On an idle connection, that is the end of file."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(0))
