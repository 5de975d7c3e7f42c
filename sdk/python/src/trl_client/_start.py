"""Starts the daemon of this user when none runs, as the command line does."""

from __future__ import annotations

import errno
import os
import subprocess

from .errors import ConnectionLost

START_PATIENCE_S = 30.0
"""How long a daemon may take to serve."""

STOPPED = "stopped"
"""The reason of an error because a user stopped the daemon, and only a new call may start another."""


def absent(cause: OSError) -> bool:
    """Report whether no daemon listens on the socket."""
    return cause.errno in (errno.ENOENT, errno.ECONNREFUSED)


def stopped(path: str) -> ConnectionLost:
    """Return the error of a client that resumes earlier work after a user stopped the daemon."""
    return ConnectionLost(f"daemon at {path}: was stopped", {"reason": STOPPED})


def start_daemon(path: str) -> str:
    """Start a daemon unless one runs; return the path of its socket. The program trl must be on PATH."""
    nobody = f"daemon at {path}: none is running"
    try:
        # In a session of its own, or Ctrl-C on the terminal would interrupt the start halfway.
        done = subprocess.run(
            ["trl", "serve", "--background"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=START_PATIENCE_S, start_new_session=True, env={**os.environ, "NO_COLOR": "1"})
    except FileNotFoundError as e:
        raise ConnectionLost(f"{nobody}, and the program trl that starts one is not on PATH") from e
    except (OSError, subprocess.TimeoutExpired) as e:
        raise ConnectionLost(f"{nobody}, and trl serve --background: {e}") from e
    if done.returncode != 0:
        raise ConnectionLost(f"{nobody}, and none can be started: {done.stderr.decode(errors='replace').strip()}")
    return os.fsdecode(done.stdout).rstrip("\n")
