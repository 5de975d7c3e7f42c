"""The requests and replies of a dialogue, as values that both clients share."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union, cast

from . import types
from ._options import AnswerOptions, DialogueEventOptions, DialogueOptions, RawOptions, SetOptions
from ._request import Request, given
from .results import exact_bytes

Message = Union[str, Sequence[types.DialogueContent]]
"""A text, or blocks."""


@dataclass(frozen=True, kw_only=True)
class DialogueRawResult(types.DialogueRawResult):
    """A piece of the raw output or input of the agent's program."""

    @property
    def data_bytes(self) -> bytes:
        """The exact bytes of data."""
        return exact_bytes(self.data, self.data_base64)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> DialogueRawResult:
        """Take the fields that are known from what a daemon sent."""
        return cast(DialogueRawResult, super().from_dict(data))


@dataclass
class Reply:
    """The reply to a message: the end of a turn, requests that wait, or the end of the agent."""

    message_id: str
    """The id of the message."""

    seq: int
    """The number of the last event that was read; wait continues from here."""

    turn: types.DialogueTurn | None = None
    """The turn that has ended."""

    requests: list[types.DialogueRequest] = field(default_factory=list)
    """The requests that wait for an answer. If there are any, the turn has not ended: answer them, then wait."""

    ended: types.DialogueEnd | None = None
    """How the agent's program ended; None if it has not."""

    @property
    def text(self) -> str:
        """The agent's text at the end of the turn."""
        return self.turn.text if self.turn is not None else ""

    def done(self, event: types.DialogueEvent) -> bool:
        """Take an event; report whether the reply is complete."""
        self.seq = event.seq
        if event.type == "turn_ended" and event.turn is not None:
            self.turn = event.turn
            return event.turn.outcome != "lost" and self.message_id in event.turn.messages  # else the end follows
        if event.type == "message" and event.message is not None:
            return event.message.message_id == self.message_id and event.message.state == "cancelled"
        if event.type == "ended":
            self.ended = event.ended
            return True
        return False


def may_rest(event: types.DialogueEvent, reply: Reply) -> bool:
    """Report whether the agent may be idle after a turn of which it did not say for which messages it was."""
    return event.type == "state" and event.state == "idle" and reply.turn is not None


def waiting(transcript: types.DialogueTranscriptResult) -> list[types.DialogueRequest]:
    """Return the requests that wait for an answer."""
    return [request for request in transcript.requests if not request.how]


def create(agent: str, options: DialogueOptions) -> Request[types.DialogueInfo]:
    """dialogue.create."""
    return Request("dialogue.create", {"agent": agent, **given(DialogueOptions, options)}, types.DialogueInfo.from_dict)


def info(dialogue_id: str) -> Request[types.DialogueInfo]:
    """dialogue.info."""
    return Request("dialogue.info", {"dialogue_id": dialogue_id}, types.DialogueInfo.from_dict)


def listing(tags: Sequence[str], state: types.DialogueState | None) -> Request[list[types.DialogueInfo]]:
    """dialogue.list."""
    params = {"tags": list(tags), "state": state or ""}
    return Request("dialogue.list", params, lambda d: types.DialogueListResult.from_dict(d).dialogues)


def send(dialogue_id: str, message: Message, message_id: str | None) -> Request[types.DialogueSendResult]:
    """dialogue.send. Without an id the message gets one, so that it can be repeated."""
    what = {"text": message} if isinstance(message, str) else {"content": list(message)}
    params = {"dialogue_id": dialogue_id, "message_id": message_id or str(uuid.uuid4()), **what}
    return Request("dialogue.send", params, types.DialogueSendResult.from_dict)


def respond(
    dialogue_id: str, request: str | types.DialogueRequest, answer: AnswerOptions
) -> Request[types.DialogueInfo]:
    """dialogue.respond."""
    request_id = request if isinstance(request, str) else request.request_id
    params = {"dialogue_id": dialogue_id, "request_id": request_id, **given(AnswerOptions, answer)}
    return Request("dialogue.respond", params, types.DialogueInfo.from_dict)


def change(dialogue_id: str, what: SetOptions) -> Request[types.DialogueInfo]:
    """dialogue.set."""
    return Request("dialogue.set", {"dialogue_id": dialogue_id, **given(SetOptions, what)}, types.DialogueInfo.from_dict)


def events(dialogue_id: str, options: DialogueEventOptions) -> Request[types.StreamStart]:
    """dialogue.events."""
    return Request("dialogue.events", {"dialogue_id": dialogue_id, **given(DialogueEventOptions, options)}, types.StreamStart.from_dict)


def transcript(dialogue_id: str) -> Request[types.DialogueTranscriptResult]:
    """dialogue.transcript."""
    return Request("dialogue.transcript", {"dialogue_id": dialogue_id}, types.DialogueTranscriptResult.from_dict)


def raw(dialogue_id: str, options: RawOptions) -> Request[DialogueRawResult]:
    """dialogue.raw."""
    return Request("dialogue.raw", {"dialogue_id": dialogue_id, **given(RawOptions, options)}, DialogueRawResult.from_dict)


def terminate(dialogue_id: str, force: bool, forget: bool) -> Request[types.DialogueInfo]:
    """dialogue.terminate."""
    params = {"dialogue_id": dialogue_id, "force": force, "forget": forget}
    return Request("dialogue.terminate", params, types.DialogueInfo.from_dict)


def resume(dialogue_id: str, env: Mapping[str, str] | None, prompt: str) -> Request[types.DialogueInfo]:
    """dialogue.resume."""
    params = {"dialogue_id": dialogue_id, "env": dict(env or {}), "prompt": prompt}
    return Request("dialogue.resume", params, types.DialogueInfo.from_dict)


def simple(method: str, dialogue_id: str) -> Request[types.DialogueInfo]:
    """dialogue.interrupt and dialogue.retry."""
    return Request(method, {"dialogue_id": dialogue_id}, types.DialogueInfo.from_dict)
