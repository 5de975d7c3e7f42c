"""Requests as values: the synchronous and the asyncio client send the same."""

from __future__ import annotations

import binascii
import difflib
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from . import types
from ._options import (
    AttachOptions, EventOptions, OneRunOptions, OutputOptions, ProgramOptions, RunOptions, ScreenOptions, SessionOptions,
    SessionSetOptions, SessionWaitOptions, StartOptions, StreamOptions, TerminalOptions, ViewerOptions, WaitOptions)
from ._stdin import OPEN
from .results import ExecOutputResult, ExecResult

T = TypeVar("T")

MISTAKEN = {"cwd": "working_dir", "directory": "working_dir", "input": "stdin", "environment": "env"}
"""Names that other libraries use for the same options."""


@dataclass(frozen=True)
class Request(Generic[T]):
    """A method, its parameters, and how its answer is read."""

    method: str
    params: Mapping[str, Any]
    decode: Callable[[Any], T]

    def repeatable(self) -> bool:
        """Report whether the request may safely be sent a second time."""
        return repeatable(self.method, self.params)


def repeatable(method: str, params: Mapping[str, Any]) -> bool:
    """Report whether a request may be sent again if it is unknown whether the first one arrived."""
    if method in ("exec.input", "session.input"):
        return bool(params.get("write_id"))
    if method in ("exec.run", "exec.start"):
        return bool(params.get("run_id"))
    if method == "dialogue.send":
        return bool(params.get("message_id"))
    if method == "dialogue.terminate":
        return not params.get("forget")  # a forgotten dialogue cannot be found a second time
    return method in types.READS or method in ("session.destroy", "session.resize", "dialogue.set", "dialogue.retry")


def raw(method: str, params: Mapping[str, Any] | None) -> Request[Any]:
    """Any method by its name, with the data of its answer undecoded."""
    if method in types.STREAMING:
        raise TypeError(f"{method} streams: use stream(), attach() or events()")
    return Request(method, dict(params or {}), lambda data: data)


def session_create(options: SessionOptions) -> Request[types.SessionInfo]:
    """session.create of a shell."""
    return Request("session.create", given(SessionOptions, options), types.SessionInfo.from_dict)


def terminal_create(options: TerminalOptions) -> Request[types.SessionInfo]:
    """session.create of a terminal."""
    return Request("session.create", {"kind": "terminal", **given(TerminalOptions, options)}, types.SessionInfo.from_dict)


def program_create(command: Sequence[str], options: ProgramOptions) -> Request[types.SessionInfo]:
    """session.create of a program."""
    params = {"kind": "program", "command": _words(command, "a list of str"), **given(ProgramOptions, options)}
    return Request("session.create", params, types.SessionInfo.from_dict)


def session_input(session_id: str, what: Mapping[str, Any], write_id: str | None) -> Request[types.SessionInputResult]:
    """session.input. Without an id the write gets one, so that it can be repeated."""
    params = {"session_id": session_id, "write_id": write_id or uuid.uuid4().hex, **what}
    return Request("session.input", params, types.SessionInputResult.from_dict)


def typed(data: str | bytes) -> dict[str, str]:
    """Return the field of session.input that carries text or bytes; no field if there are none."""
    fields = _text_or_bytes("data", data) if data else {}
    return {"text": fields["data"]} if "data" in fields else fields


def session_resize(
    session_id: str, cols: int, rows: int, *, force: bool = False, viewer_id: str = ""
) -> Request[types.SessionResizeResult]:
    """session.resize."""
    params = {"session_id": session_id, "cols": cols, "rows": rows, "force": force, "viewer_id": viewer_id}
    return Request("session.resize", params, types.SessionResizeResult.from_dict)


def session_screen(session_id: str, options: ScreenOptions) -> Request[types.SessionScreenResult]:
    """session.screen."""
    return Request("session.screen", {"session_id": session_id, **given(ScreenOptions, options)}, types.SessionScreenResult.from_dict)


