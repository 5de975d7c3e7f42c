"""Types into an interpreter and a debugger, and reads what they answer."""

import os
import re
import sys

import trl_client as trl


SIZE = {"cols": 200, "rows": 100}  # large, so that an answer neither wraps nor scrolls away


class Prompt:
    """A program on a terminal that prints a prompt when it wants the next line."""

    def __init__(self, terminal: trl.Terminal, prompt: str) -> None:
        self.terminal = terminal
        self.prompt = prompt
        self._wait(since=0)

    def _wait(self, since: int) -> None:
        self.terminal.wait(text=f"^{re.escape(self.prompt)}$", since_version=since, timeout_s=60)

    def ask(self, line: str) -> str:
        """Type a line and return what is printed up to the next prompt."""
        before = self.terminal.screen().version
        self.terminal.input(line, keys=["enter"])
        self._wait(since=before)  # the prompt of an earlier line does not count
        lines = self.terminal.screen().text.rstrip().split("\n")
        typed = max(i for i, shown in enumerate(lines) if shown == self.prompt + line)
        return "\n".join(lines[typed + 1 : -1])


def interpreter(t: trl.Client) -> None:
    # The interpreter of Python 3.13 and newer draws its own line editor unless told otherwise.
    with t.terminal(command=[sys.executable, "-i", "-q"], env={"PYTHON_BASIC_REPL": "1"}, **SIZE) as terminal:
        python = Prompt(terminal, ">>> ")
        for line in "x = 6", "x * 7", "1 / 0":
            print(f"python> {line}")
            if answer := python.ask(line):
                print(answer)


def debugger(t: trl.Client) -> None:
    with t.terminal(command=[sys.executable, "-m", "pdb", "average.py"], working_dir=os.getcwd(), **SIZE) as terminal:
        pdb = Prompt(terminal, "(Pdb) ")
        pdb.ask("continue")  # stops at the uncaught exception
        print("debugger> up: where the crash came from")
        pdb.ask("up")
        print(pdb.ask("up").splitlines()[-1])
        pdb.ask("down")
        print("debugger> p numbers: the value that caused it")
        print(pdb.ask("p numbers"))


with trl.connect() as client:
    interpreter(client)
    debugger(client)
