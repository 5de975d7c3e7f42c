"""The errors: of the daemon, of the connection, and of a checked command that failed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .results import ExecResult


class TrlError(Exception):
    """The daemon refused a request. A command that fails is not an error but a result.

    code is one of the stable names in trl_client.types.ERROR_CODES, or a newer one. Each of
    them has a class below; a newer one is a TrlError.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    @property
    def reason(self) -> str:
        """Distinguishes errors with the same code, such as "starting"; "" if the code says it all."""
        reason = self.details.get("reason")
        return reason if isinstance(reason, str) else ""

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class InvalidParams(TrlError):
    """A parameter is missing, unknown, or has an invalid value."""


class MethodNotFound(TrlError):
    """The daemon does not know the method; it may be older than this client."""


class SessionNotFound(TrlError):
    """There is no session with that id or name."""


class SessionBusy(TrlError):
    """The session runs another command; wait=True queues behind it."""


class SessionTerminated(TrlError):
    """The session has ended; its output can still be read."""


class ExecNotFound(TrlError):
    """There is no command with that id."""


class MaxSessionsReached(TrlError):
    """The daemon has as many sessions as max_sessions allows."""


class ShellNotFound(TrlError):
    """The shell or the program does not exist."""


class ShellFailed(TrlError):
    """The shell or the program ended at once; the message has its stderr."""


class SessionLimitExceeded(TrlError):
    """A limit of the session is reached."""


class LimitUnavailable(TrlError):
    """A limit cannot be enforced there: ``details["limits"]`` has the reasons."""


class IsolationUnavailable(TrlError):
    """Isolation cannot be enforced there: ``details["aspects"]`` has the reasons."""


class ResourcePressure(TrlError):
    """The machine has no memory, processes or disk space left for this."""


class RuntimeUnavailable(TrlError):
    """The daemon, or the place of the session, cannot be reached now."""


class RequestTooLarge(TrlError):
    """The request is larger than the daemon accepts."""


class AuthFailed(TrlError):
    """The token is missing or wrong."""


class Forbidden(TrlError):
    """The token does not allow this."""


class Conflict(TrlError):
    """The name is taken, or another caller was first."""


class DialogueNotFound(TrlError):
    """There is no dialogue with that id or name."""


class DialogueEnded(TrlError):
    """The agent of the dialogue has ended; resume starts it again."""


class AgentFailed(TrlError):
    """The agent could not be started or broke its protocol."""


class Cancelled(TrlError):
    """The caller stopped waiting for the answer."""


class InternalError(TrlError):
    """A fault of the daemon."""


class ConnectionLost(RuntimeUnavailable):
    """The daemon cannot be reached, or went away before it answered.

    Whether a request that was under way has been carried out is not known. The details of a
    lost stream have its exec_id and after_seq, with which it can be read on later.
    """

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__("RUNTIME_UNAVAILABLE", message, details)
        self.args = (message, details)


class CommandFailed(Exception):
    """A command whose result was checked did not end with the exit code 0. result is its result."""

    def __init__(self, result: ExecResult) -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        r = self.result
        how = "timed out" if r.timed_out else "was cancelled" if r.cancelled else f"exit code {r.exit_code}"
        last = r.stderr.strip().rpartition("\n")[2][:200]
        return f"command {how}" + (f": {last}" if last else "")


_CLASSES: dict[str, type[TrlError]] = {
    "INVALID_PARAMS": InvalidParams,
    "METHOD_NOT_FOUND": MethodNotFound,
    "SESSION_NOT_FOUND": SessionNotFound,
    "SESSION_BUSY": SessionBusy,
    "SESSION_TERMINATED": SessionTerminated,
    "EXEC_NOT_FOUND": ExecNotFound,
    "MAX_SESSIONS_REACHED": MaxSessionsReached,
    "SHELL_NOT_FOUND": ShellNotFound,
    "SHELL_FAILED": ShellFailed,
    "SESSION_LIMIT_EXCEEDED": SessionLimitExceeded,
    "RESOURCE_PRESSURE": ResourcePressure,
    "LIMIT_UNAVAILABLE": LimitUnavailable,
    "ISOLATION_UNAVAILABLE": IsolationUnavailable,
    "RUNTIME_UNAVAILABLE": RuntimeUnavailable,
    "REQUEST_TOO_LARGE": RequestTooLarge,
    "AUTH_FAILED": AuthFailed,
    "FORBIDDEN": Forbidden,
    "CONFLICT": Conflict,
    "DIALOGUE_NOT_FOUND": DialogueNotFound,
    "DIALOGUE_ENDED": DialogueEnded,
    "AGENT_FAILED": AgentFailed,
    "CANCELLED": Cancelled,
    "INTERNAL_ERROR": InternalError,
}


def error_of(code: str, message: str, details: Mapping[str, Any] | None = None) -> TrlError:
    """Return an error of the class for its code."""
    return _CLASSES.get(code, TrlError)(code, message, details)
