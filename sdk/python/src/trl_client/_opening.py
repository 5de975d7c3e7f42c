"""The objects that the asyncio client returns before they are open."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar


class _Leaves(Protocol):
    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None, /
    ) -> None: ...


L = TypeVar("L", bound=_Leaves)


class Opening(Generic[L]):
    """An object that "async with" opens, and closes at the end; or that await opens."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, L]]) -> None:
        self._open = open
        self._opened: L | None = None

    def __await__(self) -> Generator[Any, None, L]:
        return self._open().__await__()

    async def __aenter__(self) -> L:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, e, where)
