"""What is sent, against the generated types."""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
import re
import socket
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import trl_client as trl
from conftest import ROOT, Daemon
from trl_client import _place, _request, _talk, types
from trl_client._resume import STARTING, STOPPING


@pytest.mark.parametrize("stdin, field, value", [
    ("text", "stdin", "text"),
    ("", "stdin", ""),
    ("open", "stdin_base64", base64.b64encode(b"open").decode()),
    (b"open", "stdin_base64", base64.b64encode(b"open").decode()),
    (b"\xff", "stdin_base64", "/w=="),
    ("a\udcff", "stdin_base64", base64.b64encode(b"a\xff").decode()),
])
def test_stdin_is_exact(stdin: Any, field: str, value: str) -> None:
    params = dict(_request.exec_start("s", "cat", {"stdin": stdin}).params)
    assert params.pop("run_id") and params == {"session_id": "s", "command": "cat", field: value}


def test_stdin_open() -> None:
    for given in ({"stdin_open": True}, {"stdin": trl.OPEN}):  # the second is deprecated
        params = dict(_request.exec_start("s", "cat", given).params)  # type: ignore[arg-type]
        assert params.pop("run_id") and params == {"session_id": "s", "command": "cat", "stdin_open": True}


@pytest.mark.parametrize("command, error", [
    (5, "command: must be a str or a list of str, not int"),
    (None, "command: must be a str or a list of str, not NoneType"),
    (b"ls", "command: must be a str or a list of str, not bytes"),
    (["ls", Path("/")], "command[1]: must be a str, not " + type(Path("/")).__name__),
])
def test_a_command_of_another_type_is_refused_by_its_name(shared: Daemon, command: Any, error: str) -> None:
    with trl.connect(shared.socket) as t, t.session() as s:
        for run in (t.run, s.run, s.start, s.stream):
            with pytest.raises(TypeError, match="^" + re.escape(error) + "$"):
                run(command)

    async def same() -> None:
        async with trl.aio.connect(shared.socket) as t, t.session() as s:
            for run in (t.run, s.run, s.start):
                with pytest.raises(TypeError, match="^" + re.escape(error) + "$"):
                    await run(command)

    asyncio.run(same())


@pytest.mark.parametrize("command", [5, "cat", b"cat"])  # the letters of a text are no words
def test_a_program_is_a_list(command: Any) -> None:
    error = f"command: must be a list of str, not {type(command).__name__}"
    with pytest.raises(TypeError, match=f"^{error}$"):
        _request.program_create(command, {})


def test_stdin_of_another_type_is_refused_by_its_name() -> None:
    with pytest.raises(TypeError, match="^stdin: must be a str or bytes, not int$"):
        _request.exec_run("s", "cat", {"stdin": 5})  # type: ignore[typeddict-item]
    with pytest.raises(TypeError, match="^data: must be a str or bytes, not int$"):
        _request.exec_input("x", 5, False, None)  # type: ignore[arg-type]


def test_none_is_not_sent() -> None:
    params = dict(_request.exec_run("s", "", {"stdin": None}).params)
    assert params.pop("run_id") and params == {"session_id": "s", "command": ""}


def test_input_is_exact_and_repeatable() -> None:
    request = _request.exec_input("x", b"\xff", False, None)
    assert request.params["data_base64"] == "/w==" and request.params["write_id"] and request.repeatable()
    assert request.params["write_id"] != _request.exec_input("x", b"\xff", False, None).params["write_id"]
    assert _request.exec_input("x", "open", False, "w").params == {
        "exec_id": "x", "close": False, "write_id": "w", "data_base64": base64.b64encode(b"open").decode()}
    assert "data" not in _request.exec_input("x", b"", True, None).params


def test_only_what_does_no_harm_twice_is_repeated() -> None:
    again = {m for m in types.METHODS if _request.repeatable(m, {})}
    assert again == types.READS | {"session.destroy", "session.resize", "dialogue.set", "dialogue.retry", "dialogue.terminate"}
    assert not _request.repeatable("exec.input", {"data": "x"})
    assert not _request.repeatable("session.input", {"text": "x"})
    assert not _request.repeatable("dialogue.send", {"text": "x"})
    assert not _request.repeatable("dialogue.terminate", {"forget": True})
    first, second = (_talk.send("d", "x", None) for _ in range(2))
    assert first.repeatable() and first.params["message_id"] != second.params["message_id"]


