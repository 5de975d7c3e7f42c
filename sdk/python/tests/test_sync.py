"""The synchronous client against the real daemon, over every transport."""

from __future__ import annotations

import hashlib
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

import trl_client as trl
from conftest import PATIENCE, Daemon, until


@pytest.fixture
def t(shared: Daemon, transport: str) -> Iterator[trl.Client]:
    with trl.connect(**shared.where(transport)) as client:
        yield client


@pytest.fixture
def s(t: trl.Client) -> Iterator[trl.Session]:
    with t.session(shell="bash") as session:
        yield session


def test_run(s: trl.Session) -> None:
    r = s.run("echo out; echo err >&2; exit 3", timeout_s=60)
    assert (r.stdout, r.stderr, r.exit_code, r.timed_out) == ("out\n", "err\n", 3, False)
    assert r.session_id == s.id and r.exec_id
    s.run("cd /; X=5")
    assert s.run("pwd; echo $X").stdout == "/\n5\n"
    assert s.run('echo "$A"', env={"A": "ü"}, working_dir="/tmp").stdout == "ü\n"
    assert s.run("").exit_code == 0


def test_a_list_is_a_program_beside_the_shell(t: trl.Client, s: trl.Session) -> None:
    busy = s.start("X=1; sleep 100")
    r = s.run(["sh", "-c", 'cat; echo "[$X] $1"; echo err >&2; exit 4', "sh", "a  b"], stdin="in ", merge=True)
    assert (r.stdout, r.stderr, r.exit_code) == ("in [] a  b\nerr\n", "", 4)
    assert s.run(["stty", "size"], pty={"cols": 91, "rows": 17}).stdout == "17 91\r\n"
    x = s.start(["sleep", "100"])
    pid = x.info().pid
    assert [p.pid for p in x.signal("INT").processes] == [pid]
    x.wait()
    outcome = x.info().outcome
    assert outcome is not None and outcome.signal == "SIGINT"
    tty = s.start(["sh", "-c", "read a; stty size"], pty={"cols": 80, "rows": 24})
    tty.resize(50, 5)
    tty.input("\n")
    with tty.stream() as stream:
        assert "".join(c.data for c in stream) == "\r\n5 50\r\n"
    busy.cancel("KILL")
    with t.session(shell="none") as bare:
        assert bare.run(["echo", "$HOME"]).stdout == "$HOME\n"


def test_a_timeout_is_a_result(s: trl.Session) -> None:
    r = s.run("echo before; sleep 100", timeout_s=0.2)
    assert (r.timed_out, r.exit_code, r.stdout) == (True, 124, "before\n")


def test_bytes_are_exact(s: trl.Session) -> None:
    data = bytes(range(256)) * 100
    r = s.run("tee /dev/stderr", stdin=data)
    assert r.stdout_data == data and r.stderr_data == data and "\ufffd" in r.stdout
    assert s.run("cat", stdin="open").stdout == "open"
    assert s.run("cat", stdin="a\nü").stdout_data == "a\nü".encode()
    assert s.run("cat").stdout == ""
    with s.stream("cat", stdin="open") as stream:
        assert "".join(c.data for c in stream) == "open"


def test_errors_have_a_code(t: trl.Client, s: trl.Session) -> None:
    for call, code in (
        (lambda: t.get_session("nobody"), "SESSION_NOT_FOUND"),
        (lambda: t.session(shell="/no/shell"), "SHELL_NOT_FOUND"),
        (lambda: t.call("no.method"), "METHOD_NOT_FOUND"),
        (lambda: s.run("x\0y"), "INVALID_PARAMS"),
        (lambda: t.get_exec("x-none-1").info(), "EXEC_NOT_FOUND"),
        (lambda: t.get_exec("x-none-1").stream().open(), "EXEC_NOT_FOUND"),
        (lambda: s.run("x\udcff"), "INVALID_PARAMS"),
    ):
        with pytest.raises(trl.TrlError) as e:
            call()
        assert e.value.code == code and e.value.message
    assert s.run("echo fine").stdout == "fine\n"


def test_sessions(t: trl.Client) -> None:
    with t.session(name="python-build", tags=["py"], env={"K": "v"}) as s:
        details = t.get_session("python-build").info()
        assert (details.session_id, details.env_keys, details.state) == (s.id, ["K"], "idle")
        assert abs((datetime.now(timezone.utc) - details.created_at).total_seconds()) < 3600
        assert [info.session_id for info in t.sessions(tags=["py"], state="idle")] == [s.id]
        assert s.destroy(force=True).state == "terminated"
    assert t.sessions(tags=["py"], state="idle") == []
    with pytest.raises(ZeroDivisionError):
        with t.session() as s:
            raise ZeroDivisionError
    assert s.info().state == "terminated"
    assert isinstance(t.call("session.list")["sessions"], list)