def session_wait(session_id: str, options: SessionWaitOptions) -> Request[types.SessionWaitResult]:
    """session.wait; TimeoutError after timeout_s."""

    def decode(data: Any) -> types.SessionWaitResult:
        result = types.SessionWaitResult.from_dict(data)
        if result.timed_out:
            raise TimeoutError(f"session {session_id!r}: no condition was met within timeout_s")
        return result

    return Request("session.wait", {"session_id": session_id, **given(SessionWaitOptions, options)}, decode)


def session_recording(session_id: str, offset: int) -> Request[types.SessionRecordingResult]:
    """session.recording."""
    params = {"session_id": session_id, "offset": offset}
    return Request("session.recording", params, types.SessionRecordingResult.from_dict)


def session_attach(session_id: str, options: ViewerOptions) -> Request[types.StreamStart]:
    """session.attach."""
    return Request("session.attach", {"session_id": session_id, **given(ViewerOptions, options)}, types.StreamStart.from_dict)


def session_destroy(session_id: str, force: bool) -> Request[types.SessionDestroyResult]:
    """session.destroy."""
    params = {"session_id": session_id, "force": force}
    return Request("session.destroy", params, types.SessionDestroyResult.from_dict)


def session_set(session_id: str, what: SessionSetOptions) -> Request[types.SessionInfo]:
    """session.set."""
    return Request("session.set", {"session_id": session_id, **given(SessionSetOptions, what)}, types.SessionInfo.from_dict)


def session_info(session_id: str) -> Request[types.SessionDetails]:
    """session.info."""
    return Request("session.info", {"session_id": session_id}, types.SessionDetails.from_dict)


def session_list(tags: Iterable[str], state: types.SessionState | None) -> Request[list[types.SessionInfo]]:
    """session.list."""
    params = {"tags": list(tags), "state": state or ""}
    return Request("session.list", params, lambda d: types.SessionListResult.from_dict(d).sessions)


def exec_run(session_id: str, command: str | Sequence[str], options: RunOptions) -> Request[ExecResult]:
    """exec.run."""
    return Request("exec.run", _once(_command(session_id, command, RunOptions, options)), ExecResult.from_dict)


def one_run(options: OneRunOptions, ephemeral: bool) -> tuple[SessionOptions, RunOptions]:
    """Return the requests that create the session of one command, and run the command in it."""
    run = given(OneRunOptions, options)
    session = {key: run.pop(key) for key in ("shell", "working_dir", "env") if key in run}
    return cast(SessionOptions, {"ephemeral": ephemeral, **session}), cast(RunOptions, run)


def exec_start(session_id: str, command: str | Sequence[str], options: StartOptions) -> Request[types.ExecInfo]:
    """exec.start."""
    return Request("exec.start", _once(_command(session_id, command, StartOptions, options)), types.ExecInfo.from_dict)


def exec_stream(session_id: str, command: str | Sequence[str], options: StreamOptions) -> Request[types.StreamStart]:
    """exec.stream of a new command."""
    return Request("exec.stream", _once(_command(session_id, command, StreamOptions, options)), types.StreamStart.from_dict)


def exec_attach(exec_id: str, options: AttachOptions) -> Request[types.StreamStart]:
    """exec.stream of a command that was started before."""
    return Request("exec.stream", {"exec_id": exec_id, **given(AttachOptions, options)}, types.StreamStart.from_dict)


def exec_output(exec_id: str, options: OutputOptions) -> Request[ExecOutputResult]:
    """exec.output."""
    return Request("exec.output", {"exec_id": exec_id, **given(OutputOptions, options)}, ExecOutputResult.from_dict)


def exec_input(exec_id: str, data: str | bytes, close: bool, write_id: str | None) -> Request[types.ExecInputResult]:
    """exec.input. Without an id the write gets one, so that it can be repeated."""
    params: dict[str, Any] = {"exec_id": exec_id, "close": close, "write_id": write_id or uuid.uuid4().hex}
    if data:
        params.update(_text_or_bytes("data", data))
    return Request("exec.input", params, types.ExecInputResult.from_dict)


def exec_wait(exec_ids: Iterable[str], all: bool, options: WaitOptions) -> Request[types.ExecWaitResult]:
    """exec.wait."""
    params = {"exec_ids": list(exec_ids), "all": all, **given(WaitOptions, options)}
    return Request("exec.wait", params, types.ExecWaitResult.from_dict)


