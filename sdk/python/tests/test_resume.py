"""How a stream goes on: the cursor, and the pauses."""

from __future__ import annotations

import base64
import pickle
import random
from typing import Any

import pytest

import trl_client as trl
from trl_client import _request, _talk
from trl_client._options import ViewerOptions
from trl_client._resume import STARTING, STOPPING, Backoff, Cursor, Retry, ViewerCursor, WholeCursor
from trl_client._wire import Push


def push(**fields: Any) -> Push:
    return Push("q", {"stream_id": "q", **fields})


def attached(**options: Any) -> Cursor:
    cursor = Cursor(_request.exec_attach("x-1", options))  # type: ignore[arg-type]
    cursor.started({"stream_id": "q", "exec_id": "x-1"})
    return cursor


def test_a_command_is_never_started_twice() -> None:
    cursor = Cursor(_request.exec_stream("s-1", "make", {"timeout_s": 5, "stream": "stdout"}))
    first = dict(cursor.request().params)
    assert first == {"session_id": "s-1", "command": "make", "timeout_s": 5, "stream": "stdout", "run_id": first["run_id"]}
    lost, starting = trl.ConnectionLost("m"), trl.TrlError("RUNTIME_UNAVAILABLE", "m", {"reason": STARTING})
    assert cursor.goes_on_after(lost) and cursor.goes_on_after(starting)
    assert cursor.request().params == first  # with its run_id it runs once
    cursor.started({"stream_id": "q", "exec_id": "x-1", "session_id": "s-1", "new_field": 1})
    assert cursor.goes_on_after(lost) and not cursor.goes_on_after(trl.TrlError("EXEC_NOT_FOUND", "m"))
    assert cursor.request().params == {"exec_id": "x-1", "stream": "stdout", "from_offset": 0}
    cursor.accept(push(seq=4, type="stdout", offset=0, data="a"))
    assert cursor.request().params == {"exec_id": "x-1", "stream": "stdout", "after_seq": 4}
    assert cursor.lost(trl.ConnectionLost("m")).details == {"exec_id": "x-1", "after_seq": 4}


def test_what_was_seen_or_is_unknown_is_left_out() -> None:
    cursor = attached()
    assert cursor.accept(push(seq=1, type="stdout", offset=0, data="a", hue="blue")) is not None
    assert cursor.accept(push(seq=1, type="stdout", offset=0, data="a")) is None
    assert cursor.accept(push(seq=2, type="from.the.future", data="?")) is None
    assert cursor.seq == 2
    event = cursor.accept(push(seq=3, type="exit", exit_code=3, duration_ms=5, news={}))
    assert event is not None and event.exit_code == 3
    assert cursor.outcome is not None and cursor.outcome.exit_code == 3


def test_output_is_new_by_its_offset() -> None:
    cursor = attached(after_seq=7)
    event = cursor.accept(push(seq=8, type="stdout", offset=100, data="abc"))
    assert event is not None and event.data == "abc"
    event = cursor.accept(push(seq=8, type="stdout", offset=101, data="bcde"))
    assert event is not None and (event.offset, event.data) == (103, "de")
    event = cursor.accept(push(seq=9, type="gap", stream="stdout", **{"from": 0, "to": 200}))
    assert event is not None and (event.from_, event.to) == (105, 200)
    assert cursor.accept(push(seq=9, type="gap", stream="stdout", **{"from": 0, "to": 200})) is None
    assert cursor.accept(push(seq=10, type="stderr", offset=0, data="e")) is not None


def test_size_is_that_of_the_bytes() -> None:
    for data in (b"", b"a", "ä€".encode(), b"\xff", b"\xff\xff", b"\xff" * 3):
        event = trl.StreamEvent().with_data(0, data)
        assert event.data_bytes == data and event.size == len(data)
        as_json = trl.StreamEvent(offset=0, data=event.data, data_base64=event.data_base64)
        assert as_json == event and as_json.data_bytes == data and as_json.size == len(data)


def test_bytes_behind_a_push_are_its_output() -> None:
    cursor = attached()
    event = cursor.accept(Push("q", {"stream_id": "q", "seq": 1, "type": "stdout", "offset": 0, "raw": 4}, b"a\xffbc"))
    assert event is not None and (event.data, event.data_bytes, event.size) == ("a\ufffdbc", b"a\xffbc", 4)
    assert base64.b64decode(event.data_base64) == b"a\xffbc"
    assert pickle.loads(pickle.dumps(event)) == event and repr(event).count("data=") == 1
    event = cursor.accept(Push("q", {"stream_id": "q", "seq": 2, "type": "stdout", "offset": 2, "raw": 4}, b"bc\xc3\xa4"))
    assert event is not None and (event.offset, event.data, event.data_base64) == (4, "ä", "")


