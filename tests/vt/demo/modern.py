"""What newer programs use: synchronised output, links, styled underlines, titles, key protocols, queries."""
import os
import sys
import termios
import tty

out = sys.stdout


def step(n, text):
    out.write(text)
    out.write(f"\x1b[0m\r\nstep {n}\r\n")
    out.flush()
    while True:
        b = os.read(0, 1024)
        if b"\r" in b:
            return


old = termios.tcgetattr(0)
tty.setraw(0)
try:
    step(0, "\x1b[?2026h\x1b[2J\x1b[Hsynchronised\x1b[?2026l")
    step(1, "\x1b]8;id=a;https://example.com/orchard\x1b\\a link\x1b]8;;\x1b\\ and \x1b]8;;mailto:demo@example.com\x07mail\x1b]8;;\x07 not")
    step(2, "\x1b[4:1msingle\x1b[4:2m double\x1b[4:3m curly\x1b[4:4m dotted\x1b[4:5m dashed\x1b[58:2::255:80:0m coloured\x1b[58:5:33m palette\x1b[59m plain\x1b[24m none \x1b[53moverline\x1b[55m")
    step(3, "\x1b]0;✳ title — “quoted”\x07\x1b[22;0t\x1b]2;second 日本\x1b\\\x1b[23;0t")
    step(4, "\x1b[>1u\x1b[?u\x1b[=5;1u\x1b[>31u\x1b[<1u\x1b[>4;2m\x1b[?4m\x1b[>c\x1b[c\x1b[>q\x1b[6n\x1b[?2004$p\x1b]10;?\x07\x1b]11;?\x1b\\\x1bP$qm\x1b\\")
    step(5, "\x1b[?2004h\x1b[?1004h\x1b[?1002h\x1b[?1006h\x1b[?2031h\x1b[?1h\x1b=")
    step(6, "\x1b[5 q\x1b]7;file://demo/tmp/demo\x1b\\\x1b]133;A\x07prompt\x1b]133;B\x07 typed\x1b]133;C\x07 output\x1b]133;D;0\x07")
    step(7, "".join(f"\x1b[38;2;{i * 4};{255 - i * 4};128m▀\x1b[48:2::{i * 3}:0:90m" for i in range(60)))
    step(8, "\x1b(0lqqqk\r\nx\x0e   \x0fx\r\nmqqqj\x1b(B\x1b)0\x0eaffgg\x0f")
    step(9, "\x1b[3g\x1b[5G\x1bH\x1b[15G\x1bH\x1b[30G\x1bH\r\tone\ttwo\tthree\x1b[2;9r\x1b[?6h\x1b[Hin region\x1b[?6l\x1b[r\x1b[10;1H")
    step(10, "\x1b[1;2;3;5;7;8;9mall\x1b[22;23;25;27;28;29m \x1b[41mred\x1b[K\r\n\x1b[44mblue to the end\x1b[J\x1b[49m")
    step(11, "e\u0301\u0323 👩\u200d🚀 ❤\ufe0f 각 \u202eabc 日本語" + "日" * 40)
    step(12, "\x1b[?1049hon the other screen\x1b[3;3H\x1b[1;35mpink\x1b7\x1b[5;5H")
    step(13, "\x1b8after restore\x1b[?1049l\x1b[?1l\x1b>\x1b[?1002l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[>4m\x1b[0 q")
finally:
    termios.tcsetattr(0, termios.TCSANOW, old)
