"""Connections that are lost, and daemons of other versions: against a daemon that does as it is told."""

from __future__ import annotations

import asyncio
import json
import queue
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

import trl_client as trl
from conftest import PATIENCE, until
from fake import Conn, FakeDaemon, echo
from trl_client._resume import STARTING, STOPPING


def run(coroutine: Any) -> Any:
    """Run an asyncio test, bounded."""

    async def bounded() -> Any:
        return await asyncio.wait_for(coroutine, PATIENCE)

    return asyncio.run(bounded())


def hangs_up(conn: Conn) -> None:
    conn.request()


def streams(conn: Conn, *pushes: dict[str, Any], wanted: dict[str, Any] | None = None) -> None:
    """Answer the request of a stream, push, and go away."""
    r = conn.request()
    assert wanted is None or r["params"] == wanted, r
    conn.answer(r, stream_id="q", exec_id="x-1", session_id="s-1", since="tomorrow")
    for p in pushes:
        conn.say(stream_id="q", **p)


def idle(conn: Conn) -> None:
    """Say nothing until the client is gone."""
    conn.request()


def out(seq: int, data: str) -> dict[str, Any]:
    return {"seq": seq, "type": "stdout", "offset": seq - 1, "data": data, "hue": 7}


EXIT = {"seq": 4, "type": "exit", "exit_code": 3, "mood": "fine"}


def cut_and_resumed() -> list[Callable[[Conn], None]]:
    """The connections of a stream that is cut twice, by a daemon that repeats one push and is newer."""
    return [
        idle,
        lambda c: streams(c, out(1, "a"), {"seq": 2, "type": "weather", "data": "rain"}),
        lambda c: streams(c, out(1, "a"), out(3, "c"), wanted={"exec_id": "x-1", "after_seq": 2}),
        lambda c: streams(c, EXIT, wanted={"exec_id": "x-1", "after_seq": 3}),
    ]


def test_a_stream_reads_on_where_it_was_cut() -> None:
    with FakeDaemon(*cut_and_resumed()) as fake, trl.connect(fake.path) as t:
        stream = trl.Session(t, "s-1").stream("make")
        assert [(e.type, e.data) for e in stream] == [("stdout", "a"), ("stdout", "c"), ("exit", "")]
        assert stream.outcome is not None and stream.outcome.exit_code == 3
        assert (stream.exec_id, stream.seq) == ("x-1", 4)
        assert list(stream) == []


def test_a_stream_reads_on_where_it_was_cut_aio() -> None:
    async def main() -> None:
        with FakeDaemon(*cut_and_resumed()) as fake:
            async with trl.aio.connect(fake.path) as t:
                stream = trl.aio.Session(t, "s-1").stream("make")
                assert [(e.type, e.data) async for e in stream] == [("stdout", "a"), ("stdout", "c"), ("exit", "")]
                assert stream.outcome is not None and stream.outcome.exit_code == 3
                assert [e async for e in stream] == []

    run(main())


def test_output_comes_as_bytes() -> None:
    """And is cut in the middle of them."""

    def raw(conn: Conn, *pushes: tuple[int, int, bytes], cut: int | None = None) -> None:
        r = conn.request()
        assert r["raw"] is True
        conn.answer(r, stream_id="q", exec_id="x-1", session_id="s-1")
        for seq, offset, data in pushes:
            line = {"stream_id": "q", "seq": seq, "type": "stdout", "offset": offset, "raw": len(data)}
            conn.sock.sendall(json.dumps(line).encode() + b"\n" + data[:cut])

    def rest(conn: Conn) -> None:
        raw(conn, (1, 0, b"\n{"), (2, 2, b"\xff\xfe"))
        conn.say(stream_id="q", seq=3, type="stdout", offset=4, data="text")  # and as JSON, as an older daemon does
        conn.say(stream_id="q", **EXIT)

    serve = [idle, lambda c: raw(c, (1, 0, b"\n{")), lambda c: raw(c, (2, 2, b"\xff\xfe"), cut=1), rest]
    with FakeDaemon(*serve) as fake, trl.connect(fake.path) as t:
        stream = trl.Session(t, "s-1").stream("make")
        assert [(e.type, e.data_bytes) for e in stream] == [
            ("stdout", b"\n{"), ("stdout", b"\xff\xfe"), ("stdout", b"text"), ("exit", b"")]

    async def main() -> None:
        with FakeDaemon(*serve) as fake:
            async with trl.aio.connect(fake.path) as t:
                stream = trl.aio.Session(t, "s-1").stream("make")
                assert [e.data_bytes async for e in stream] == [b"\n{", b"\xff\xfe", b"text", b""]

    run(main())


