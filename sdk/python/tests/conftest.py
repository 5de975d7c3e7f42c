"""The real daemon for tests, and a look at what every test leaves behind."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import trl_client as trl

PATIENCE = 60.0
"""Bounds every wait. It is long because the machine may be busy; nothing waits that long when all is well."""

ROOMY = ("--max-sessions", "500", "--output-bytes", "67108864", "--session-output-bytes", "67108864")
"""Flags of a daemon that keeps all that the tests print."""

ROOT = Path(__file__).resolve().parents[3]

# Where SIGINT is ignored, as in the background of a script, Python leaves it so, and no test of an interrupt could pass.
signal.signal(signal.SIGINT, signal.default_int_handler)


def binary() -> str:
    """The trl under test: TRL_TEST_BIN, or what make build has made."""
    path = os.environ.get("TRL_TEST_BIN") or str(ROOT / "bin" / "trl")
    if not os.path.exists(path):
        pytest.exit(f"{path}: not there; run make build, or set TRL_TEST_BIN", returncode=3)
    return os.path.abspath(path)


def agent() -> str:
    """A program that speaks as Claude Code does, and does what its messages say."""
    path = os.environ.get("TRL_TEST_AGENT") or str(ROOT / "build" / "fakeagent")
    if not os.path.exists(path):
        pytest.exit(f"{path}: not there; run sdk/test.sh, or set TRL_TEST_AGENT", returncode=3)
    return os.path.abspath(path)


class Daemon:
    """A running `trl serve` with directories of its own, which stay over a restart."""

    def __init__(self, *args: str) -> None:
        self._args = args
        self.root = Path(tempfile.mkdtemp(prefix="trlpy", dir="/tmp"))  # short enough for a socket
        self.socket = str(self.root / "s")
        self._program: subprocess.Popen[bytes] | None = None
        self.start()

    def env(self) -> dict[str, str]:
        """A small environment that is the same on every machine."""
        home, programs = self.root / "home", self.root / "bin"
        for directory in home, programs:
            directory.mkdir(exist_ok=True)
        if not (programs / "claude").exists():
            (programs / "claude").symlink_to(agent())
        return {
            "PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(home), "LANG": "C.UTF-8",
            "TRL_SOCKET_PATH": self.socket, "TRL_STATE_DIR": str(self.root / "state"),
            "TRL_RUNTIME_DIR": str(self.root / "run"), "TRL_CONFIG": os.devnull,
        }

    def stdio(self) -> list[str]:
        """The command that serves on stdin and stdout, beside the daemon that listens."""
        env = {**self.env(), "TRL_STATE_DIR": str(self.root / "state2"), "TRL_RUNTIME_DIR": str(self.root / "run2")}
        words = [f"{key}={value}" for key, value in env.items()]
        return ["env", "-i", *words, binary(), "serve", "--stdio", "--log-level", "error", *ROOMY]

    def where(self, transport: str) -> dict[str, Any]:
        """The arguments of connect."""
        if transport == "stdio":
            return {"stdio": self.stdio()}
        if transport == "socket":
            return {"socket": self.socket}
        with trl.connect(self.socket) as t:
            token = (self.root / "state" / "token").read_text().split()[-1]
            return {"url": t.call("system.info")["http"], "token": token}

    def start(self) -> None:
        """Start it and wait until it listens."""
        ready, theirs = os.pipe()
        try:
            with open(self.root / "log", "ab") as log:
                self._program = subprocess.Popen(
                    [binary(), "serve", "--ready-fd", str(theirs), *self._args], env=self.env(), pass_fds=[theirs],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            os.close(theirs)
            theirs = -1
            if not os.read(ready, 16):
                raise RuntimeError(f"the daemon did not start:\n{self.log()}")
        finally:
            os.close(ready)
            if theirs >= 0:
                os.close(theirs)

    def log(self) -> str:
        """What it wrote to stderr."""
        return (self.root / "log").read_text(errors="replace")

    def kill(self) -> None:
        """kill -9: the sessions live on."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it as a person would, with all sessions."""
        if self._program is not None:
            assert self._end(signal.SIGTERM) == 0, self.log()

    def remove(self) -> None:
        """Stop it and remove its directories."""
        if self._program is None:
            self.start()  # it ends what a killed one left behind
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def _end(self, how: signal.Signals) -> int:
        assert self._program is not None
        self._program.send_signal(how)
        status = self._program.wait(PATIENCE)
        self._program = None
        return status


@pytest.fixture(scope="session")
def shared() -> Iterator[Daemon]:
    """A daemon for all tests that do it no harm."""
    daemon = Daemon("--http", "127.0.0.1:0", *ROOMY)
    yield daemon
    daemon.remove()


@pytest.fixture(params=["socket", "stdio", "http"])
def transport(request: pytest.FixtureRequest) -> str:
    """Each test that asks for it is run over each of them."""
    return str(request.param)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon for one test, which may kill it."""
    daemon = Daemon()
    yield daemon
    daemon.remove()


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for something of which nothing else tells."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"in vain: {what}"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def nothing_is_left(shared: Daemon) -> Iterator[None]:
    """Every test gives back its threads and descriptors."""
    gc.collect()
    threads, descriptors = set(threading.enumerate()), open_descriptors()
    yield
    gc.collect()
    assert [t for t in threading.enumerate() if t not in threads] == []
    until(lambda: open_descriptors() <= descriptors, f"{open_descriptors() - descriptors} closed")


def open_descriptors() -> set[int]:
    """The descriptors of this process."""
    directory = "/dev/fd"
    return {int(name) for name in os.listdir(directory) if os.path.exists(f"{directory}/{name}")}
