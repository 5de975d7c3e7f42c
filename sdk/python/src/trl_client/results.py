"""Results whose text may stand for bytes that are not UTF-8: how to get at these bytes."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

from . import types
from .errors import CommandFailed


def exact_bytes(text: str, text_base64: str) -> bytes:
    """Return the bytes that a pair of fields on the wire stands for."""
    return base64.b64decode(text_base64) if text_base64 else text.encode()


def is_utf8(data: bytes) -> bool:
    """Report whether bytes are text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class ExecResult(types.ExecResult):
    """How a command ended and what it printed."""

    @property
    def ok(self) -> bool:
        """Whether the exit code is 0: a command that timed out or was cancelled has another."""
        return self.exit_code == 0

    def check(self) -> ExecResult:
        """Return the result itself; raise CommandFailed unless it is ok."""
        if not self.ok:
            raise CommandFailed(self)
        return self

    @property
    def stdout_data(self) -> bytes:
        """The exact bytes of stdout."""
        return exact_bytes(self.stdout, self.stdout_base64)

    @property
    def stderr_data(self) -> bytes:
        """The exact bytes of stderr."""
        return exact_bytes(self.stderr, self.stderr_base64)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExecResult:
        """Take the fields that are known from what a daemon sent."""
        return cast(ExecResult, super().from_dict(data))


@dataclass(frozen=True, kw_only=True)
class ExecOutputResult(types.ExecOutputResult):
    """A piece of the output of a command."""

    @property
    def data_bytes(self) -> bytes:
        """The exact bytes of data."""
        return exact_bytes(self.data, self.data_base64)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ExecOutputResult:
        """Take the fields that are known from what a daemon sent."""
        return cast(ExecOutputResult, super().from_dict(data))


@dataclass(frozen=True, kw_only=True)
class StreamEvent(types.StreamEvent):
    """One push of a stream: a piece of output, a gap, the exit; or an event of a session or an exec."""

    # Fields that are computed from the bytes when they are read, if the push came with its bytes.

    @cached_property  # type: ignore[misc]
    def data(self) -> str:
        """The output, for stdout, stderr and output; the screen, for snapshot."""
        return self.data_bytes.decode(errors="replace")

    @cached_property  # type: ignore[misc]
    def data_base64(self) -> str:
        """The bytes, only if they are not UTF-8."""
        return "" if is_utf8(self.data_bytes) else base64.b64encode(self.data_bytes).decode()

    @property
    def data_bytes(self) -> bytes:
        """The exact bytes of data."""
        raw: bytes | None = self.__dict__.get("_raw")
        return exact_bytes(self.data, self.data_base64) if raw is None else raw

    @property
    def size(self) -> int:
        """How many bytes data stands for."""
        if "_raw" in self.__dict__:
            return len(self.__dict__["_raw"])
        if self.data_base64:
            return len(self.data_base64) * 3 // 4 - self.data_base64[-2:].count("=")
        return len(self.data) if self.data.isascii() else len(self.data.encode())

    def with_data(self, offset: int, data: bytes) -> StreamEvent:
        """Return the same push with other bytes."""
        event = copy.copy(self)
        fields = event.__dict__
        fields.pop("data", None)
        fields.pop("data_base64", None)
        fields.update(offset=offset, _raw=data)
        return event

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StreamEvent:
        """Take the fields that are known from what a daemon sent."""
        return cast(StreamEvent, super().from_dict(data))
