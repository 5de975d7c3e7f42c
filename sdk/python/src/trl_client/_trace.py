"""Where calls belong in a trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_position: ContextVar[str] = ContextVar("trl_traceparent", default="")


def traceparent() -> str:
    """Return the position of the caller in a trace; "" if it is in none."""
    return _position.get()


@contextmanager
def traced(traceparent: str) -> Iterator[None]:
    """Make the calls of this thread or task part of a trace: a traceparent of W3C Trace Context. A
    stream takes the position at its first item."""
    before = _position.set(traceparent)
    try:
        yield
    finally:
        _position.reset(before)