def test_a_daemon_that_shuts_down_is_waited_for() -> None:
    def says_goodbye(conn: Conn) -> None:
        streams(conn, out(1, "a"), {"seq": 1, "type": "error", "error": {"code": "RUNTIME_UNAVAILABLE", "message": "m", "details": {"reason": STOPPING}}})

    def not_yet(conn: Conn) -> None:
        r = conn.request()
        conn.say(id=r["id"], ok=False, error={"code": "RUNTIME_UNAVAILABLE", "message": "m", "details": {"reason": STOPPING}})

    with FakeDaemon(idle, says_goodbye, not_yet, lambda c: streams(c, EXIT)) as fake, trl.connect(fake.path) as t:
        assert [e.type for e in trl.Session(t, "s-1").stream("make")] == ["stdout", "exit"]


def test_a_daemon_that_starts_is_waited_for() -> None:
    def not_yet(conn: Conn) -> None:
        for _ in range(2):
            r = conn.request()
            conn.say(id=r["id"], ok=False, error={"code": "RUNTIME_UNAVAILABLE", "message": "m", "details": {"reason": STARTING}})

    with FakeDaemon(not_yet, echo) as fake, trl.connect(fake.path) as t:
        assert trl.Session(t, "s-1").run("make").exec_id == "x-1"
    with FakeDaemon(idle, not_yet, lambda c: streams(c, EXIT)) as fake, trl.connect(fake.path) as t:
        assert [e.type for e in trl.Session(t, "s-1").stream("make")] == ["exit"]


def test_other_errors_end_a_stream() -> None:
    def breaks(conn: Conn) -> None:
        streams(conn, out(1, "a"), {"seq": 1, "type": "error", "error": {"code": "INTERNAL_ERROR", "message": "m"}})

    with FakeDaemon(idle, breaks) as fake, trl.connect(fake.path) as t:
        stream = trl.Session(t, "s-1").stream("make")
        assert next(stream).data == "a"
        with pytest.raises(trl.TrlError) as e:
            next(stream)
        assert e.value.code == "INTERNAL_ERROR"


def test_without_reconnect_the_error_says_where_to_go_on() -> None:
    with FakeDaemon(idle, lambda c: streams(c, out(1, "a"))) as fake, trl.connect(fake.path, reconnect=False) as t:
        stream = trl.Session(t, "s-1").stream("make")
        assert next(stream).data == "a"
        for _ in range(2):
            with pytest.raises(trl.ConnectionLost) as e:
                next(stream)
            assert e.value.details == {"exec_id": "x-1", "after_seq": 1}


def test_patience_ends() -> None:
    with FakeDaemon(idle, lambda c: streams(c, out(1, "a")), hangs_up) as fake, trl.connect(fake.path, patience_s=0.2) as t:
        stream = trl.Session(t, "s-1").stream("make")
        assert next(stream).data == "a"
        with pytest.raises(trl.ConnectionLost):
            next(stream)


def serve_once_more(seen: queue.SimpleQueue[Any]) -> list[Callable[[Conn], None]]:
    def note(conn: Conn) -> None:
        seen.put(conn.request())

    def note_and_answer(conn: Conn) -> None:
        r = conn.request()
        seen.put(r)
        conn.answer(r, version="2", exec_id="x-1")

    return [note, note_and_answer]


def drained(seen: queue.SimpleQueue[Any]) -> list[Any]:
    items = []
    while not seen.empty():
        items.append(seen.get())
    return items


