"""The dialogues of the client with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from . import _talk, types
from ._aio_stream import Stream
from ._options import AnswerOptions, DialogueEventOptions, RawOptions, SetOptions
from ._resume import Cursor
from ._talk import Message, Reply

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from .aio import Client


class Dialogue:
    """A conversation with a coding agent. It continues without the client, and across restarts of the daemon.

    Used with "async with", the agent is ended at the end.
    """

    def __init__(self, client: Client, info: types.DialogueInfo) -> None:
        self._client = client
        self.id = info.dialogue_id

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self._client._leave(_talk.terminate(self.id, False, False), "DIALOGUE_NOT_FOUND", e)

    def __repr__(self) -> str:
        return f"<trl.aio.Dialogue {self.id}>"

    async def info(self) -> types.DialogueInfo:
        """Return everything about the dialogue."""
        return await self._client._do(_talk.info(self.id))

    async def send(self, message: Message, *, message_id: str | None = None) -> types.DialogueSendResult:
        """Send the agent a message. It is sent once, even if the connection is lost."""
        return await self._client._do(_talk.send(self.id, message, message_id))

    async def send_and_wait(self, message: Message, *, message_id: str | None = None) -> Reply:
        """Send a message and wait until its turn has ended, or a request waits for an answer."""
        return await self.wait(await self.send(message, message_id=message_id))

    async def wait(self, after: types.DialogueSendResult | Reply) -> Reply:
        """Wait for the reply to a message; or, once the requests of a reply are answered, for the rest of it."""
        reply = Reply(after.message_id, after.seq)
        reply.requests = await self._waiting()
        if reply.requests:
            return reply
        async with self.events(after_seq=after.seq, no_deltas=True) as events:
            async for event in events:
                if reply.done(event):
                    break
                if _talk.may_rest(event, reply) and (await self.info()).state == "idle":
                    break
                if event.type == "request_opened":
                    reply.requests = await self._waiting()  # a policy may have answered it
                    if reply.requests:
                        break
        return reply

    async def requests(self) -> list[types.DialogueRequest]:
        """Return the requests that wait for an answer."""
        return _talk.waiting(await self.transcript())

    async def _waiting(self) -> list[types.DialogueRequest]:
        return await self.requests() if (await self.info()).requests else []

    async def respond(self, request: str | types.DialogueRequest, **answer: Unpack[AnswerOptions]) -> types.DialogueInfo:
        """Answer a request of the agent. A second answer is refused with CONFLICT."""
        return await self._client._do(_talk.respond(self.id, request, answer))

    async def allow(self, request: str | types.DialogueRequest, *, remember: bool = False) -> types.DialogueInfo:
        """Allow a request."""
        return await self.respond(request, decision="allow", remember=remember)

    async def deny(self, request: str | types.DialogueRequest, message: str = "") -> types.DialogueInfo:
        """Deny a request; the agent gets the message."""
        return await self.respond(request, decision="deny", message=message)

    async def interrupt(self) -> types.DialogueInfo:
        """Stop the agent's current turn. The dialogue goes on."""
        return await self._client._do(_talk.simple("dialogue.interrupt", self.id))

    async def set(self, **what: Unpack[SetOptions]) -> types.DialogueInfo:
        """Change the model, the permission mode or the policy."""
        return await self._client._do(_talk.change(self.id, what))

    def events(self, **options: Unpack[DialogueEventOptions]) -> DialogueEvents:
        """Iterate over past and future events, from any event on, until the agent's program has ended."""
        return DialogueEvents(Stream(self._client._pool, Cursor(_talk.events(self.id, options))))

    async def transcript(self) -> types.DialogueTranscriptResult:
        """Return the transcript: turns, items with their tool calls, tasks, requests."""
        return await self._client._do(_talk.transcript(self.id))

    async def raw(self, **options: Unpack[RawOptions]) -> _talk.DialogueRawResult:
        """Read a part of the raw output of the agent's program; with stream="stdin", of its input."""
        return await self._client._do(_talk.raw(self.id, options))

    async def terminate(self, *, force: bool = False, forget: bool = False) -> types.DialogueInfo:
        """End the agent's program and everything it started; with forget, delete the dialogue's record."""
        return await self._client._do(_talk.terminate(self.id, force, forget))

    async def resume(self, *, env: Mapping[str, str] | None = None, prompt: str = "") -> types.DialogueInfo:
        """Start the agent again, in the same dialogue. The agent gets only the environment of the options."""
        return await self._client._do(_talk.resume(self.id, env, prompt))

    async def retry(self) -> types.DialogueInfo:
        """Try again to reach the agent of a dialogue in state error."""
        return await self._client._do(_talk.simple("dialogue.retry", self.id))


class DialogueEvents(AsyncIterator[types.DialogueEvent]):
    """The events of a dialogue. After a lost connection the stream continues with the next event."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    @property
    def seq(self) -> int:
        """The number of the last event. Another reader continues from here with it as after_seq."""
        return self._stream.seq

    async def __aenter__(self) -> Self:
        await self._stream.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, e: BaseException | None, where: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop reading."""
        await self._stream.close()

    async def __anext__(self) -> types.DialogueEvent:
        while True:
            push = await self._stream.__anext__()
            if push.event is not None:
                return push.event