def test_stream(t: trl.Client, s: trl.Session) -> None:
    stream = s.stream("echo a; echo b >&2; exit 3")
    events = list(stream)
    assert {(e.type, e.data) for e in events[:-1]} == {("stdout", "a\n"), ("stderr", "b\n")}
    assert (events[-1].type, events[-1].exit_code) == ("exit", 3)
    assert stream.outcome is not None and stream.outcome.exit_code == 3
    again = t.get_exec(stream.exec_id)
    assert [(e.seq, e.type, e.data) for e in again.stream()] == [(e.seq, e.type, e.data) for e in events]
    assert [e.seq for e in again.stream(after_seq=events[0].seq)] == [e.seq for e in events[1:]]
    assert [e.data for e in again.stream(from_offset=1, stream="stdout")][:-1] == ["\n"]


def test_output_comes_while_the_command_runs(s: trl.Session) -> None:
    with s.stream("echo ready; read line; echo got $line", stdin_open=True) as stream:
        assert next(stream).data == "ready\n"
        s._client.get_exec(stream.exec_id).input("it\n")
        assert "".join(c.data for c in stream) == "got it\n"


def test_large_binary_stream(s: trl.Session, transport: str, tmp_path: Path) -> None:
    file = tmp_path / "data"
    stream = s.stream(f"head -c 6000000 /dev/urandom | tee {file}")
    digest, size = hashlib.sha256(), 0
    for c in stream:
        assert c.type in ("stdout", "exit")
        assert c.type == "exit" or c.offset == size
        assert c.type == "exit" or ("_raw" in c.__dict__) is (transport != "http")
        digest.update(c.data_bytes)
        size += len(c.data_bytes)
    assert size == 6_000_000 and digest.digest() == hashlib.sha256(file.read_bytes()).digest()


def test_opening_a_stream_starts_the_command(s: trl.Session) -> None:
    stream = s.stream("echo a")
    assert s.execs() == []
    stream.open()
    stream.open()
    assert [x.exec_id for x in s.execs()] == [stream.exec_id]
    assert [c.data for c in stream] == ["a\n", ""]
    with s.stream("echo b") as entered:
        assert [x.exec_id for x in s.execs()] == [stream.exec_id, entered.exec_id]


def test_leaving_the_loop_leaves_the_command(t: trl.Client, s: trl.Session) -> None:
    stream = s.stream("echo first; read line; echo second", stdin_open=True)
    for c in stream:
        assert c.data == "first\n"
        break
    x = t.get_exec(stream.exec_id)
    del stream, c
    x.input("go\n")
    assert x.wait().reason == "exit"
    assert x.output().data == "first\nsecond\n"


def test_start_input_wait_output(s: trl.Session) -> None:
    x = s.start("echo listening; while read l; do echo got $l; done; echo bye", stdin_open=True)
    event = x.wait(output_match="^listen")
    assert event.reason == "output_match" and event.match is not None and event.match.text == "listening"
    assert x.input("one\n", write_id="w1").stdin_bytes == 4
    assert x.input("one\n", write_id="w1").repeated
    assert x.wait(output_match="got", after_seq=event.seq).reason == "output_match"
    with pytest.raises(TimeoutError):
        x.wait(timeout_s=0.02)
    assert x.info().state == "running"
    assert x.close_input().closed
    outcome = x.wait().outcome
    assert outcome is not None and outcome.exit_code == 0
    assert x.output().data == "listening\ngot one\nbye\n"
    assert x.output(tail=4).data == "bye\n" and x.output(tail=4).data_bytes == b"bye\n"
    assert [line.text for line in x.output(grep="^got").lines] == ["got one"]
    assert [info.exec_id for info in s.execs()] == [x.id]
    with pytest.raises(trl.TrlError) as e:
        x.input("late\n")
    assert e.value.code


def test_wait_for_several(t: trl.Client) -> None:
    with t.session(shell="bash") as a, t.session(shell="bash") as b:
        slow, fast = a.start("read x", stdin_open=True), b.start("true")
        assert [e.exec_id for e in t.wait([slow, fast]).happened] == [fast.id]
        result = t.wait([slow, fast], all=True, timeout_s=0.02)
        assert result.timed_out and result.pending == [slow.id]
        slow.close_input()
        assert {e.exec_id for e in t.wait([slow, fast], all=True).happened} == {slow.id, fast.id}