def test_what_does_no_harm_is_asked_again() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with FakeDaemon(*serve_once_more(seen)) as fake, trl.connect(fake.path) as t:
        assert t.info().version == "2"
        assert [r["method"] for r in drained(seen)] == ["system.info"] * 2
    with FakeDaemon(*serve_once_more(seen)) as fake, trl.connect(fake.path) as t:
        t.get_exec("x-1").input("y\n")
        first, second = drained(seen)
        assert first["params"] == second["params"] and first["params"]["write_id"]


def test_what_does_no_harm_is_asked_again_aio() -> None:
    async def main() -> None:
        seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with FakeDaemon(*serve_once_more(seen)) as fake:
            async with trl.aio.connect(fake.path) as t:
                assert (await t.info()).version == "2"
        assert [r["method"] for r in drained(seen)] == ["system.info"] * 2

    run(main())


@pytest.mark.parametrize("call", [
    lambda t: trl.Session(t, "s").run("rm x"),
    lambda t: trl.Session(t, "s").start("rm x"),
    lambda t: trl.Session(t, "s").stream("rm x").open(),
])
def test_a_command_is_asked_for_again_with_its_id(call: Callable[[trl.Client], object]) -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def answer_the_second(conn: Conn) -> None:
        r = conn.request()
        seen.put(r)
        if seen.qsize() < 2:
            raise EOFError
        conn.answer(r, exec_id="x-1")

    with FakeDaemon(answer_the_second) as fake, trl.connect(fake.path) as t:
        call(t)
        first, second = drained(seen)
        assert first["params"]["run_id"] and first["params"] == second["params"]


@pytest.mark.parametrize("call", [
    lambda t: t.session(),
    lambda t: t.call("exec.input", {"exec_id": "x", "data": "y"}),
])
def test_a_command_is_never_repeated(call: Callable[[trl.Client], object]) -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def note(conn: Conn) -> None:
        while True:
            r = conn.request()
            seen.put(r)
            raise EOFError

    with FakeDaemon(note) as fake, trl.connect(fake.path) as t:
        with pytest.raises(trl.ConnectionLost):
            call(t)
        assert len(drained(seen)) == 1


def test_a_connection_that_ended_while_idle_is_not_used() -> None:
    closing = threading.Event()

    def one_answer(conn: Conn) -> None:
        r = conn.request()
        conn.answer(r, exec_id="x-1")
        closing.wait(PATIENCE)

    with FakeDaemon(one_answer, echo) as fake, trl.connect(fake.path) as t:
        t.call("system.ping")
        closing.set()
        fake._threads[1].join(PATIENCE)
        assert trl.Session(t, "s").run("once").exec_id == "x-1"


def test_a_connection_that_ended_while_idle_is_not_used_aio() -> None:
    closing = threading.Event()

    def one_answer(conn: Conn) -> None:
        r = conn.request()
        conn.answer(r, exec_id="x-1")
        closing.wait(PATIENCE)

    async def main() -> None:
        with FakeDaemon(one_answer, echo) as fake:
            async with trl.aio.connect(fake.path) as t:
                await t.call("system.ping")
                closing.set()
                fake._threads[1].join(PATIENCE)  # the loop has had no chance to notice
                assert (await trl.aio.Session(t, "s").run("once")).exec_id == "x-1"

    run(main())


def test_newer_answers_are_understood() -> None:
    with FakeDaemon(echo) as fake, trl.connect(fake.path) as t:
        assert t.call("future.method", {"a": [1]})["params"] == {"a": [1]}
        result = trl.Session(t, "s").run("x")
        assert (result.exec_id, result.exit_code, result.stdout, result.left_running) == ("x-1", 0, "", [])
        assert t.sessions() == []


def test_a_refused_connection_says_why() -> None:
    def refuse(conn: Conn) -> None:
        conn.request()
        conn.say(id=None, ok=False, error={"code": "RESOURCE_PRESSURE", "message": "too many connections"})

    with FakeDaemon(refuse) as fake, trl.connect(fake.path) as t:
        with pytest.raises(trl.TrlError) as e:
            t.call("system.ping")
        assert e.value.code == "RESOURCE_PRESSURE"