def test_a_stream_that_broke_off_says_why() -> None:
    cursor = attached()
    with pytest.raises(trl.TrlError) as e:
        cursor.accept(push(seq=0, type="error", error={"code": "EXEC_NOT_FOUND", "message": "m"}))
    assert e.value.code == "EXEC_NOT_FOUND"


def test_from_offset_holds_after_a_resume() -> None:
    cursor = attached(from_offset=4)
    assert cursor.request().params == {"exec_id": "x-1", "from_offset": 4}
    event = cursor.accept(push(seq=1, type="stdout", offset=4, data="ef"))
    assert event is not None and event.data == "ef"
    assert cursor.request().params == {"exec_id": "x-1", "after_seq": 1}
    assert cursor.accept(push(seq=2, type="stderr", offset=0, data="abcd")) is None
    event = cursor.accept(push(seq=3, type="stderr", offset=3, data="ä!"))
    assert event is not None and (event.offset, event.data_bytes, event.data) == (4, b"\xa4!", "\ufffd!")
    event = cursor.accept(push(seq=4, type="stderr", offset=6, data="\ufffd", data_base64=base64.b64encode(b"\xff").decode()))
    assert event is not None and event.data_bytes == b"\xff"


def test_events_resume_from_the_start_when_none_has_come() -> None:
    cursor = Cursor(_request.event_subscribe({"types": ["exec"]}))
    assert cursor.request().params == {"types": ["exec"]} and cursor.goes_on_after(trl.ConnectionLost("m"))
    cursor.started({"stream_id": "q", "seq": 40})
    assert cursor.request().params == {"types": ["exec"], "after_seq": 40}
    assert cursor.accept(push(seq=42, type="exec.exited")) is not None
    assert cursor.accept(push(seq=42, type="exec.exited")) is None
    cursor.started({"stream_id": "q", "seq": 50})
    assert cursor.request().params == {"types": ["exec"], "after_seq": 42}


def test_a_dialogue_resumes_behind_its_last_event() -> None:
    cursor = Cursor(_talk.events("d", {"after_seq": 2, "no_deltas": True}))
    asked = {"dialogue_id": "d", "no_deltas": True}
    cursor.started({"stream_id": "q", "dialogue_id": "d"})
    assert cursor.request().params == {**asked, "after_seq": 2} and cursor.goes_on_after(trl.ConnectionLost("m"))
    event = cursor.accept(push(seq=3, type="dialogue", event={"seq": 3, "type": "turn_ended", "turn": {"turn_id": "t"}}))
    assert event is not None and event.event is not None and event.event.turn is not None and event.event.turn.turn_id == "t"
    assert cursor.accept(push(seq=3, type="dialogue", event={"seq": 3})) is None
    assert cursor.request().params == {**asked, "after_seq": 3} and not cursor.over
    assert cursor.accept(push(seq=3, type="end")) is not None and cursor.over


def test_any_cuts_yield_the_same_bytes() -> None:
    for seed in range(500):
        cut_and_compare(random.Random(seed))


def cut_and_compare(rng: random.Random) -> None:
    log, at = [], {"stdout": 0, "stderr": 0}
    for seq in range(1, rng.randrange(2, 30)):
        kind, data = rng.choice(("stdout", "stderr")), rng.randbytes(rng.randrange(1, 9))
        log.append(push(seq=seq, type=kind, offset=at[kind], data=data.decode(errors="replace"),
                        data_base64=base64.b64encode(data).decode()))
        at[kind] += len(data)
    log.append(push(seq=len(log) + 1, type="exit", exit_code=0))
    cursor, got = attached(), b""
    while cursor.outcome is None:
        after = cursor.request().params.get("after_seq", 0)
        after = max(0, after - rng.randrange(3))  # a daemon that repeats some
        for p in log[after:after + rng.randrange(len(log) + 1)]:
            event = cursor.accept(p)
            got += event.data_bytes if event else b""
    assert got == b"".join(base64.b64decode(p.fields.get("data_base64", "")) for p in log)