def test_typing_is_exact_and_repeatable() -> None:
    for data, field in (("ä", {"text": "ä"}), (b"\xff", {"data_base64": "/w=="}), ("a\udcff", {"data_base64": "Yf8="}), ("", {})):
        request = _request.session_input("s", _request.typed(data), "w")
        assert request.params == {"session_id": "s", "write_id": "w", **field} and request.repeatable()
    assert _request.session_input("s", {}, None).params["write_id"] != _request.session_input("s", {}, None).params["write_id"]


def test_streaming_methods_are_not_called() -> None:
    with pytest.raises(TypeError):
        _request.raw("exec.stream", {})


def test_errors_survive_pickle() -> None:
    for e in (trl.TrlError("CONFLICT", "m", {"a": 1}), trl.ConnectionLost("m", {"a": 1})):
        back = pickle.loads(pickle.dumps(e))
        assert type(back) is type(e) and (back.code, back.message, back.details) == (e.code, e.message, e.details)
    assert trl.ConnectionLost("m").code == "RUNTIME_UNAVAILABLE"


def test_the_socket_is_where_the_go_client_looks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TRL_SOCKET_PATH", "/a/b")
    assert trl.default_socket() == "/a/b"
    monkeypatch.setenv("TRL_SOCKET_PATH", "")
    monkeypatch.setenv("TRL_STATE_DIR", str(tmp_path))
    default = trl.default_socket()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert trl.default_socket() == default, "it must not depend on a variable"
    monkeypatch.setattr("os.getuid", lambda: 4242)
    assert trl.default_socket() == "/tmp/trl-4242/trl.sock"


def test_the_daemon_is_found_by_its_lock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRL_SOCKET_PATH", raising=False)
    monkeypatch.setenv("TRL_STATE_DIR", str(tmp_path))
    default = trl.default_socket()
    with socket.socket(socket.AF_UNIX) as listening:
        path = str(tmp_path / "a b.sock")
        listening.bind(path)
        (tmp_path / "lock").write_text(f"running 1 {path}\n")
        # One at the default place goes first.
        assert trl.default_socket() == (default if Path(default).exists() else path)


def test_the_state_directory_does_not_depend_on_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TRL_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    own, other, away = (tmp_path / name for name in ("own", "other", "away"))
    own.mkdir()
    other.mkdir()
    for account, home, want in (
        (own, other, own), (own, away, own), (away, other, other), (Path("/"), other, other), (Path("account"), other, other),
    ):
        monkeypatch.setattr(_place, "_account_home", lambda account=account: str(account))
        monkeypatch.setenv("HOME", str(home))
        assert _place._state_dir() == str(want / ".local/state/trl")
    monkeypatch.setattr(_place, "_account_home", lambda: "")
    monkeypatch.delenv("HOME")
    assert _place._state_dir() == f"/tmp/trl-{os.getuid()}/state"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a socket of somebody else")
def test_the_socket_of_somebody_else_is_refused(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        path = tmp_path / "s"
        listening.bind(str(path))
        listening.listen()
        os.chown(path, 65534, 65534)
        with pytest.raises(trl.ConnectionLost, match="belongs to another user: to uid 65534, and you are uid 0"):
            trl.connect(socket=path)
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()

        async def connect() -> None:
            await trl.aio.connect(socket=path)

        with pytest.raises(trl.ConnectionLost, match="belongs to another user"):
            asyncio.run(connect())


@pytest.mark.parametrize("arguments", [
    {"socket": "/a", "url": "http://h"}, {"token": "t"}, {"url": "ftp://h"}, {"url": "http://"}, {"url": "http://h/?q"},
    {"stdio": "trl serve --stdio"}, {"stdio": []},
])
def test_arguments_that_make_no_sense(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        trl.connect(**arguments)
    with pytest.raises(ValueError):
        trl.aio.connect(**arguments)


def test_types_can_be_looked_at() -> None:
    assert get_type_hints(trl.TrlError.__init__)["code"] is str


def test_the_reasons_of_the_daemon_are_known() -> None:
    source = (ROOT / "api" / "errors.go").read_text()
    assert f'"{STARTING}"' in source and f'"{STOPPING}"' in source
