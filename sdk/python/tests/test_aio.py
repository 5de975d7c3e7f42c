"""The asyncio client against the real daemon, over every transport."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import trl_client as trl
from conftest import PATIENCE, Daemon


def asynchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, bounded, that complains of what is left over."""

    @functools.wraps(test)
    def run(**fixtures: Any) -> None:
        async def bounded() -> None:
            await asyncio.wait_for(test(**fixtures), PATIENCE)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(bounded(), debug=True)

    return run


@pytest.fixture
def where(shared: Daemon, transport: str) -> dict[str, Any]:
    return shared.where(transport)


@asynchronous
async def test_run(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session(shell="bash") as s:
        r = await s.run("echo out; echo err >&2; exit 3", timeout_s=60)
        assert (r.stdout, r.stderr, r.exit_code) == ("out\n", "err\n", 3)
        data = bytes(range(256)) * 1000
        assert (await s.run("cat", stdin=data)).stdout_data == data
        assert (await s.info()).command_count == 2
        assert [info.session_id for info in await t.sessions(state="idle")].count(s.id) == 1
        assert (await t.call("system.ping"))["version"]
        assert (await t.info()).api_version == 1
    with pytest.raises(trl.ConnectionLost):
        await s.info()


@asynchronous
async def test_await_instead_of_with(where: dict[str, Any]) -> None:
    t = await trl.aio.connect(**where)
    s = await t.session()
    assert (await (await t.get_session(s.id)).run("echo a")).stdout == "a\n"
    assert (await s.destroy()).state == "terminated"
    with pytest.raises(trl.TrlError) as e:
        await s.run("true")
    assert e.value.code in ("SESSION_TERMINATED", "SESSION_NOT_FOUND")
    await t.close()
    await t.close()


@asynchronous
async def test_opening_a_stream_starts_the_command(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session() as s:
        stream = s.stream("echo a")
        assert await s.execs() == []
        await stream.open()
        await stream.open()
        assert [x.exec_id for x in await s.execs()] == [stream.exec_id]
        assert [c.data async for c in stream] == ["a\n", ""]


@asynchronous
async def test_stream(where: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "data"
    async with trl.aio.connect(**where) as t, t.session() as s:
        stream = s.stream(f"head -c 3000000 /dev/urandom | tee {file}")
        digest = hashlib.sha256()
        async for c in stream:
            digest.update(c.data_bytes)
        assert digest.digest() == hashlib.sha256(file.read_bytes()).digest()
        assert stream.outcome is not None and stream.outcome.stdout_bytes == 3_000_000
        again = t.get_exec(stream.exec_id).stream()
        assert b"".join([c.data_bytes async for c in again]) == file.read_bytes()


@asynchronous
async def test_start_input_wait_output(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session(shell="bash") as s:
        x = await s.start("echo listening; while read l; do echo got $l; done", stdin_open=True)
        assert (await x.wait(output_match="listening")).reason == "output_match"
        await x.input("one\n")
        with pytest.raises(TimeoutError):
            await x.wait(timeout_s=0.02)
        await x.close_input()
        assert (await t.wait([x])).happened[0].reason == "exit"
        assert (await x.output(tail=8)).data == "got one\n"
        assert (await x.info()).outcome is not None
        assert [info.exec_id for info in await s.execs()] == [x.id]
        x = await s.start("sleep 1000")
        await x.cancel()
        assert (await x.wait()).outcome is not None
        running = asyncio.create_task(s.run("sleep 1000"))
        while (await s.info()).state != "running":
            await asyncio.sleep(0.01)
        await s.cancel()
        assert (await running).cancelled


@asynchronous
async def test_a_cancelled_run_ends_the_command(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session() as s:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(s.run("sleep 1000"), 0.3)
        assert (await s.run("echo next", wait=True)).stdout == "next\n"
        execs = await s.execs()
        assert execs[0].outcome is None or execs[0].outcome.cancelled or execs[0].command == "echo next"


@asynchronous
async def test_a_cancelled_step_loses_nothing(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session(shell="bash") as s:
        got = ""
        async with s.stream("for i in {1..40}; do echo $i; sleep 0.01; done") as stream:
            while stream.outcome is None:
                try:
                    got += (await asyncio.wait_for(stream.__anext__(), 0.005)).data
                except asyncio.TimeoutError:
                    pass
        assert got == "".join(f"{i}\n" for i in range(1, 41))


@asynchronous
async def test_many_streams_at_once(where: dict[str, Any]) -> None:
    async def work(t: trl.aio.Client, n: int) -> None:
        command = f"for i in 1 2 3 4 5; do echo {n} $i; done; head -c 50000 /dev/zero | tr '\\0' x"
        async with t.session() as s:
            text = "".join([c.data async for c in s.stream(command)])
            assert text == "".join(f"{n} {i}\n" for i in range(1, 6)) + "x" * 50_000

    async with trl.aio.connect(**where) as t:
        await asyncio.gather(*(work(t, n) for n in range(50)))


@asynchronous
async def test_leaving_the_loop_leaves_the_command(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.session() as s:
        stream = s.stream("echo first; read line; echo second", stdin_open=True)
        async for c in stream:
            assert c.data == "first\n"
            break
        x = t.get_exec(stream.exec_id)
        del stream
        await x.input("go\n")
        await x.wait()
        assert (await x.output()).data == "first\nsecond\n"


@asynchronous
async def test_events(where: dict[str, Any]) -> None:
    async with trl.aio.connect(**where) as t, t.events(types=["session.created"]) as events, t.session() as s:
        async for event in events:
            if event.session_id == s.id:
                assert event.type == "session.created"
                break


@asynchronous
async def test_the_error_of_the_body_is_seen(where: dict[str, Any]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with trl.aio.connect(**where) as t, t.session():
            raise ZeroDivisionError


@asynchronous
async def test_ephemeral_sessions_end_with_the_client(shared: Daemon) -> None:
    async with trl.aio.connect(shared.socket) as t:
        async with trl.aio.connect(shared.socket) as other:
            s = await other.session(ephemeral=True)
            assert (await s.run("true")).exit_code == 0
        while (await (await t.get_session(s.id)).info()).state != "terminated":
            await asyncio.sleep(0.01)