def test_what_may_be_asked_again() -> None:
    now, lost = 0.0, trl.ConnectionLost("m")
    starting, ending, other = (trl.TrlError("RUNTIME_UNAVAILABLE", "m", {"reason": r}) for r in (STARTING, STOPPING, "gone"))

    def retry(request: _request.Request[Any]) -> Retry:
        return Retry(request, 10, clock=lambda: now)

    read, run = _request.exec_info("x"), _request.raw("exec.run", {"session_id": "s", "command": "c"})
    assert retry(_request.exec_run("s", "c", {})).delay(lost) == 0, "it has a run_id"
    assert retry(read).delay(lost) == 0 and retry(run).delay(lost) is None
    assert retry(read).delay(trl.TrlError("CONFLICT", "m")) is None
    assert retry(read).delay(starting) == 0 and retry(run).delay(starting) == 0
    assert retry(read).delay(ending) == 0 and retry(run).delay(ending) is None
    stopped = trl.TrlError("RUNTIME_UNAVAILABLE", "m", {"reason": STOPPING, "sessions": "ended"})
    for create in _request.session_create({}), _request.raw("dialogue.create", {"agent": "claude"}):
        assert retry(create).delay(ending) == 0, "it has created nothing"
        assert [retry(create).delay(e) for e in (stopped, lost, other)] == [None] * 3
    again = retry(read)
    assert again.delay(other) == 0
    now = 10.0
    assert again.delay(other) is None and again.delay(lost) == 0
    now = 0.0
    wait = retry(_request.exec_wait(["x"], False, {"timeout_s": 5.0}))
    in_ms = retry(_request.exec_wait(["x"], False, {"timeout_ms": 5000}))
    now = 2.0
    assert wait.params() == {"exec_ids": ["x"], "all": False, "timeout_s": 3.0}
    assert in_ms.params() == {"exec_ids": ["x"], "all": False, "timeout_ms": 3000}
    now = 20.0
    assert wait.params()["timeout_s"] == 0 and in_ms.params()["timeout_ms"] == 0
    assert retry(read).params() is read.params


def test_pauses_grow_and_end() -> None:
    now = 0.0
    backoff = Backoff(10, clock=lambda: now)
    delays = []
    while (delay := backoff.delay()) is not None:
        delays.append(delay)
        now += delay + 0.001
    assert delays[0] == 0 and max(delays) <= 1 and 9 < sum(delays) <= 10
    backoff.reset()
    assert backoff.delay() == 0
    now += 100  # it worked for a long time
    assert backoff.delay() == 0
    assert Backoff(0).delay() is None


def test_a_viewer_goes_on_at_its_byte_and_keeps_the_size() -> None:
    first: ViewerOptions = {"scrollback": 9, "size": {"cols": 80, "rows": 24}, "take_size": True}
    cursor = ViewerCursor(_request.session_attach("s-1", first))
    assert cursor.request().params == {"session_id": "s-1", **first}
    assert cursor.goes_on_after(trl.ConnectionLost("m")) and not cursor.goes_on_after(trl.TrlError("SESSION_TERMINATED", "m"))
    cursor.started({"stream_id": "q", "session_id": "s-1", "viewer_id": "v-1"})
    cursor.accept(push(seq=1, type="snapshot", offset=100, data="$ ", cols=80, rows=24, owner_id="v-1", version=3))
    cursor.accept(push(seq=2, type="output", offset=100, data="\ufffd\ufffd", data_base64=base64.b64encode(b"a\xff\xfe").decode()))
    cursor.size = {"cols": 90, "rows": 30}
    again = {"session_id": "s-1", "scrollback": 9, "from_offset": 103, "size": {"cols": 90, "rows": 30}}
    assert cursor.request().params == {**again, "take_size": True}
    cursor.started({"stream_id": "r", "session_id": "s-1", "viewer_id": "v-2"})
    cursor.accept(push(seq=1, type="resize", offset=103, cols=50, rows=10, owner_id="v-9"))
    assert cursor.request().params == again  # another one has the size now
    assert cursor.lost(trl.ConnectionLost("m")).details == {"session_id": "s-1", "from_offset": 103}
    cursor.accept(push(seq=2, type="exit", offset=103, exit_code=3))
    assert cursor.outcome is not None and cursor.viewer_id == "v-2"


def test_a_protocol_does_not_go_on_behind_a_gap() -> None:
    cursor = WholeCursor(_request.exec_attach("x-1", {"stream": "stdout"}))
    cursor.started({"stream_id": "q", "exec_id": "x-1"})
    assert cursor.accept(push(seq=1, type="stdout", offset=0, data="a")) is not None
    with pytest.raises(trl.TrlError) as e:
        cursor.accept(push(seq=9, type="gap", stream="stdout", **{"from": 0, "to": 20}))
    assert (e.value.code, e.value.details) == ("INVALID_PARAMS", {"gap": {"from": 1, "to": 20}})
