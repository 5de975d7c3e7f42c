"""The daemon is killed and comes back: nothing is lost, nothing is seen twice."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import threading
from pathlib import Path

import pytest

import trl_client as trl
from conftest import PATIENCE, Daemon, agent, until
from fake import Conn, FakeDaemon

LINES = 1500
COMMAND = f'for ((i = 1; i <= {LINES}; i++)); do echo "line $i of many"; ((i % 10)) || sleep 0.01; done'
EXPECTED = "".join(f"line {i} of many\n" for i in range(1, LINES + 1))


@pytest.mark.parametrize("seed", range(2))
def test_streams_survive_kill_9(daemon: Daemon, seed: int) -> None:
    rng, done = random.Random(seed), threading.Event()

    def kill_again_and_again() -> None:
        for _ in range(3):
            if done.wait(rng.uniform(0.1, 0.6)):
                return
            daemon.kill()
            done.wait(rng.uniform(0, 0.2))
            daemon.start()

    with trl.connect(daemon.socket) as t, t.session(shell="bash") as s:
        killer = threading.Thread(target=kill_again_and_again)
        stream = s.stream(COMMAND)
        killer.start()
        try:
            seen = [c for c in stream]
        finally:
            done.set()
            killer.join(PATIENCE)
        assert "".join(c.data for c in seen) == EXPECTED
        assert [c.seq for c in seen] == sorted({c.seq for c in seen})
        assert stream.outcome is not None and stream.outcome.exit_code == 0
        assert "".join(c.data for c in t.get_exec(stream.exec_id).stream()) == EXPECTED
        assert s.run("echo alive").stdout == "alive\n"


def test_streams_survive_kill_9_aio(daemon: Daemon) -> None:
    async def read(s: trl.aio.Session) -> str:
        return "".join([c.data async for c in s.stream(COMMAND)])

    async def main() -> None:
        async with trl.aio.connect(daemon.socket) as t:
            sessions = [await t.session(shell="bash") for _ in range(5)]
            reading = [asyncio.create_task(read(s)) for s in sessions]
            for _ in range(3):
                await asyncio.sleep(0.3)
                daemon.kill()
                daemon.start()
            assert await asyncio.gather(*reading) == [EXPECTED] * len(sessions)

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


def test_calls_survive_kill_9(daemon: Daemon, tmp_path: Path) -> None:
    with trl.connect(daemon.socket) as t, t.session(shell="bash") as s:
        x = s.start("while read l; do echo got $l; done", stdin_open=True)
        waiting: list[trl.types.WaitEvent] = []
        thread = threading.Thread(target=lambda: waiting.append(x.wait(output_match="got three")))
        thread.start()
        for word in ("one", "two", "three"):
            daemon.kill()
            daemon.start()
            x.input(word + "\n")
        thread.join(PATIENCE)
        assert waiting[0].reason == "output_match"
        x.close_input()
        assert x.wait().reason == "exit"
        assert x.output().data == "got one\ngot two\ngot three\n"


def test_a_run_is_not_repeated(daemon: Daemon, tmp_path: Path) -> None:
    with trl.connect(daemon.socket) as t, t.session(shell="bash") as s:
        began = tmp_path / "began"

        def kill() -> None:
            while not began.exists():
                threading.Event().wait(0.01)
            daemon.kill()
            daemon.start()

        thread = threading.Thread(target=kill)
        thread.start()
        assert s.run(f"echo once >>{began}; sleep 2; echo done").stdout == "done\n"
        thread.join(PATIENCE)
        assert began.read_text() == "once\n"
        assert len(s.execs()) == 1


def test_a_stream_is_not_started_twice(daemon: Daemon, tmp_path: Path) -> None:
    """Its connection breaks when the daemon has answered, and the answer is lost."""
    began = tmp_path / "began"

    def lose_the_answer(conn: Conn) -> None:
        line = json.dumps(conn.request()).encode() + b"\n"
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(daemon.socket)
            real.sendall(line)
            real.settimeout(PATIENCE)
            assert b'"ok":true' in real.recv(1 << 16)

    def pass_on(conn: Conn) -> None:
        with socket.socket(socket.AF_UNIX) as real:
            real.connect(daemon.socket)
            real.sendall(json.dumps(conn.request()).encode() + b"\n")
            while data := real.recv(1 << 16):
                conn.sock.sendall(data)

    def idle(conn: Conn) -> None:
        conn.request()

    with trl.connect(daemon.socket) as t, t.session(shell="bash") as s:
        with FakeDaemon(idle, lose_the_answer, pass_on) as proxy, trl.connect(proxy.path) as through:
            stream = trl.Session(through, s.id).stream(f"echo once >>{began}; echo done")
            assert "".join(e.data for e in stream) == "done\n"
            assert stream.exec_id == s.execs()[0].exec_id
        assert began.read_text() == "once\n" and len(s.execs()) == 1


def test_a_daemon_that_does_not_come_back(daemon: Daemon) -> None:
    with trl.connect(daemon.socket, patience_s=0.3) as t:
        s = t.session()
        stream = s.stream("echo a; sleep 1000")
        assert next(stream).data == "a\n"
        daemon.kill()
        with pytest.raises(trl.ConnectionLost) as e:
            next(stream)
        assert e.value.details["exec_id"] == stream.exec_id
        with pytest.raises(trl.ConnectionLost):
            s.run("true")
        daemon.start()
        with trl.connect(daemon.socket) as later:
            assert later.get_exec(stream.exec_id).info().state == "running"
            later.get_session(s.id).destroy(force=True)


def test_events_survive_kill_9(daemon: Daemon) -> None:
    with trl.connect(daemon.socket) as t, t.events(types=["session.created"]) as events:
        created = []
        for _ in range(3):
            created.append(t.session().id)
            daemon.kill()
            daemon.start()
        # One that was created just before the end may be told after the next.
        assert {next(events).session_id for _ in created} == set(created)
        for session_id in created:
            t.get_session(session_id).destroy(force=True)


def test_an_upgrade_is_not_noticed(daemon: Daemon) -> None:
    with trl.connect(daemon.socket) as t, t.session(shell="bash") as s, t.session(shell="bash") as other:
        x = other.start("read line", stdin_open=True)
        waiting: list[trl.types.WaitEvent] = []
        thread = threading.Thread(target=lambda: waiting.append(x.wait()))
        thread.start()
        text = ""
        for n, c in enumerate(s.stream(COMMAND)):
            text += c.data
            if n in (10, 200):
                t.call("system.upgrade")
        assert text == EXPECTED
        x.input("go\n")
        thread.join(PATIENCE)
        assert waiting[0].reason == "exit"
        assert s.run("echo alive").stdout == "alive\n"


def test_the_next_daemon_creates_what_this_one_did_not(daemon: Daemon, tmp_path: Path) -> None:
    """The shell and the agent do not answer when they are started for the first time, until the daemon is upgraded."""
    programs = {"bash": "bash", "agent": agent()}
    for name, program in programs.items():
        starts = tmp_path / f"{name}.starts"
        (tmp_path / name).write_text(
            f'#!/bin/sh\necho x >>{starts}\n[ "$(cat {starts})" = x ] && exec sleep 1000\nexec {program} "$@"\n')
        (tmp_path / name).chmod(0o700)

    def starts_are(want: str) -> bool:
        files = [tmp_path / f"{name}.starts" for name in programs]
        return all(f.exists() and f.read_text() == want for f in files)

    async def main() -> None:
        async with trl.aio.connect(daemon.socket) as t:
            session = asyncio.ensure_future(t.session(shell=str(tmp_path / "bash"), name="one"))
            dialogue = asyncio.ensure_future(
                t.dialogue("claude", argv=[str(tmp_path / "agent")], working_dir="/tmp", name="two"))
            await asyncio.to_thread(until, lambda: starts_are("x\n"), "both were started")
            await t.call("system.upgrade")
            assert (await (await session).run("echo alive")).stdout == "alive\n"
            d = await dialogue
            assert starts_are("x\nx\n") and [i.dialogue_id for i in await t.dialogues()] == [d.id]
            await d.terminate()
            await (await session).destroy()

    asyncio.run(asyncio.wait_for(main(), 2 * PATIENCE))


def test_an_ephemeral_session_outlives_the_daemon(daemon: Daemon) -> None:
    """It would end ten seconds after a restart if its owner did not come back."""

    def owner_comes_back(t: trl.Client) -> None:
        daemon.kill()
        daemon.start()
        t.info()

    with trl.connect(daemon.socket) as t:
        s = t.session(ephemeral=True)
        s.run("x=kept")
        owner_comes_back(t)
        assert s.run("sleep 12; echo $x").stdout == "kept\n"
        with trl.connect(daemon.socket) as other:
            t.close()
            until(lambda: other.sessions(state="idle") + other.sessions(state="running") == [], "it ends with its owner")


def test_an_ephemeral_session_outlives_the_daemon_aio(daemon: Daemon) -> None:
    async def main() -> None:
        async with trl.aio.connect(daemon.socket) as t:
            s = await t.session(ephemeral=True)
            await s.run("x=kept")
            daemon.kill()
            daemon.start()
            assert (await s.run("sleep 12; echo $x")).stdout == "kept\n"

    asyncio.run(main())
