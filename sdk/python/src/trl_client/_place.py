"""Finds the daemon of this user as the command line does: by the user id, not by variables.

Callers with different environments (a desktop, cron, su, an MCP client) must find the same daemon.
"""

from __future__ import annotations

import os
import pwd
import socket
import stat
import struct
import sys


class Stranger(OSError):
    """A socket of another user."""

    def __init__(self, uid: int) -> None:
        super().__init__(f"belongs to another user: to uid {uid}, and you are uid {os.getuid()}")


def default_socket() -> str:
    """Where the daemon of this user listens.

    TRL_SOCKET_PATH; else trl/trl.sock in /run/user/<uid>, or /tmp/trl-<uid>/trl.sock, or where the daemon that
    uses the state directory listens, whichever exists.
    """
    if path := os.environ.get("TRL_SOCKET_PATH"):
        return path
    uid = os.getuid()
    paths = [f"/tmp/trl-{uid}/trl.sock"]
    login = f"/run/user/{uid}"
    if _owned_dir(login, uid):
        paths.insert(0, f"{login}/trl/trl.sock")
    first = paths[0]
    _, holder = _holder()
    if holder:
        paths.append(holder)
    return next((path for path in paths if _is_socket(path)), first)


def was_stopped() -> bool:
    """Report whether the last daemon of this user was stopped on purpose. One that crashed was not."""
    state, _ = _holder()
    return state == "stopping"


def check_owner(uid: int) -> None:
    """Reject a daemon of another user, which would receive commands and variables; root is trusted."""
    if uid not in (os.getuid(), 0):
        raise Stranger(uid)


def check_socket(path: str) -> None:
    """Refuse a socket of another user. If there is no socket, connecting reports that."""
    try:
        uid = os.stat(path).st_uid
    except OSError:
        return
    check_owner(uid)


def check_peer(sock: socket.socket) -> None:
    """Refuse a daemon of another user, if the system reports its user."""
    if sys.platform == "linux":
        _, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        check_owner(uid)
    elif sys.platform == "darwin":
        # struct xucred of SOL_LOCAL, LOCAL_PEERCRED: its version, then the user id.
        _, uid = struct.unpack_from("=2I", sock.getsockopt(0, 1, 76))
        check_owner(uid)


def _state_dir() -> str:
    if path := os.environ.get("TRL_STATE_DIR"):
        return path
    account = _account_home()
    if _usable_home(account) and account != "/" and _creatable(_state_in(account)):
        return _state_in(account)
    for home in (os.environ.get("HOME", ""), account):
        if _usable_home(home):
            return _state_in(home)
    return f"/tmp/trl-{os.getuid()}/state"


def _state_in(home: str) -> str:
    return os.path.join(home, ".local", "state", "trl")


def _account_home() -> str:
    """The home directory in the user database. The daemon reads no other than /etc/passwd on Linux."""
    if sys.platform != "linux":
        try:
            return pwd.getpwuid(os.getuid()).pw_dir
        except KeyError:
            return ""
    try:
        with open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as database:
            for line in database:
                fields = line.strip().split(":")
                if len(fields) == 7 and fields[2] == str(os.getuid()) and fields[0] and fields[0][0] not in "#+-":
                    return fields[5]
    except OSError:
        pass
    return ""


def _usable_home(home: str) -> bool:
    if not os.path.isabs(home) or not os.path.isdir(home):
        return False
    return os.stat(home).st_uid == os.getuid() or os.getuid() != 0 and os.access(home, os.W_OK | os.X_OK)


def _creatable(directory: str) -> bool:
    while not os.path.exists(directory):
        directory = os.path.dirname(directory)
    return os.access(directory, os.W_OK | os.X_OK)


def _holder() -> tuple[str, str]:
    """Return what the last holder of the state directory's lock wrote into it: its state and its socket, or ""."""
    try:
        with open(os.path.join(_state_dir(), "lock"), encoding="utf-8", errors="surrogateescape") as lock:
            if os.fstat(lock.fileno()).st_uid != os.getuid():
                return "", ""
            words = lock.readline().rstrip("\n").split(" ", 2)
    except OSError:
        return "", ""
    if len(words) < 2 or words[0] not in ("running", "stopping"):
        return "", ""
    return words[0], words[2] if len(words) == 3 else ""


def _owned_dir(path: str, uid: int) -> bool:
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == uid and not info.st_mode & 0o022


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False