def test_cancel(s: trl.Session) -> None:
    x = s.start("sleep 1000")
    x.cancel()
    outcome = x.wait().outcome
    assert outcome is not None and (outcome.cancelled, outcome.exit_code) == (True, 130)


def test_cancel_from_another_thread(s: trl.Session) -> None:
    with ThreadPoolExecutor(1) as threads:
        running = threads.submit(s.run, "sleep 1000")
        until(lambda: s.info().state == "running", "running")
        s.cancel("KILL")
        assert running.result(PATIENCE).cancelled


def test_an_interrupt_ends_the_command(s: trl.Session) -> None:
    def interrupt() -> None:
        until(lambda: s.info().state == "running", "running")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        s.run("sleep 1000")
    thread.join(PATIENCE)
    assert s.run("echo next", wait=True).stdout == "next\n"
    outcome = s.execs()[0].outcome
    assert outcome is not None and outcome.cancelled


def test_threads_share_a_client(t: trl.Client) -> None:
    def work(n: int) -> str:
        with t.session() as s:
            for _ in range(5):
                s.run(f"echo {n}")
            return "".join(c.data for c in s.stream(f"for i in 1 2 3; do echo {n}; done"))

    with ThreadPoolExecutor(16) as threads:
        assert list(threads.map(work, range(32))) == [f"{n}\n" * 3 for n in range(32)]


def test_events(t: trl.Client) -> None:
    with t.session() as s, t.events(session_id=s.id, after_seq=0) as events:
        s.run("true")
        seen = []
        for event in events:
            assert event.session_id == s.id and event.at is not None
            seen.append(event.type)
            if event.type == "exec.exited":
                assert event.exit_code == 0
                break
        assert seen[0] == "session.created"
        last = events.seq
    with t.events(session_id=s.id, after_seq=last) as rest:
        for event in rest:
            if event.type == "session.terminated":
                break


def test_ephemeral_sessions_end_with_the_client(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t, trl.connect(shared.socket) as other:
        s = other.session(ephemeral=True)
        assert s.run("true").exit_code == 0
        assert t.get_session(s.id).info().ephemeral
        other.close()
        until(lambda: t.get_session(s.id).info().state == "terminated", "terminated")


def test_close_twice(shared: Daemon, transport: str) -> None:
    t = trl.connect(**shared.where(transport))
    stream = t.events()
    stream.open()
    t.close()
    t.close()
    with pytest.raises(trl.ConnectionLost):
        t.call("system.ping")
    with pytest.raises(trl.ConnectionLost):
        next(stream)
    stream.close()
    assert list(stream) == []


def test_calls_within_a_loop_over_a_flood(t: trl.Client) -> None:
    """A loop that is far behind gets everything, and holds up nobody."""
    with t.session() as flooding, t.session() as other:
        size = 0
        for n, c in enumerate(flooding.stream("head -c 30000000 /dev/zero | tr '\\0' x")):
            assert c.type != "gap"
            if n % 100 == 0:
                assert other.run("sleep 0.05; echo here").stdout == "here\n"
            size += len(c.data)
        assert size == 30_000_000


def test_the_command_waits_for_a_slow_reader() -> None:
    """Nothing is lost, although the daemon keeps little of the output."""
    daemon = Daemon("--output-bytes", "65536")
    try:
        with trl.connect(daemon.socket) as t, t.session() as s:
            size = 0
            for n, c in enumerate(s.stream("head -c 10000000 /dev/zero | tr '\\0' x")):
                assert c.type != "gap"
                size += len(c.data)
                if n % 20 == 0:
                    time.sleep(0.001)
            assert size == 10_000_000
    finally:
        daemon.remove()


def test_info(t: trl.Client) -> None:
    info: Any = t.info()
    assert info.api_version == trl.types.API_VERSION
    assert set(trl.types.METHODS) <= set(info.methods)


def test_a_session_gets_another_name(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t, t.session(name="old-name", tags=["a"]) as s, t.session(name="taken-name"):
        assert (s.set(name="new-name").name, s.set(tags=["b"]).tags) == ("new-name", ["b"])
        assert t.get_session("new-name").id == s.id
        with pytest.raises(trl.Conflict):
            s.set(name="taken-name")
        with pytest.raises(trl.InvalidParams):
            s.set()
        assert s.set(name="").name == ""