def exec_signal(exec_id: str, signal: str, to: str | None) -> Request[types.ExecSignalResult]:
    """exec.signal."""
    return Request("exec.signal", {"exec_id": exec_id, "signal": signal, **({"to": to} if to else {})}, types.ExecSignalResult.from_dict)


def exec_resize(exec_id: str, cols: int, rows: int) -> Request[types.ExecInputResult]:
    """exec.input of a new size."""
    return Request("exec.input", {"exec_id": exec_id, "pty": {"cols": cols, "rows": rows}}, types.ExecInputResult.from_dict)


def exec_cancel(named: Mapping[str, str], signal: str | None) -> Request[types.ExecInfo]:
    """exec.cancel of an exec_id, or of the command that runs in a session_id."""
    return Request("exec.cancel", {**named, "signal": signal or ""}, types.ExecInfo.from_dict)


def exec_info(exec_id: str) -> Request[types.ExecInfo]:
    """exec.info."""
    return Request("exec.info", {"exec_id": exec_id}, types.ExecInfo.from_dict)


def exec_list(session_id: str, state: types.ExecState | None) -> Request[list[types.ExecInfo]]:
    """exec.list."""
    params = {"session_id": session_id, "state": state or ""}
    return Request("exec.list", params, lambda d: types.ExecListResult.from_dict(d).execs)


def event_subscribe(options: EventOptions) -> Request[types.StreamStart]:
    """event.subscribe."""
    return Request("event.subscribe", given(EventOptions, options), types.StreamStart.from_dict)


def only(result: types.ExecWaitResult, exec_id: str) -> types.WaitEvent:
    """Return the event of the only command of a wait."""
    if not result.happened:
        raise TimeoutError(f"exec {exec_id!r}: no condition was met within timeout_s")
    return result.happened[0]


def given(kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that have a value; None stands for the daemon's default.

    Only those of the kind are taken: a name that the daemon ignores would do nothing in silence.
    """
    known = kind.__annotations__
    for name in options:
        if name not in known:
            near = [other for wrong, other in MISTAKEN.items() if wrong == name and other in known]
            near += difflib.get_close_matches(name, known, 1)
            raise TypeError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return {key: value for key, value in options.items() if value is not None}


def _command(session_id: str, command: str | Sequence[str], kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    params = given(kind, options)
    stdin = params.pop("stdin", None)
    if stdin is OPEN:
        params["stdin_open"] = True
    elif stdin is not None:
        params.update(_text_or_bytes("stdin", stdin))
    what = {"command": command} if isinstance(command, str) else {"argv": _words(command, "a str or a list of str")}
    return {"session_id": session_id, **what, **params}


def _words(command: Sequence[str], wanted: str) -> list[str]:
    """Return a program and its arguments; TypeError if they are no words, such as the letters of a text."""
    if isinstance(command, (str, bytes)) or not isinstance(command, Iterable):
        raise TypeError(f"command: must be {wanted}, not {type(command).__name__}")
    words = list(command)
    for i, word in enumerate(words):
        if not isinstance(word, str):
            raise TypeError(f"command[{i}]: must be a str, not {type(word).__name__}")
    return words


def _once(params: dict[str, Any]) -> dict[str, Any]:
    """Give a command a run_id, so that the request can be repeated and the command runs once."""
    return {**params, "run_id": uuid.uuid4().hex}


def _text_or_bytes(name: str, value: str | bytes) -> dict[str, str]:
    """Return the field that carries a value exactly. For the daemon, the stdin "open" still means stdin_open."""
    if isinstance(value, str) and value != "open":
        try:
            value.encode()
            return {name: value}
        except UnicodeEncodeError:  # the result of os.fsdecode for bytes that are not text
            pass
    data = value.encode(errors="surrogateescape") if isinstance(value, str) else value
    try:
        return {f"{name}_base64": binascii.b2a_base64(data, newline=False).decode()}
    except TypeError:
        raise TypeError(f"{name}: must be a str or bytes, not {type(value).__name__}") from None
