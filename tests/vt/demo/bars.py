"""Progress bars in the usual ways: carriage return, several rows with cursor up, a spinner, a reserved last row."""
import sys
import time

out = sys.stdout


def say(text):
    out.write(text)
    out.flush()
    time.sleep(0.01)


for i in range(0, 101, 4):
    say(f"\r{i:3}%|{'█' * (i // 4)}{'▏▎▍▌▋▊▉'[i % 7]}{' ' * (25 - i // 4)}| {i}/100 [00:0{i // 20}, 9.7it/s]")
say("\n")
say("\n\n\n")
for i in range(30):
    say("\x1b[3A")
    for k, (name, colour) in enumerate([("fetch", 32), ("build", 33), ("日本", 36)]):
        n = min(20, i - k * 3) if i > k * 3 else 0
        say(f"\x1b[2K\x1b[{colour}m{name:8}\x1b[0m [{'=' * n}{'>' if n < 20 else ''}{' ' * (20 - n)}]\n")
for frame in "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" * 2:
    say(f"\r\x1b[35m{frame}\x1b[39m working…\x1b[K")
say("\r\x1b[32m✔\x1b[0m worked\x1b[K\n")
say("\x1b7\x1b[1;13r\x1b8")
for i in range(25):
    say(f"unpacking part {i} of 25\n\x1b7\x1b[14;1H\x1b[42;30mProgress: [{i * 4:3}%]\x1b[49;39m [{'#' * i}{'.' * (24 - i)}]\x1b[K\x1b8")
say("\x1b7\x1b[1;14r\x1b8\x1b[J")
for i in range(3):
    say("\x1b[?25l" + "".join(f"\x1b[48;2;{i * 80};{x * 4};{255 - x * 4}m " for x in range(64)) + "\x1b[0m\n\x1b[?25h")
say("all done\n")
