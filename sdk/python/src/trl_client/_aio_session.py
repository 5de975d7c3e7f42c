"""The sessions and commands of the client with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from . import _request, types
from ._aio_stream import Stream, Viewer
from ._options import (
    AttachOptions, OutputOptions, RunOptions, ScreenOptions, SessionSetOptions, SessionWaitOptions, StartOptions, StreamOptions,
    ViewerOptions, WaitOptions)
from ._resume import Cursor, ViewerCursor, WholeCursor
from .results import ExecOutputResult, ExecResult

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .aio import Client


class AnySession:
    """The methods that every kind of session has. Used with "async with", it is destroyed at the end."""

    def __init__(self, client: Client, session_id: str) -> None:
        self._client = client
        self.id = session_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._client._leave(_request.session_destroy(self.id, False), "SESSION_NOT_FOUND", e)

    def __repr__(self) -> str:
        return f"<trl.aio.{type(self).__name__} {self.id}>"

    async def info(self) -> types.SessionDetails:
        """Return everything about the session."""
        return await self._client._do(_request.session_info(self.id))

    async def set(self, **what: Unpack[SessionSetOptions]) -> types.SessionInfo:
        """Change the name ("" for none), the tags, or the time limits of the session."""
        return await self._client._do(_request.session_set(self.id, what))

    async def destroy(self, *, force: bool = False) -> types.SessionDestroyResult:
        """End the session and every process in it."""
        return await self._client._do(_request.session_destroy(self.id, force))


class Session(AnySession):
    """A session with a live shell, which keeps its directory and variables between commands."""

    async def run(self, command: str | Sequence[str], **options: Unpack[RunOptions]) -> ExecResult:
        """Run a command and wait for its outcome. A failure or a timeout of the command is a result.

        A string is text for the shell. A list is a program and its arguments, which runs beside the shell.
        """
        return await self._client._do(_request.exec_run(self.id, command, options))

    async def start(self, command: str | Sequence[str], **options: Unpack[StartOptions]) -> Exec:
        """Start a command and return at once."""
        return Exec(self._client, (await self._client._do(_request.exec_start(self.id, command, options))).exec_id)

    def stream(self, command: str | Sequence[str], **options: Unpack[StreamOptions]) -> Stream:
        """Iterate over the output of a command as it arrives. Opening the stream starts the command."""
        return Stream(self._client._pool, Cursor(_request.exec_stream(self.id, command, options)))

    async def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Cancel the running command."""
        return await self._client._do(_request.exec_cancel({"session_id": self.id}, signal))

    async def execs(self, state: types.ExecState | None = None) -> list[types.ExecInfo]:
        """List the commands."""
        return await self._client._do(_request.exec_list(self.id, state))

class Exec:
    """One command, running or ended."""

    def __init__(self, client: Client, exec_id: str) -> None:
        self._client = client
        self.id = exec_id

    def __repr__(self) -> str:
        return f"<trl.aio.Exec {self.id}>"

    async def wait(self, **options: Unpack[WaitOptions]) -> types.WaitEvent:
        """Wait until the command exits or meets a condition of the options; TimeoutError after timeout_s."""
        return _request.only(await self._client._do(_request.exec_wait([self.id], False, options)), self.id)

    async def input(self, data: str | bytes, *, close: bool = False, write_id: str | None = None) -> types.ExecInputResult:
        """Write to the command's stdin, which was left open."""
        return await self._client._do(_request.exec_input(self.id, data, close, write_id))

    async def close_input(self) -> types.ExecInputResult:
        """End the command's stdin."""
        return await self.input(b"", close=True)

    async def output(self, **options: Unpack[OutputOptions]) -> ExecOutputResult:
        """Read a part of the output: by offset, from the end, or the lines that match."""
        return await self._client._do(_request.exec_output(self.id, options))

    def stream(self, **options: Unpack[AttachOptions]) -> Stream:
        """Iterate over the output, from its beginning or from the position in the options."""
        return Stream(self._client._pool, Cursor(_request.exec_attach(self.id, options)))

    async def resize(self, cols: int, rows: int) -> types.ExecInputResult:
        """Change the size of the terminal of a command that was started with pty."""
        return await self._client._do(_request.exec_resize(self.id, cols, rows))

    async def signal(self, signal: str, to: Literal["leader", "tree"] | None = None) -> types.ExecSignalResult:
        """Send a signal to the command: to its leader, or to the tree of all its processes."""
        return await self._client._do(_request.exec_signal(self.id, signal, to))

    async def cancel(self, signal: str | None = None) -> types.ExecInfo:
        """Stop the command and everything it started."""
        return await self._client._do(_request.exec_cancel({"exec_id": self.id}, signal))

    async def info(self) -> types.ExecInfo:
        """Return the state and outcome."""
        return await self._client._do(_request.exec_info(self.id))


