"""Dialogues with both clients, against the real daemon and an agent that does as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trl_client as trl
from conftest import Daemon, agent
from trl_client._options import DialogueOptions


def fake(**options: Any) -> DialogueOptions:
    """Options of a dialogue with the fake agent."""
    made: DialogueOptions = {"argv": [agent()], "working_dir": "/tmp"}
    made.update(options)  # type: ignore[typeddict-item]
    return made


@pytest.fixture
def t(shared: Daemon, transport: str) -> Iterator[trl.Client]:
    with trl.connect(**shared.where(transport)) as client:
        yield client


def code_of(e: pytest.ExceptionInfo[trl.TrlError]) -> str:
    return e.value.code


def test_a_message_is_answered(t: trl.Client) -> None:
    with t.dialogue("claude", **fake(tags=["mine"])) as d:
        reply = d.send_and_wait("say hello there")
        assert reply.turn is not None and (reply.turn.outcome, reply.text, reply.requests) == ("completed", "hello there", [])
        told = d.transcript()
        assert [(i.kind, i.parts[0].text) for i in told.items] == [("user", "say hello there"), ("agent", "hello there")]
        assert told.turns[0].turn_id == reply.turn.turn_id
        assert [i.dialogue_id for i in t.dialogues(tags=["mine"])] == [d.id] == [t.get_dialogue(d.id).id]
        assert b'"hello there"' in d.raw().data_bytes
        assert b"say hello there" in d.raw(stream="stdin").data_bytes
        end = d.terminate()
        assert end.ended is not None and (end.state, end.ended.cause) == ("ended", "closed")
        with pytest.raises(trl.TrlError) as e:
            d.send("late")
        assert code_of(e) == "DIALOGUE_ENDED"
    d.terminate(forget=True)
    with pytest.raises(trl.TrlError) as e:
        d.info()
    assert code_of(e) == "DIALOGUE_NOT_FOUND"


def test_a_request_waits_and_is_answered_once(t: trl.Client) -> None:
    with t.dialogue("claude", **fake()) as d:
        asked = d.send_and_wait("ask Bash rm -r build; say done")
        assert asked.turn is None
        request, = asked.requests
        assert (request.kind, request.tool, request.subject, request.input["command"]) == ("permission", "Bash", "rm -r build", "rm -r build")
        assert d.info().state == "requires_action"
        d.allow(request)
        with pytest.raises(trl.TrlError) as e:
            d.deny(request.request_id, "too late")
        assert code_of(e) == "CONFLICT"
        done = d.wait(asked)
        assert done.turn is not None and (done.turn.outcome, done.text) == ("completed", "done")
        call, = (i.tool for i in d.transcript().items if i.tool is not None)
        assert (call.name, call.status) == ("Bash", "completed")

        d.set(policy={"rules": [{"tool": "Bash", "pattern": "ls *", "action": "allow"}, {"tool": "*", "action": "deny"}]})
        ruled = d.send_and_wait("ask Bash ls -l; ask Write /etc/passwd; say after")
        assert ruled.requests == [] and ruled.turn is not None
        assert [(r.decision, r.by) for r in d.transcript().requests] == [("allow", "client"), ("allow", "policy"), ("deny", "policy")]


def test_an_agent_that_speaks_acp(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t, t.dialogue("acp", **fake(argv=[agent(), "-acp"])) as d:
        asked = d.send_and_wait("ask Bash make; say done")
        d.allow(asked.requests[0])
        done = d.wait(asked)
        assert done.turn is not None and done.turn.outcome == "completed"
        assert [i.kind for i in d.transcript().items] == ["user", "tool_call", "agent"]


def test_a_turn_is_interrupted(t: trl.Client) -> None:
    with t.dialogue("claude", **fake()) as d:
        sent = d.send("say working; hang")
        with d.events() as events:
            for event in events:
                if event.type == "item" and event.item is not None and (event.item.kind, event.item.status) == ("agent", "final"):
                    break
        d.interrupt()
        turn = d.wait(sent).turn
        assert turn is not None and turn.outcome == "interrupted"
        assert d.send_and_wait("say again").text == "again"


def test_a_message_is_sent_once(t: trl.Client) -> None:
    with t.dialogue("claude", **fake()) as d:
        first = d.send("say once")
        second = d.send("say once", message_id=first.message_id)
        assert (second.repeated, second.seq) == (True, first.seq)
        d.wait(first)
        assert len(d.transcript().turns) == 1


def test_what_cannot_be(t: trl.Client) -> None:
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: t.get_dialogue("d-none"), "DIALOGUE_NOT_FOUND"),
        (lambda: t.dialogue("nobody"), "INVALID_PARAMS"),
        (lambda: t.dialogue("claude", argv=[agent(), "-fail", "no licence"]), "AGENT_FAILED"),
    ]
    for call, code in calls:
        with pytest.raises(trl.TrlError) as e:
            call()
        assert code_of(e) == code
    assert "no licence" in e.value.details["stderr"]


def test_events_outlive_the_daemon(daemon: Daemon) -> None:
    with trl.connect(daemon.socket) as t, t.dialogue("claude", **fake()) as d:
        sent = d.send("; ".join(f"say line {i}; silence 10ms" for i in range(60)))
        seen, texts = [], 0
        with d.events() as events:
            for event in events:
                seen.append(event)
                if event.item is not None and (event.item.kind, event.item.status) == ("agent", "final"):
                    texts += 1
                    if texts % 20 == 10:
                        daemon.kill()
                        daemon.start()
                if event.turn is not None and event.type == "turn_ended" and sent.message_id in event.turn.messages:
                    break
        assert [event.seq for event in seen] == list(range(1, len(seen) + 1))
        assert seen == list(d.events(no_follow=True))[:len(seen)]
        assert texts == 60


def test_an_agent_that_died_is_resumed(shared: Daemon) -> None:
    with trl.connect(shared.socket) as t, t.dialogue("claude", **fake()) as d:
        assert d.send_and_wait("say before").text == "before"
        died = d.send_and_wait("kill9").ended
        assert died is not None and (died.cause, died.signal) == ("unexpected_exit", "SIGKILL")
        again = d.resume(env={"WHO": "me"})
        assert (again.dialogue_id, again.epoch) == (d.id, 2)
        assert d.send_and_wait("env WHO").text == "me"
        assert [i.parts[0].text for i in d.transcript().items if i.kind == "agent"] == ["before", "me"]


def test_with_asyncio(shared: Daemon, transport: str) -> None:
    async def main() -> None:
        async with trl.aio.connect(**shared.where(transport)) as t, t.dialogue("claude", **fake()) as d:
            asked = await d.send_and_wait("ask Bash make; say done")
            await d.allow(asked.requests[0])
            assert (await d.wait(asked)).text == "done"
            types = [event.type async for event in d.events(no_follow=True, no_deltas=True)]
            assert types.count("request_opened") == types.count("request_closed") == types.count("turn_ended") == 1
            assert (await (await t.get_dialogue(d.id)).info()).turns == 1
            assert d.id in [i.dialogue_id for i in await t.dialogues()]

    asyncio.run(main())
