"""What can go wrong: an answer of the daemon, or no answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class TrlError(Exception):
    """The daemon refused a request. A command that fails is not an error but a result.

    code is one of the stable names in trl_client.types.ERROR_CODES, or a newer one.
    """

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(code, message, details)
        self.code = code
        self.message = message
        self.details: dict[str, Any] = dict(details or {})

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ConnectionLost(TrlError):
    """The daemon cannot be reached, or went away before it answered.

    Whether a request that was under way has been carried out is not known. The details of a
    lost stream have its exec_id and after_seq, with which it can be read on later.
    """

    def __init__(self, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__("RUNTIME_UNAVAILABLE", message, details)
        self.args = (message, details)