def test_nobody_there() -> None:
    with pytest.raises(trl.ConnectionLost) as e:
        trl.connect("/nonexistent/trl.sock")
    assert e.value.message == "daemon at /nonexistent/trl.sock: no such file or directory"
    with pytest.raises(trl.ConnectionLost):
        trl.connect(stdio=["/nonexistent/trl"])
    with pytest.raises(trl.ConnectionLost):
        trl.connect(url="http://127.0.0.1:1")

    async def main(**where: Any) -> None:
        with pytest.raises(trl.ConnectionLost):
            await trl.aio.connect(**where)

    run(main(socket="/nonexistent/trl.sock"))
    run(main(stdio=["/nonexistent/trl"]))
    run(main(url="http://127.0.0.1:1"))


def test_a_program_that_is_no_daemon() -> None:
    with trl.connect(stdio=["echo", "hello"], reconnect=False) as t:
        with pytest.raises(trl.ConnectionLost):
            t.call("system.ping")


def interrupt() -> None:
    """Ctrl-C."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupt_gives_the_connection_up() -> None:
    gone: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def interrupts(conn: Conn) -> None:
        conn.request()
        interrupt()
        gone.put(conn.gone())

    with FakeDaemon(interrupts, echo) as fake, trl.connect(fake.path) as t:
        with pytest.raises(KeyboardInterrupt):
            trl.Session(t, "s").run("sleep 100")
        assert gone.get(timeout=PATIENCE)
        assert t.call("system.ping")["version"] == "9"


def test_an_interrupted_stream_goes_on() -> None:
    taken = threading.Event()
    gone: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def interrupts(conn: Conn) -> None:
        streams(conn, out(1, "a"))
        taken.wait(PATIENCE)
        conn.sock.sendall(b'{"half a')
        until(lambda: conn.unread() == 0, "read")
        interrupt()
        gone.put(conn.gone())

    with FakeDaemon(idle, interrupts, lambda c: streams(c, EXIT, wanted={"exec_id": "x-1", "after_seq": 1})) as fake, \
            trl.connect(fake.path) as t:
        stream = trl.Session(t, "s").stream("x")
        assert next(stream).data == "a"
        with pytest.raises(KeyboardInterrupt):
            taken.set()
            next(stream)
        assert gone.get(timeout=PATIENCE)
        assert [e.type for e in stream] == ["exit"]


def test_close_ends_what_other_threads_wait_for() -> None:
    waiting = threading.Barrier(3)

    def silent(conn: Conn) -> None:
        r = conn.request()
        if r["method"] == "exec.stream":
            conn.answer(r, stream_id="q", exec_id="x-1")
        waiting.wait(PATIENCE)
        conn.gone()

    ended: queue.SimpleQueue[object] = queue.SimpleQueue()
    with FakeDaemon(silent) as fake:
        t = trl.connect(fake.path)

        def call() -> None:
            try:
                t.call("exec.wait")
            except trl.ConnectionLost as e:
                ended.put(e)

        def read() -> None:
            try:
                list(trl.Session(t, "s").stream("x"))
            except trl.ConnectionLost as e:
                ended.put(e)

        threads = [threading.Thread(target=f) for f in (call, read)]
        for thread in threads:
            thread.start()
        waiting.wait(PATIENCE)
        t.close()
        for thread in threads:
            thread.join(PATIENCE)
        assert [type(ended.get_nowait()) for _ in threads] == [trl.ConnectionLost] * 2
        with pytest.raises(trl.ConnectionLost):
            t.call("system.ping")


def test_a_stream_that_begins_while_the_client_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(conn: Conn) -> None:
        streams(conn)
        conn.gone()

    with FakeDaemon(silent) as fake:
        t = trl.connect(fake.path)
        dial = t._pool.dial_patiently

        def dial_and_close(patience_s: float, again: bool = False) -> Any:
            lane = dial(patience_s, again)
            t.close()
            return lane

        monkeypatch.setattr(t._pool, "dial_patiently", dial_and_close)
        with pytest.raises(trl.ConnectionLost):
            trl.Session(t, "s").stream("x").open()


def test_a_cancelled_task_gives_the_connection_up() -> None:
    async def main() -> None:
        loop, asked, gone = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()

        def slow(conn: Conn) -> None:
            conn.request()
            loop.call_soon_threadsafe(asked.set)
            if conn.gone():
                loop.call_soon_threadsafe(gone.set)

        with FakeDaemon(slow, echo) as fake:
            async with trl.aio.connect(fake.path) as t:
                task = asyncio.create_task(trl.aio.Session(t, "s").run("sleep 100"))
                await asked.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await gone.wait()
                assert (await t.call("system.ping"))["version"] == "9"

    run(main())


def test_a_cancelled_step_loses_nothing() -> None:
    async def main() -> None:
        go = threading.Event()

        def slow(conn: Conn) -> None:
            streams(conn)
            go.wait(PATIENCE)
            conn.say(stream_id="q", **out(1, "a"))
            conn.say(stream_id="q", **EXIT)
            conn.gone()

        with FakeDaemon(idle, slow) as fake:
            async with trl.aio.connect(fake.path) as t, trl.aio.Session(t, "s").stream("x") as stream:
                for _ in range(3):
                    with pytest.raises(asyncio.TimeoutError):
                        await asyncio.wait_for(stream.__anext__(), 0.02)
                go.set()
                assert [e.type async for e in stream] == ["stdout", "exit"]

    run(main())


def test_close_ends_what_other_tasks_wait_for() -> None:
    async def main() -> None:
        loop, asked = asyncio.get_running_loop(), asyncio.Semaphore(0)

        def silent(conn: Conn) -> None:
            r = conn.request()
            if r["method"] == "exec.stream":
                conn.answer(r, stream_id="q", exec_id="x-1")
            loop.call_soon_threadsafe(asked.release)
            conn.gone()

        with FakeDaemon(silent) as fake:
            t = await trl.aio.connect(fake.path)
            stream = trl.aio.Session(t, "s").stream("x")

            async def read() -> list[trl.StreamEvent]:
                return [e async for e in stream]

            call, reading = asyncio.create_task(t.call("exec.wait")), asyncio.create_task(read())
            await asked.acquire()
            await asked.acquire()
            await t.close()
            ended = await asyncio.gather(call, reading, return_exceptions=True)
            assert [type(e) for e in ended] == [trl.ConnectionLost] * 2

    run(main())


def test_leaving_a_loop_frees_the_connection() -> None:
    gone: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def endless(conn: Conn) -> None:
        streams(conn, out(1, "a"))
        gone.put(conn.gone())

    with FakeDaemon(idle, endless) as fake, trl.connect(fake.path) as t:
        for event in trl.Session(t, "s").stream("x"):
            assert event.data == "a"
            break
        assert gone.get(timeout=PATIENCE)

    async def main() -> None:
        with FakeDaemon(idle, endless) as fake:
            async with trl.aio.connect(fake.path) as t:
                async for event in trl.aio.Session(t, "s").stream("x"):
                    assert event.data == "a"
                    break
                loop = asyncio.get_running_loop()
                assert await loop.run_in_executor(None, lambda: gone.get(timeout=PATIENCE))

    run(main())


def test_ephemeral_sessions_keep_their_connection() -> None:
    ended: queue.SimpleQueue[str] = queue.SimpleQueue()

    def note(conn: Conn) -> None:
        asked = ""
        try:
            while True:
                r = conn.request()
                asked += r["method"] + " "
                conn.answer(r, session_id="s-1")
        finally:
            ended.put(asked)

    with FakeDaemon(note) as fake, trl.connect(fake.path) as t:
        s = t.session(ephemeral=True)
        s.info()
        s.destroy()
        s.info()
    conversations = sorted(ended.get(timeout=PATIENCE) for _ in range(2))
    assert conversations == ["session.create session.info ", "session.info session.destroy "]



def unowned(seen: queue.SimpleQueue[Any]) -> list[Callable[[Conn], None]]:
    """The connections of a client whose daemon goes away, and cannot be told at once who owns a session."""

    def answer_one(conn: Conn) -> None:
        r = conn.request()
        seen.put((r["method"], r["params"]))
        conn.answer(r, session_id="s-1", version="1")

    def not_yet(conn: Conn) -> None:
        r = conn.request()
        conn.say(id=r["id"], ok=False, error={"code": "RUNTIME_UNAVAILABLE", "message": "m", "details": {"reason": STARTING}})

    return [answer_one, echo, not_yet, answer_one]


def test_an_ephemeral_session_is_owned_again_when_the_daemon_has_started() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with FakeDaemon(*unowned(seen)) as fake, trl.connect(fake.path) as t:
        t.session(ephemeral=True)
        until(lambda: t._pool._bound["s-1"].stale(), "the daemon goes away")
        for _ in range(2):
            t.info()
        assert drained(seen) == [("session.create", {"ephemeral": True}), ("session.own", {"session_id": "s-1"})]


def test_an_ephemeral_session_is_owned_again_when_the_daemon_has_started_aio() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def main() -> None:
        with FakeDaemon(*unowned(seen)) as fake:
            async with trl.aio.connect(fake.path) as t:
                await t.session(ephemeral=True)
                while not t._pool._bound["s-1"].stale():
                    await asyncio.sleep(0.01)
                for _ in range(2):
                    await t.info()
        assert drained(seen) == [("session.create", {"ephemeral": True}), ("session.own", {"session_id": "s-1"})]

    run(main())


def owned_late(seen: queue.SimpleQueue[Any], own: Callable[[Conn], None]) -> list[Callable[[Conn], None]]:
    """The connections of a client that cannot own its session at once: own serves the first attempt."""

    def answer_one(conn: Conn) -> None:
        r = conn.request()
        seen.put((r["method"], r["params"]))
        conn.answer(r, session_id="s-1", version="1")

    return [answer_one, echo, own, answer_one, echo]


OWNED_LATE = [("session.create", {"ephemeral": True}), ("session.own", {"session_id": "s-1"})]


def test_an_interrupt_does_not_lose_an_ephemeral_session() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def interrupts(conn: Conn) -> None:
        conn.request()
        interrupt()
        conn.gone()

    with FakeDaemon(*owned_late(seen, interrupts)) as fake, trl.connect(fake.path) as t:
        t.session(ephemeral=True)
        until(lambda: t._pool._bound["s-1"].stale(), "the daemon goes away")
        with pytest.raises(KeyboardInterrupt):
            t.info()
        t.info()
        assert drained(seen) == OWNED_LATE


def test_a_cancelled_task_does_not_lose_an_ephemeral_session() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    async def main() -> None:
        loop, asked = asyncio.get_running_loop(), asyncio.Event()

        def silent(conn: Conn) -> None:
            conn.request()
            loop.call_soon_threadsafe(asked.set)
            conn.gone()

        with FakeDaemon(*owned_late(seen, silent)) as fake:
            async with trl.aio.connect(fake.path) as t:
                await t.session(ephemeral=True)
                while not t._pool._bound["s-1"].stale():
                    await asyncio.sleep(0.01)
                task = asyncio.create_task(t.info())
                await asked.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await t.info()
        assert drained(seen) == OWNED_LATE

    run(main())


def test_a_closed_client_owns_no_session() -> None:
    asked, closed = threading.Event(), threading.Event()
    gone: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def late(conn: Conn) -> None:
        r = conn.request()
        asked.set()
        closed.wait(PATIENCE)
        conn.answer(r, session_id="s-1")
        gone.put(conn.gone())

    def call(t: trl.Client) -> None:
        with pytest.raises(trl.ConnectionLost):
            t.info()

    with FakeDaemon(*owned_late(queue.SimpleQueue(), late)) as fake:
        t = trl.connect(fake.path)
        t.session(ephemeral=True)
        until(lambda: t._pool._bound["s-1"].stale(), "the daemon goes away")
        caller = threading.Thread(target=call, args=(t,))
        caller.start()
        assert asked.wait(PATIENCE)
        t.close()
        closed.set()
        caller.join(PATIENCE)
        assert gone.get(timeout=PATIENCE)
        assert not t._pool._bound
