"""Results whose text may stand for bytes that are not UTF-8: how to get at these bytes."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from . import types
from .errors import CommandFailed


def exact_bytes(text: str, text_base64: str) -> bytes:
    """Return the bytes that a pair of fields on the wire stands for."""
    return base64.b64decode(text_base64) if text_base64 else text.encode()


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

    @property
    def data_bytes(self) -> bytes:
        """The exact bytes of data."""
        return exact_bytes(self.data, self.data_base64)

    @property
    def size(self) -> int:
        """How many bytes data stands for."""
        if self.data_base64:
            return len(self.data_base64) * 3 // 4 - self.data_base64[-2:].count("=")
        return len(self.data) if self.data.isascii() else len(self.data.encode())

    def with_data(self, offset: int, data: bytes) -> StreamEvent:
        """Return the same push with other bytes."""
        try:
            return replace(self, offset=offset, data=data.decode(), data_base64="")
        except UnicodeDecodeError:
            text = data.decode(errors="replace")
            return replace(self, offset=offset, data=text, data_base64=base64.b64encode(data).decode())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StreamEvent:
        """Take the fields that are known from what a daemon sent."""
        return cast(StreamEvent, super().from_dict(data))
