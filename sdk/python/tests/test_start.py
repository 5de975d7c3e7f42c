"""A daemon is started when none runs, and one command needs one line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import trl_client as trl
from trl_client import types
from conftest import PATIENCE, Daemon, binary, until
from fake import Conn, FakeDaemon


@pytest.fixture
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: Daemon) -> Iterator[Path]:
    """An environment of a user whose daemon does not run; the one that a test starts is stopped."""
    root = Path(os.path.realpath(shared.root)) / tmp_path.name  # short enough for a socket
    root.mkdir()
    programs = root / "bin"
    programs.mkdir()
    (programs / "trl").symlink_to(binary())
    env = {
        "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(root), "TRL_SOCKET_PATH": str(root / "s"),
        "TRL_STATE_DIR": str(root / "state"), "TRL_RUNTIME_DIR": str(root / "run"), "TRL_CONFIG": os.devnull,
    }
    for key, value in env.items():
        monkeypatch.setenv(key, value)
    yield root
    subprocess.run([binary(), "stop"], env=env, check=True)


def test_a_daemon_is_started(nobody: Path) -> None:
    for socket in (None, nobody / "s"):
        with pytest.raises(trl.ConnectionLost) as e:
            trl.connect(socket, start=False)
        assert e.value.message == f"no daemon runs at {nobody / 's'}, and start=False forbids starting one"
        assert e.value.code == "RUNTIME_UNAVAILABLE"
    with pytest.raises(trl.ConnectionLost, match="no such file"):
        trl.connect(str(nobody / "s"))  # an address that was given names a daemon that is there
    with trl.connect() as t, t.session() as s:
        assert s.run("echo hello").stdout == "hello\n"
    with trl.connect(start=False) as t:
        assert t.info().version


def test_a_daemon_is_started_with_asyncio(nobody: Path) -> None:
    async def work() -> None:
        with pytest.raises(trl.ConnectionLost, match="start=False forbids"):
            await trl.aio.connect(start=False)
        assert (await trl.aio.run("echo hello; exit 3")).exit_code == 3

    asyncio.run(work())


def test_a_daemon_that_was_killed_is_started_again(nobody: Path) -> None:
    with trl.connect() as t, t.session() as s:
        s.run("x=kept")
        pid = t.info().pid
        os.kill(pid, 9)
        assert t.info().pid != pid
        assert s.run("echo $x").stdout == "kept\n"


def runs() -> bool:
    try:
        trl.connect(start=False).close()
    except trl.ConnectionLost:
        return False
    return True


def stays_stopped() -> None:
    subprocess.run([binary(), "stop"], check=True)
    for _ in range(30):
        assert not runs()
        time.sleep(0.1)


def test_only_a_new_call_replaces_a_daemon_that_was_stopped(nobody: Path) -> None:
    def wait(x: trl.Exec) -> None:
        with contextlib.suppress(trl.RuntimeUnavailable):
            x.wait()

    with trl.connect() as t, t.events(after_seq=0) as events:
        x = t.session(ephemeral=True).start("sleep 1000")
        next(events)
        threads = [threading.Thread(target=target) for target in (lambda: list(events), lambda: wait(x))]
        for thread in threads:
            thread.start()
        pid = t.info().pid
        stays_stopped()
        then = t.info().pid
        assert then != pid
        os.kill(then, signal.SIGKILL)
        until(runs, "the stream starts one after a crash")
        events.close()
        for thread in threads:
            thread.join(PATIENCE)


def test_only_a_new_call_replaces_a_daemon_that_was_stopped_aio(nobody: Path) -> None:
    async def read(events: trl.aio.Stream) -> None:
        async for _ in events:
            pass

    async def wait(x: trl.aio.Exec) -> None:
        with contextlib.suppress(trl.RuntimeUnavailable):
            await x.wait()

    async def main() -> None:
        async with trl.aio.connect() as t, t.events(after_seq=0) as events:
            x = await (await t.session(ephemeral=True)).start("sleep 1000")
            await events.__anext__()
            reading, waiting = asyncio.create_task(read(events)), asyncio.create_task(wait(x))
            pid = (await t.info()).pid
            await asyncio.to_thread(stays_stopped)
            await waiting
            then = (await t.info()).pid
            assert then != pid
            os.kill(then, signal.SIGKILL)
            await asyncio.to_thread(until, runs, "the stream starts one after a crash")
            reading.cancel()

    asyncio.run(main())


@contextlib.contextmanager
def one_that_is_stopped(home: Path) -> Iterator[None]:
    """A daemon of this user that a user stops just when it gets a request."""
    trl.connect().close()
    subprocess.run([binary(), "stop"], check=True)

    def stop(conn: Conn) -> None:
        conn.request()
        os.remove(home / "s")

    with FakeDaemon(stop) as fake:
        os.rename(fake.path, home / "s")
        yield


def test_a_new_call_replaces_a_daemon_that_is_being_stopped(nobody: Path) -> None:
    async def main() -> str:
        async with trl.aio.connect() as t:
            return (await t.info()).version

    with one_that_is_stopped(nobody), trl.connect() as t:
        assert t.info().version
    with one_that_is_stopped(nobody):
        assert asyncio.run(main())


def test_a_session_that_a_block_left_is_not_owned_again(nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_KEEP_SESSIONS", "true")

    async def main() -> None:
        async with trl.aio.connect() as t:
            async with t.session(ephemeral=True) as s:
                await asyncio.to_thread(subprocess.run, [binary(), "stop"], check=True)
            kept = await t.get_session(s.id)
            assert not t._pool._bound and not t._pool._unowned
            await kept.destroy()

    with trl.connect() as t:
        with t.session(ephemeral=True) as s:
            subprocess.run([binary(), "stop"], check=True)
        kept = t.get_session(s.id)  # a new call starts one
        assert not t._pool._bound and not t._pool._unowned
        kept.destroy()
    asyncio.run(main())


def test_leaving_a_block_does_not_replace_a_daemon_that_was_stopped(nobody: Path) -> None:
    with trl.connect() as t:
        with t.session() as s:
            s.run("true")
            subprocess.run([binary(), "stop"], check=True)
        assert not runs()

    with trl.connect() as t:
        stopping = threading.Thread(target=stop_soon, args=(nobody,))
        stopping.start()
        with contextlib.suppress(trl.RuntimeUnavailable):  # or its result: cancelled
            t.run("touch $HOME/begun; sleep 1000")
        stopping.join(PATIENCE)
        assert not runs()

    with trl.connect() as t, t.session() as s:
        os.kill(t.info().pid, signal.SIGKILL)
    with trl.connect(start=False) as t:
        assert t.sessions() == []  # after a crash, one is started to end the session


def stop_soon(home: Path) -> None:
    until((home / "begun").exists, "the command has begun")
    subprocess.run([binary(), "stop"], check=True)


def test_leaving_a_block_does_not_replace_a_daemon_that_was_stopped_aio(nobody: Path) -> None:
    async def main() -> None:
        async with trl.aio.connect() as t:
            async with t.session() as s:
                await s.run("true")
                await asyncio.to_thread(subprocess.run, [binary(), "stop"], check=True)
            assert not runs()

        async with trl.aio.connect() as t:
            stopping = asyncio.create_task(asyncio.to_thread(stop_soon, nobody))
            with contextlib.suppress(trl.RuntimeUnavailable):  # or its result: cancelled
                await t.run("touch $HOME/begun; sleep 1000")
            await stopping
            assert not runs()

    asyncio.run(main())


def test_a_wait_does_not_replace_a_daemon_that_was_stopped_and_kept_its_sessions(
    nobody: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_KEEP_SESSIONS", "true")
    with trl.connect() as t:
        s = t.session(name="kept")
        x = s.start("read -r line", stdin_open=True)
        ended: list[types.WaitEvent] = []
        tasks: list[trl.aio.Client] = []

        async def wait() -> types.WaitEvent:
            async with trl.aio.connect() as t:
                tasks.append(t)
                return await t.get_exec(x.id).wait()

        waiting = threading.Thread(target=lambda: ended.append(x.wait()))
        other = threading.Thread(target=lambda: ended.append(asyncio.run(wait())))
        waiting.start()
        other.start()
        until(lambda: len(t._pool._busy) == 1, "a thread waits")
        until(lambda: bool(tasks) and not tasks[0]._pool._idle, "a task waits")
        stays_stopped()
        assert waiting.is_alive() and other.is_alive()
        x.input("go\n")  # a new call starts one, and the waits go on
        waiting.join(PATIENCE)
        other.join(PATIENCE)
        assert [e.reason for e in ended] == ["exit", "exit"]
        s.destroy()


def test_what_cannot_be_started_says_why(nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as m:
        m.setenv("PATH", "/nowhere")
        with pytest.raises(trl.ConnectionLost, match="trl that starts one is not on PATH"):
            trl.connect()
    with monkeypatch.context() as m:
        m.setenv("TRL_STATE_DIR", "/proc/nowhere")
        with pytest.raises(trl.ConnectionLost, match="/proc/nowhere"):
            trl.connect()


def test_one_command_needs_one_line(nobody: Path) -> None:
    r = trl.run('cat; echo "$A $PWD" >&2; exit 4', stdin="in", env={"A": "1"}, working_dir="/", shell="/bin/sh", timeout_s=60)
    assert (r.stdout, r.stderr, r.exit_code, r.ok) == ("in", "1 /\n", 4, False)
    with pytest.raises(trl.CommandFailed, match="^command exit code 4: 1 /$") as e:
        r.check()
    assert e.value.result is r
    assert trl.run("true").check().ok
    with trl.connect() as t:
        assert t.sessions() == []


def test_one_command_over_each_transport(shared: Daemon, transport: str) -> None:
    with trl.connect(**shared.where(transport)) as t:
        assert t.run("echo $A", env={"A": "1"}).check().stdout == "1\n"
        r = t.run("echo before; sleep 60", timeout_s=0.2)
        assert (r.timed_out, r.ok, r.stdout) == (True, False, "before\n")
        with pytest.raises(trl.CommandFailed, match="timed out"):
            r.check()

    async def work() -> None:
        async with trl.aio.connect(**shared.where(transport)) as t:
            assert (await t.run("echo $A", env={"A": "2"})).check().stdout == "2\n"

    asyncio.run(work())


def test_each_error_has_a_class(shared: Daemon) -> None:
    classes = {trl.errors.error_of(code, "m").__class__ for code in trl.types.ERROR_CODES}
    assert len(classes) == len(trl.types.ERROR_CODES) and trl.TrlError not in classes
    assert {c.__name__ for c in classes} <= set(trl.__all__)
    assert type(trl.errors.error_of("NEWER", "m")) is trl.TrlError
    with trl.connect(shared.socket) as t:
        with pytest.raises(trl.SessionNotFound):
            t.get_session("s-nowhere")
        with pytest.raises(trl.ShellNotFound):
            t.session(shell="/nowhere")
        with pytest.raises(trl.InvalidParams):
            t.session(working_dir="relative/nowhere")


@pytest.mark.parametrize("wrong, right", [("timeout", "timeout_s"), ("cwd", "working_dir"), ("input", "stdin"), ("enviroment", None)])
def test_a_wrong_option_is_refused(shared: Daemon, wrong: str, right: str | None) -> None:
    with trl.connect(shared.socket) as t, t.session() as s:
        with pytest.raises(TypeError, match=f"did you mean '{right}'" if right else "unknown option"):
            s.run("true", **{wrong: 1})  # type: ignore[arg-type]
