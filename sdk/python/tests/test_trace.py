"""Calls say where they belong in a trace."""

from __future__ import annotations

import asyncio
import json
import threading

import trl_client as trl
from trl_client._http import HttpWire
from trl_client._wire import LineWire

POSITION = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def of_line() -> object:
    return json.loads(LineWire().request("system.ping", {})).get("traceparent")


def of_http() -> str | None:
    head = HttpWire("localhost", "", None).request("system.ping", {}).decode().split("\r\n\r\n")[0]
    found = [line.partition(": ")[2] for line in head.split("\r\n") if line.startswith("Traceparent")]
    return found[0] if found else None


def test_position_of_this_thread() -> None:
    others: list[object] = []
    with trl.traced(POSITION):
        assert (of_line(), of_http()) == (POSITION, POSITION)
        with trl.traced("00-inner"):
            assert of_line() == "00-inner"
        assert of_line() == POSITION
        thread = threading.Thread(target=lambda: others.append(of_line()))
        thread.start()
        thread.join()
    assert (of_line(), of_http(), others) == (None, None, [None])


def test_position_of_each_task() -> None:
    async def one(position: str) -> object:
        with trl.traced(position):
            await asyncio.sleep(0)  # the other task runs meanwhile
            return of_line()

    async def both() -> list[object]:
        return list(await asyncio.gather(one("00-a"), one("00-b")))

    assert asyncio.run(both()) == ["00-a", "00-b"]


def test_position_that_no_header_can_carry() -> None:
    for position in ("a\r\nb: c", "\u00e9", ""):
        with trl.traced(position):
            assert of_http() is None
