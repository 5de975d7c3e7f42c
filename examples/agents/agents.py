"""Gives tasks to several coding agents and answers their requests from one inbox."""

import os
import sys
from contextlib import ExitStack

import trl_client as trl

READERS = {"Read", "Grep", "Glob"}


def is_safe(request: trl.types.DialogueRequest) -> bool:
    return request.tool in READERS or request.tool == "Bash" and request.subject == "go test ./..."


def main(tasks: list[str]) -> None:
    with ExitStack() as stack:
        t = stack.enter_context(trl.connect())
        # The inbox opens before the first agent starts, so no event is missed.
        inbox = stack.enter_context(t.events(types=["dialogue"]))
        agents = {}
        for task in tasks:
            agent = stack.enter_context(t.dialogue("claude", working_dir=os.getcwd(), prompt=task))
            agents[agent.id] = agent
        notes: dict[str, list[str]] = {id: [] for id in agents}
        busy = set(agents)
        while busy:
            event = next(inbox)
            agent = agents.get(event.dialogue_id)
            if agent is None:
                continue  # another program's
            if event.type == "dialogue.request_opened":
                for request in agent.requests():
                    if is_safe(request):
                        agent.allow(request)
                    else:
                        agent.deny(request, "only reading and the tests are allowed")
                    word = "allowed" if is_safe(request) else "denied"
                    notes[agent.id].append(f"{word} {request.tool}: {request.subject}")
            elif event.type in ("dialogue.turn_ended", "dialogue.ended"):
                busy.discard(agent.id)
        for number, (task, agent) in enumerate(zip(tasks, agents.values()), 1):
            print(f"{number}. {task}")
            replies = [part.text for item in agent.transcript().items if item.kind == "agent" for part in item.parts]
            for line in notes[agent.id] + replies:
                print(f"   {line}")


main(sys.argv[1:])