class ProgramSession(AnySession):
    """A session that is one program. It ends with the program; its output stays readable."""

    def __init__(self, client: Client, info: types.SessionInfo) -> None:
        super().__init__(client, info.session_id)
        self.exec = Exec(client, info.exec_id)
        """The program as a command: its output by offset, its exit, its signals."""

    async def wait(self, **options: Unpack[SessionWaitOptions]) -> types.SessionWaitResult:
        """Wait for a condition of the options, or the end of the program; TimeoutError after timeout_s."""
        return await self._client._do(_request.session_wait(self.id, options))


class Terminal(ProgramSession):
    """A program on a pseudo-terminal, with a screen."""

    async def input(self, data: str | bytes, *, keys: Sequence[str] = (), write_id: str | None = None) -> types.SessionInputResult:
        """Type text, then press the keys. The key enter ends a line."""
        return await self._client._do(_request.session_input(self.id, {**_request.typed(data), "keys": list(keys)}, write_id))

    async def keys(self, *keys: str) -> types.SessionInputResult:
        """Press keys, one after the other: enter, tab, esc, up, f5, ctrl-c, alt-x, shift-tab, or one character."""
        return await self.input("", keys=keys)

    async def paste(self, text: str, *, keys: Sequence[str] = (), write_id: str | None = None) -> types.SessionInputResult:
        """Paste text, as a bracketed paste if the program asked for that. Then press the keys."""
        return await self._client._do(_request.session_input(self.id, {"paste": text, "keys": list(keys)}, write_id))

    async def screen(self, **options: Unpack[ScreenOptions]) -> types.SessionScreenResult:
        """Return the screen of the terminal; its last screen if it has ended."""
        return await self._client._do(_request.session_screen(self.id, options))

    async def resize(self, cols: int, rows: int, *, force: bool = False) -> types.SessionResizeResult:
        """Change the size of the terminal. While a viewer owns the size this is an error, unless force is set."""
        return await self._client._do(_request.session_resize(self.id, cols, rows, force=force))

    def attach(self, **options: Unpack[ViewerOptions]) -> Viewer:
        """Iterate over bytes that draw the screen on a terminal, and all further output."""
        cursor = ViewerCursor(_request.session_attach(self.id, options))
        return Viewer(self._client, cursor)

    async def recording(self, offset: int = 0) -> AsyncIterator[str]:
        """Iterate over the recording, an asciicast, up to its current end."""
        while True:
            piece = await self._client._do(_request.session_recording(self.id, offset))
            if not piece.data:
                return
            yield piece.data
            offset = piece.offset + len(piece.data.encode())
            if offset >= piece.total:
                return


class Program(ProgramSession):
    """A program on three pipes."""

    async def input(self, data: str | bytes, *, close: bool = False, write_id: str | None = None) -> types.SessionInputResult:
        """Write to the program's stdin."""
        return await self._client._do(_request.session_input(self.id, {**_request.typed(data), "close": close}, write_id))

    async def close_input(self) -> types.SessionInputResult:
        """End the program's stdin."""
        return await self.input(b"", close=True)

    def stdout(self, from_offset: int = 0) -> Stream:
        """Iterate over stdout from a byte on, and the exit. Bytes that are no longer kept are an error."""
        return self._output({"stream": "stdout", "from_offset": from_offset})

    def stderr(self, from_offset: int = 0) -> Stream:
        """Iterate over stderr from a byte on, and the exit. Bytes that are no longer kept are an error."""
        return self._output({"stream": "stderr", "from_offset": from_offset})

    def _output(self, options: AttachOptions) -> Stream:
        cursor = WholeCursor(_request.exec_attach(self.exec.id, options))
        return Stream(self._client._pool, cursor)
