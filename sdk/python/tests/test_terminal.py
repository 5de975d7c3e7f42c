"""Terminals and programs with both clients against the real daemon."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

import trl_client as trl
from conftest import Daemon, until

SHELL: dict[str, Any] = {"command": ["sh"], "env": {"PS1": "$ "}, "cols": 40, "rows": 6}


@pytest.fixture
def t(shared: Daemon, transport: str) -> Iterator[trl.Client]:
    with trl.connect(**shared.where(transport)) as client:
        yield client


def test_text_keys_and_screen(t: trl.Client) -> None:
    with t.terminal(**SHELL) as term:
        term.wait(cursor={"x": 2, "y": 0})
        version = term.screen().version
        assert term.input("echo hal", write_id="w").bytes == 8
        assert term.input("echo hal", write_id="w").repeated
        term.input(b"lo", keys=["enter"])
        found = term.wait(text="^hal(.*)", since_version=version, timeout_s=30)
        assert (found.reason, found.match, found.groups) == ("text", "hallo", ["hallo", "lo"])
        term.wait(cursor={"x": 2, "y": 2})
        screen = term.screen()
        assert screen.text.startswith("$ echo hallo\nhallo\n$")
        assert (screen.cols, screen.rows, screen.cursor.x, screen.cursor.y) == (40, 6, 2, 2)
        assert term.screen(format="cells").lines[1].cells[0].text == "hallo"
        with pytest.raises(TimeoutError):
            term.wait(text="never", timeout_s=0.01)
        assert term.resize(50, 7).applied
        term.input("stty size\r")
        term.wait(text="^7 50$")
        term.wait(cursor={"x": 2, "y": 4})
        term.paste("echo pasted")
        term.keys("enter")
        term.wait(text="^pasted$")
        term.wait(cursor={"x": 2, "y": 6})
        again = t.get_terminal(term.id)
        again.input("exit 5", keys=["enter"])
        assert again.wait(exit=True).exit_code == 5
        assert "pasted\n$ exit 5" in term.screen().text
        assert b"pasted\r\n" in term.exec.output().data_bytes
        details = term.info()
        assert (details.kind, details.state, details.exit_code) == ("terminal", "terminated", 5)
        with pytest.raises(trl.TrlError) as e:
            term.input("late")
        assert e.value.code == "SESSION_TERMINATED"


def test_viewer(t: trl.Client) -> None:
    with t.terminal(**SHELL) as term:
        term.wait(cursor={"x": 2, "y": 0})
        with term.attach(size={"cols": 60, "rows": 9}) as viewer:
            first = next(viewer)
            assert (first.type, first.cols, first.rows, first.offset) == ("snapshot", 60, 9, 2)
            assert first.owner_id == viewer.viewer_id and "$" in first.data
            assert viewer.resize(61, 9).applied
            resized = next(viewer)
            assert (resized.type, resized.cols, resized.owner_id) == ("resize", 61, viewer.viewer_id)
            with pytest.raises(trl.TrlError) as e:
                term.resize(70, 10)
            assert e.value.code == "CONFLICT"
            assert term.resize(70, 10, force=True).applied
            term.input("printf 'gr\\303\\274\\303\\237e'; exit 3", keys=["enter"])
            printed = b"".join(event.data_bytes for event in viewer if event.type == "output")
        assert printed.endswith("grüße".encode())
        assert viewer.outcome is not None and viewer.outcome.exit_code == 3
        rest = term.attach(from_offset=2, read_only=True)  # it has ended, and can still be read
        assert b"".join(event.data_bytes for event in rest if event.type == "output") == printed


def test_leaving_the_loop_lets_the_viewer_go(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t, t.terminal(**SHELL) as term:
        for event in term.attach():
            assert event.type == "snapshot"
            break

        def viewers() -> int:
            terminal = term.info().terminal
            return terminal.viewers if terminal is not None else -1

        until(lambda: viewers() == 0, "gone")


def test_program(t: trl.Client) -> None:
    data = bytes(range(256))
    with t.program(["sh", "-c", "echo begun >&2; cat; exit 6"], env={"A": "b"}) as p:
        with p.stdout() as stdout:
            p.input("text\n")
            p.input(data)
            assert p.wait(waiting_for_input=True).reason == "waiting_for_input"
            assert p.close_input().written == 261
            assert b"".join(c.data_bytes for c in stdout) == b"text\n" + data
            assert stdout.outcome is not None and stdout.outcome.exit_code == 6
        assert b"".join(c.data_bytes for c in p.stdout(259)) == data[254:]
        assert "".join(c.data for c in t.get_program(p.id).stderr()) == "begun\n"
        assert p.wait(exit=True).exit_code == 6


def test_recording(t: trl.Client) -> None:
    with t.terminal(**SHELL, record=True) as term:
        term.wait(cursor={"x": 2, "y": 0})
        term.input("exit", keys=["enter"])
        term.wait(exit=True)
        head, *events = "".join(term.recording()).splitlines()
        assert json.loads(head)["version"] == 3
        assert "$ " in [json.loads(event)[2] for event in events]


COUNT = "read go; i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo grüße $i; sleep 0.005; done; exit 4"
COUNTED = "\r\n" + "".join(f"grüße {i}\r\n" for i in range(1, 301))


def test_a_viewer_outlives_the_daemon(daemon: Daemon) -> None:
    with trl.connect(daemon.socket) as t:
        term = t.terminal(command=["sh", "-c", COUNT], cols=40, rows=6)
        with term.attach(size={"cols": 44, "rows": 7}) as viewer:
            assert next(viewer).type == "snapshot"
            name = viewer.viewer_id
            viewer.resize(45, 7)
            term.keys("enter")
            printed, killed = "", 0
            for event in viewer:
                assert event.type != "snapshot"
                printed += event.data
                if killed < 3 and f"grüße {50 + 80 * killed}\r\n" in printed:
                    killed += 1
                    daemon.kill()
                    daemon.start()
            assert (printed, killed) == (COUNTED, 3)
            assert viewer.outcome is not None and viewer.outcome.exit_code == 4
            assert viewer.viewer_id != name
        screen = term.screen()
        assert (screen.cols, screen.rows) == (45, 7)


def test_a_viewer_that_cannot_come_back_says_where_it_was(daemon: Daemon) -> None:
    with trl.connect(daemon.socket, patience_s=0.2) as t:
        term = t.terminal(**SHELL)
        term.wait(cursor={"x": 2, "y": 0})
        with term.attach() as viewer:
            next(viewer)
            daemon.kill()
            with pytest.raises(trl.ConnectionLost) as e:
                next(viewer)
            assert e.value.details == {"session_id": term.id, "from_offset": 2}


def test_bytes_that_are_gone_are_an_error() -> None:
    daemon = Daemon("--output-bytes", "65536")
    try:
        with trl.connect(daemon.socket) as t, t.program(["sh", "-c", "head -c 1000000 /dev/zero"]) as p:
            p.wait(exit=True)
            with pytest.raises(trl.TrlError) as e:
                for _ in p.stdout():
                    pass
            assert e.value.code == "INVALID_PARAMS" and "gap" in e.value.details
    finally:
        daemon.remove()


def test_aio(shared: Daemon, transport: str) -> None:
    async def main() -> None:
        async with trl.aio.connect(**shared.where(transport)) as t:
            async with t.terminal(**SHELL, record=True) as term:
                await term.wait(cursor={"x": 2, "y": 0})
                async with term.attach(size={"cols": 60, "rows": 9}) as viewer:
                    first = await viewer.__anext__()
                    assert (first.type, first.cols, first.owner_id) == ("snapshot", 60, viewer.viewer_id)
                    assert (await viewer.resize(61, 9)).applied
                    await term.input("echo hallo", keys=["enter"])
                    assert (await term.wait(text="^hallo")).match == "hallo"
                    await term.wait(cursor={"x": 2, "y": 2})
                    await term.paste("exit 3")
                    await term.keys("enter")
                    printed = b"".join([event.data_bytes async for event in viewer if event.type == "output"])
                    assert b"hallo\r\n" in printed
                    assert viewer.outcome is not None and viewer.outcome.exit_code == 3
                assert (await (await t.get_terminal(term.id)).wait(text="never")).reason == "exit"
                assert "hallo\n$ exit 3" in (await term.screen()).text
                cast = "".join([piece async for piece in term.recording()])
                assert json.loads(cast.splitlines()[0])["version"] == 3
            async with t.program(["cat"]) as p:
                await p.input(b"\xff", close=True)
                assert b"".join([c.data_bytes async for c in p.stdout()]) == b"\xff"
                assert b"".join([c.data_bytes async for c in (await t.get_program(p.id)).stderr()]) == b""

    asyncio.run(main())


def test_an_aio_viewer_outlives_the_daemon(daemon: Daemon) -> None:
    async def main() -> None:
        async with trl.aio.connect(daemon.socket) as t:
            term = await t.terminal(command=["sh", "-c", COUNT])
            async with term.attach() as viewer:
                await term.keys("enter")
                printed, killed = "", 0
                async for event in viewer:
                    printed += event.data if event.type == "output" else ""
                    if killed < 2 and f"grüße {80 + 80 * killed}\r\n" in printed:
                        killed += 1
                        daemon.kill()
                        daemon.start()
            assert (printed, killed) == (COUNTED, 2)

    asyncio.run(main())
