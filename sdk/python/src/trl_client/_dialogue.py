"""The dialogues of the synchronous client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from . import _talk, types
from ._stream import Stream
from ._resume import Cursor
from ._talk import AnswerOptions, DialogueEventOptions, Message, RawOptions, Reply, SetOptions
from .errors import TrlError

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .client import Client


class Dialogue:
    """A conversation with a coding agent. It goes on without the client, and over a restart of the daemon.

    Used with "with", the agent is ended at the end.
    """

    def __init__(self, client: Client, info: types.DialogueInfo) -> None:
        self._client = client
        self.id = info.dialogue_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        try:
            self._client._do(_talk.terminate(self.id, False, False), patient=e is None)
        except TrlError as failure:
            # The end of the dialogue must not hide what went wrong in it.
            if e is None and failure.code != "DIALOGUE_NOT_FOUND":
                raise

    def __repr__(self) -> str:
        return f"<trl.Dialogue {self.id}>"

    def info(self) -> types.DialogueInfo:
        """Tell everything about the dialogue."""
        return self._client._do(_talk.info(self.id))

    def send(self, message: Message, *, message_id: str | None = None) -> types.DialogueSendResult:
        """Send the agent a message: once, however often the connection is lost."""
        return self._client._do(_talk.send(self.id, message, message_id))

    def send_and_wait(self, message: Message, *, message_id: str | None = None) -> Reply:
        """Send a message and wait until its turn has ended, or a request waits for an answer."""
        return self.wait(self.send(message, message_id=message_id))

    def wait(self, after: types.DialogueSendResult | Reply) -> Reply:
        """Wait for what a message leads to; after the requests of a reply are answered, for what comes then."""
        reply = Reply(after.message_id, after.seq)
        reply.requests = self._waiting()
        if reply.requests:
            return reply
        with self.events(after_seq=after.seq, no_deltas=True) as events:
            for event in events:
                if reply.done(event):
                    break
                if _talk.may_rest(event, reply) and self.info().state == "idle":
                    break
                if event.type == "request_opened":
                    reply.requests = self._waiting()  # a policy may have answered it
                    if reply.requests:
                        break
        return reply

    def requests(self) -> list[types.DialogueRequest]:
        """Return the requests that wait for an answer now."""
        return _talk.waiting(self.transcript())

    def _waiting(self) -> list[types.DialogueRequest]:
        return self.requests() if (self.info()).requests else []

    def respond(self, request: str | types.DialogueRequest, **answer: Unpack[AnswerOptions]) -> types.DialogueInfo:
        """Answer a request of the agent. A second answer is refused with CONFLICT."""
        return self._client._do(_talk.respond(self.id, request, answer))

    def allow(self, request: str | types.DialogueRequest, *, remember: bool = False) -> types.DialogueInfo:
        """Allow what a request asks for."""
        return self.respond(request, decision="allow", remember=remember)

    def deny(self, request: str | types.DialogueRequest, message: str = "") -> types.DialogueInfo:
        """Deny what a request asks for; the message is told to the agent."""
        return self.respond(request, decision="deny", message=message)

    def interrupt(self) -> types.DialogueInfo:
        """Stop what the agent does now. The dialogue goes on."""
        return self._client._do(_talk.simple("dialogue.interrupt", self.id))

    def set(self, **what: Unpack[SetOptions]) -> types.DialogueInfo:
        """Change the model, the permission mode or the policy."""
        return self._client._do(_talk.change(self.id, what))

    def events(self, **options: Unpack[DialogueEventOptions]) -> DialogueEvents:
        """Iterate over what has happened and happens, from any event on, until the agent's program has ended."""
        return DialogueEvents(self._client._open(Stream(self._client._pool, Cursor(_talk.events(self.id, options)))))

    def transcript(self) -> types.DialogueTranscriptResult:
        """Tell the transcript: turns, items with their tool calls, tasks, requests."""
        return self._client._do(_talk.transcript(self.id))

    def raw(self, **options: Unpack[RawOptions]) -> _talk.DialogueRawResult:
        """Read a piece of what the agent's program wrote; with stream="stdin", of what was sent to it."""
        return self._client._do(_talk.raw(self.id, options))

    def terminate(self, *, force: bool = False, forget: bool = False) -> types.DialogueInfo:
        """End the agent's program and everything it started; with forget, keep nothing of the dialogue."""
        return self._client._do(_talk.terminate(self.id, force, forget))

    def resume(self, *, env: Mapping[str, str] | None = None, prompt: str = "") -> types.DialogueInfo:
        """Start the agent again, in the same dialogue. The environment of before is not kept."""
        return self._client._do(_talk.resume(self.id, env, prompt))

    def retry(self) -> types.DialogueInfo:
        """Try again to reach the agent of a dialogue in state error."""
        return self._client._do(_talk.simple("dialogue.retry", self.id))


class DialogueEvents(Iterator[types.DialogueEvent]):
    """The events of a dialogue. After a lost connection it goes on with the next one."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def seq(self) -> int:
        """The number of the last event: with it as after_seq another reader goes on from here."""
        return self._stream.seq

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop reading."""
        self._stream.close()

    def __next__(self) -> types.DialogueEvent:
        while True:
            push = next(self._stream)
            if push.event is not None:
                return push.event
