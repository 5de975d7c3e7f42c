#!/usr/bin/env python3
"""Records real programs in a pseudo-terminal, as streams for internal/terminal/vt.

    npm ci && python3 record.py [NAME...]

writes ../../internal/terminal/vt/testdata/real.streams.jsonl.gz and, with the
oracle, real.states.jsonl.gz beside it. With names only those are recorded anew.

The programs run in /tmp/demo with our own content, as user demo on host demo, in
their own PID, mount and UTS namespaces: a recording tells nothing about the
machine it was made on. That takes Linux and root. Queries of the programs are
answered by the oracle, which is the terminal they run in.
"""

import base64
import fcntl
import gzip
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTDATA = os.path.join(HERE, "..", "..", "internal", "terminal", "vt", "testdata")
DEMO = "/tmp/demo"

# What must not be in a recording.
FORBIDDEN = [b"/work/", b"/root"]


class Terminal:
    """One program, the oracle that shows it, and the ops recorded so far."""

    def __init__(self, name, argv, cols=80, rows=24, env=None):
        self.name, self.cols, self.rows, self.ops = name, cols, rows, []
        self.start_size = (cols, rows)
        self.oracle = subprocess.Popen(["node", os.path.join(HERE, "oracle.cjs"), "answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.screen = ""
        self._ask({"open": [cols, rows]})
        environment = {
            "HOME": DEMO, "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "TERM": "xterm-256color", "COLORTERM": "truecolor",
            "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "PS1": "$ ", "USER": "demo", "LOGNAME": "demo", "SHELL": "/bin/sh", "TZ": "UTC",
            "GIT_CONFIG_NOSYSTEM": "1", "HISTFILE": DEMO + "/.history", "LESSHISTFILE": "-", "NODE_REPL_HISTORY": "", "MANPAGER": "less -R",
            "XDG_CONFIG_HOME": DEMO + "/.config", "XDG_DATA_HOME": DEMO + "/.local", "XDG_CACHE_HOME": DEMO + "/.cache",
            "XDG_RUNTIME_DIR": DEMO + "/.run", "TMUX_TMPDIR": DEMO + "/.run",
            **(env or {}),
        }
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            inside = 'mount --bind /tmp/demo/.etc-passwd /etc/passwd; mount --bind /tmp/demo/.etc-group /etc/group; hostname demo; exec "$@"'
            os.chdir(DEMO)
            time.sleep(0.05)  # until the size is set
            os.execve("/usr/bin/unshare", ["unshare", "-m", "-p", "-u", "-f", "--kill-child", "--mount-proc", "sh", "-c", inside, "sh", *argv], environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def _ask(self, op):
        self.oracle.stdin.write(json.dumps(op) + "\n")
        self.oracle.stdin.flush()
        answer = json.loads(self.oracle.stdout.readline())
        self.screen, self.application = answer["screen"], answer["application"]
        return base64.b64decode(answer["reply"])

    def _took(self, data):
        for bad in FORBIDDEN:
            if bad in data:
                raise SystemExit(f"{self.name}: the recording contains {bad!r}")
        if self.ops and "w" in self.ops[-1]:
            self.ops[-1]["w"] += data
        else:
            self.ops.append({"w": data})

    def settle(self, quiet=0.25, limit=15.0):
        """Reads until the program has been silent for a while. False when it has ended."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            ready, _, _ = select.select([self.fd], [], [], quiet)
            if not ready:
                return True
            try:
                data = os.read(self.fd, 65536)
            except OSError:
                return False
            if not data:
                return False
            self._took(data)
            reply = self._ask({"w": base64.b64encode(data).decode()})
            if reply:
                os.write(self.fd, reply)
        return True

    def until(self, text, limit=20.0):
        """Reads until the screen shows a text."""
        end = time.monotonic() + limit
        while text not in self.screen:
            alive = self.settle(0.1, 0.5)
            if text not in self.screen and (not alive or time.monotonic() > end):
                raise SystemExit(f"{self.name}: {text!r} did not appear:\n{self.screen}")
        self.settle()
        return self

    def type(self, *keys, pause=0.0):
        """Types, waits for silence and takes a checkpoint after each piece."""
        for key in keys:
            if pause:
                time.sleep(pause)
            if self.application:
                key = re.sub("\x1b\\[([A-DHF])", "\x1bO\\1", key)
            os.write(self.fd, key.encode())
            alive = self.settle()
            self.check()
            if not alive:
                break
        return self

    def check(self):
        if self.ops and "c" not in self.ops[-1]:
            self.ops.append({"c": 1})
        return self

    def resize(self, cols, rows):
        self.cols, self.rows = cols, rows
        self.ops.append({"r": [cols, rows]})
        self._ask({"r": [cols, rows]})
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.settle()
        return self.check()

    def end(self):
        self.settle(0.5, 5)
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self.pid, 0)
        os.close(self.fd)
        self.oracle.stdin.close()
        self.oracle.wait()
        ops = [{"w": base64.b64encode(op["w"]).decode()} if "w" in op else op for op in self.ops]
        return {"name": "real/" + self.name, "cat": "real", "cols": self.start_size[0], "rows": self.start_size[1], "ops": ops}


def load(path):
    if not os.path.exists(path):
        return {}
    with gzip.open(path, "rt") as f:
        return {s["name"]: s for s in map(json.loads, f)}


def save(path, streams):
    text = "".join(json.dumps(s, separators=(",", ":")) + "\n" for s in streams)
    with open(path, "wb") as f, gzip.GzipFile(fileobj=f, mode="wb", compresslevel=9, mtime=0, filename="") as z:
        z.write(text.encode())


def main(wanted):
    import programs

    os.makedirs(TESTDATA, exist_ok=True)
    target = os.path.join(TESTDATA, "real.streams.jsonl.gz")
    have = load(target)
    unknown = [n for n in wanted if n not in programs.ALL]
    if unknown:
        raise SystemExit(f"no such program: {', '.join(unknown)}; there are: {', '.join(programs.ALL)}")
    for name, script in programs.ALL.items():
        if wanted and name not in wanted:
            continue
        programs.prepare(DEMO)
        stream = script(name)
        have[stream["name"]] = stream
        size = sum(len(op.get("w", "")) * 3 // 4 for op in stream["ops"])
        print(f"{name}: {size} bytes, {sum('c' in op for op in stream['ops'])} checkpoints", flush=True)
        save(target, [have["real/" + n] for n in programs.ALL if "real/" + n in have])
    subprocess.run(["node", os.path.join(HERE, "oracle.cjs"), "states", target, target.replace("streams", "states")], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
