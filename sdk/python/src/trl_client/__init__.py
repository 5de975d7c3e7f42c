"""Client for TRL, the terminal runtime layer.

    import trl_client as trl

    with trl.connect() as t, t.session(shell="bash") as s:
        print(s.run("make test", timeout_s=60).exit_code)
        for c in s.stream("npm ci"):
            print(c.data, end="")

The same with asyncio is in trl_client.aio.
"""

from . import aio, types
from ._stdin import OPEN
from ._talk import DialogueRawResult, Reply
from ._place import default_socket
from ._trace import traced
from .client import Client, Dialogue, DialogueEvents, Exec, Program, Session, Stream, Terminal, Viewer, connect, run
from .errors import (
    AgentFailed, AuthFailed, Cancelled, CommandFailed, Conflict, ConnectionLost, DialogueEnded, DialogueNotFound, ExecNotFound,
    Forbidden, InternalError, InvalidParams, IsolationUnavailable, LimitUnavailable, MaxSessionsReached, MethodNotFound, RequestTooLarge, ResourcePressure, RuntimeUnavailable,
    SessionBusy, SessionLimitExceeded, SessionNotFound, SessionTerminated, ShellFailed, ShellNotFound, TrlError)
from .results import ExecOutputResult, ExecResult, StreamEvent, exact_bytes

__all__ = [
    "OPEN", "AgentFailed", "AuthFailed", "Cancelled", "Client", "CommandFailed", "Conflict", "ConnectionLost", "Dialogue",
    "DialogueEnded", "DialogueEvents", "DialogueNotFound", "DialogueRawResult", "Exec", "ExecNotFound",
    "ExecOutputResult", "ExecResult", "Forbidden", "InternalError", "InvalidParams", "MaxSessionsReached",
    "IsolationUnavailable", "LimitUnavailable", "MethodNotFound", "Program", "Reply", "RequestTooLarge", "ResourcePressure", "RuntimeUnavailable", "Session",
    "SessionBusy", "SessionLimitExceeded", "SessionNotFound", "SessionTerminated", "ShellFailed", "ShellNotFound",
    "Stream", "StreamEvent", "Terminal", "TrlError", "Viewer", "aio", "connect", "default_socket", "exact_bytes",
    "run", "traced", "types",
]
