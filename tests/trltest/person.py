# Runs a line of shell at a terminal as a person does, and presses keys until it ends: those of the
# first argument in turn, whenever nothing has been drawn for a moment. The first key waits until the program
# reads single keys. ctrl-c waits for output instead: programs that it ends read no keys.
import fcntl
import os
import pty
import select
import struct
import sys
import termios

keys, line = sys.argv[1].split(), sys.argv[2]


def code(key):
    if key.startswith("ctrl-"):
        return bytes([ord(key[5:].upper()) & 0x1F])
    return b"\r" if key == "enter" else key.encode()


pid, fd = pty.fork()
if pid == 0:
    os.environ["TERM"] = "xterm-256color"
    os.execvp("bash", ["bash", "--noprofile", "--norc", "-c", line])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
drawn, pressed = False, 0
while True:
    if select.select([fd], [], [], 2 if pressed else 0.3)[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:  # Linux: the last process has closed the terminal
            data = b""
        if not data:
            break
        drawn = True
        os.write(1, data)
    elif drawn if keys[0] == "ctrl-c" else not termios.tcgetattr(fd)[3] & termios.ICANON:
        os.write(fd, code(keys[pressed % len(keys)]))
        pressed += 1
status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
if status not in ((0, 130, -2) if keys[0] == "ctrl-c" else (0,)):
    sys.exit(f"{line.strip()}: ended with {status}")
if not pressed:
    sys.exit(f"{line.strip()}: ended before a key was pressed")
