"""Client for TRL, the terminal runtime layer.

    import trl

    with trl.connect() as t, t.session(shell="bash") as s:
        print(s.run("make test", timeout_s=60).exit_code)
        for c in s.stream("npm ci"):
            print(c.data, end="")

The same with asyncio is in trl.aio.
"""

from . import aio, types
from ._request import OPEN
from ._target import default_socket
from .client import Client, Exec, Session, Stream, connect
from .errors import ConnectionLost, TrlError
from .results import ExecOutputResult, ExecResult, StreamEvent, exact_bytes

__all__ = [
    "OPEN", "Client", "ConnectionLost", "Exec", "ExecOutputResult", "ExecResult", "Session", "Stream", "StreamEvent",
    "TrlError", "aio", "connect", "default_socket", "exact_bytes", "types",
]
