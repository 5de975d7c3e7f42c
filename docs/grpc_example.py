"""Run a command over gRPC and print its output as it comes.

    pip install grpcio grpcio-tools
    TRL_TOKEN=$(cat ~/.local/state/trl/token) python grpc_example.py 127.0.0.1:7331 'make test'

The messages are those of docs/api.md; see docs/grpc.md for the frames around them.
"""

import json
import os
import queue
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "api", "proto", "trl", "v1"))
protos, services = grpc.protos_and_services("trl.proto")


def main(address: str, command: str) -> int:
    token = os.environ["TRL_TOKEN"]
    with grpc.insecure_channel(address) as channel:
        requests: queue.SimpleQueue = queue.SimpleQueue()  # None ends our side of the call
        answers = services.TRLStub(channel).Call(iter(requests.get, None), metadata=[("authorization", f"Bearer {token}")])

        def ask(method: str, params: dict) -> dict:
            message = {"id": 1, "method": method, "params": params}
            requests.put(protos.Frame(message=json.dumps(message).encode()))
            answer = json.loads(next(answers).message)
            if not answer["ok"]:
                raise RuntimeError(f"{method}: {answer['error']['code']}: {answer['error']['message']}")
            return answer["data"]

        # The session ends with this call.
        session = ask("session.create", {"ephemeral": True})
        ask("exec.stream", {"session_id": session["session_id"], "command": command})
        for frame in answers:
            push = json.loads(frame.message)
            if push["type"] in ("stdout", "stderr"):
                out = sys.stdout if push["type"] == "stdout" else sys.stderr
                out.buffer.write(frame.raw["data"])  # bytes, as the command wrote them
                out.flush()
            elif push["type"] == "exit":
                requests.put(None)
                return push["exit_code"]
    return 125


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
