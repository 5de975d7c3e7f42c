"""The programs that record.py records, what is typed into them, and the files they see."""

import os
import shutil
import subprocess

from record import DEMO, HERE, Terminal

CTRL = {c: chr(ord(c) - 64) for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
ESC, UP, DOWN, RIGHT, LEFT = "\x1b", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"
PGDN, PGUP, HOME, END = "\x1b[6~", "\x1b[5~", "\x1b[H", "\x1b[F"
F = {1: "\x1bOP", 2: "\x1bOQ", 3: "\x1bOR", 4: "\x1bOS", 5: "\x1b[15~", 6: "\x1b[17~", 7: "\x1b[18~", 8: "\x1b[19~", 9: "\x1b[20~", 10: "\x1b[21~"}

GO = '''package orchard

import "fmt"

// Tree is one tree of the orchard.
type Tree struct {
\tKind   string
\tApples int // since the last harvest
}

// Shake makes a tree drop what is ripe.
func (t *Tree) Shake(force float64) (dropped int) {
\tfor range int(force * 10) {
\t\tif t.Apples == 0 {
\t\t\tbreak // nothing left
\t\t}
\t\tt.Apples--
\t\tdropped++
\t}
\tfmt.Printf("%s: %d dropped, %d left\\n", t.Kind, dropped, t.Apples)
\treturn dropped
}
'''

WORLD = '''plain   The quick brown fox.
accents naïve café Ångström, combining: e\u0301 a\u0308 o\u0302\u0323 n\u0303
greek   αβγδε ΩΨΧ   cyrillic  Привет, мир
cjk     日本語のテキスト 中文文本 한국어 텍스트
wide    ｆｕｌｌｗｉｄｔｈ ① ② ③ half ｱｲｳ
emoji   😀 🚀 ✅ ❤️ 👩‍🚀 👍🏽 🇪🇺 … — “quotes”
boxes   ┌──┬──┐ ╔══╦══╗ ▁▂▃▄▅▆▇█ ░▒▓ ⠋⠙⠹⠸
hebrew  שלום   arabic  سلام   thai ภาษาไทย   hindi नमस्ते
'''

MANUAL = '''.TH ORCHARD 1 "2026-01-01" "orchard 1.0" "Demo Manual"
.SH NAME
orchard \\- counts apples
.SH SYNOPSIS
.B orchard
[\\fB\\-f\\fR \\fIforce\\fR] [\\fB\\-\\-kind\\fR \\fIname\\fR] \\fItree\\fR...
.SH DESCRIPTION
.B orchard
shakes every
.I tree
and counts what falls. A tree that was shaken rests for a day; a second call on the same day says so and leaves it alone.
'''


def prepare(demo):
    """Makes the directory anew, so that one recording does not see what another left."""
    shutil.rmtree(demo, ignore_errors=True)
    for d in ["", ".config", ".local", ".cache", ".run", "notes", "photos", "notes/old"]:
        os.makedirs(os.path.join(demo, d), mode=0o700, exist_ok=True)

    def write(name, text):
        with open(os.path.join(demo, name), "w") as f:
            f.write(text)

    write(".etc-passwd", "demo:x:0:0:Demo:/tmp/demo:/bin/sh\n")
    write(".etc-group", "demo:x:0:\n")
    write("orchard.go", GO)
    write("world.txt", WORLD)
    write("long.txt", "".join(f"{i:4} " + " ".join(["apple", "pear", "quince", "plum", "cherry"][(i + k) % 5] for k in range(i % 29)) + "\n" for i in range(400)))
    options = "".join(f".TP\n\\fB\\-{c}\\fR \\fIvalue{c}\\fR\nWhat option {c} does: it changes the way in which apples are counted, and how.\n" for c in "abcdefghijklmnop")
    write("orchard.1", MANUAL + ".SH OPTIONS\n" + options)
    for n in ["apple", "birch", "cedar"]:
        write(f"notes/{n}.txt", f"A note about {n}.\n" * 12)
        write(f"photos/{n}.png", "")
    write("run.sh", "#!/bin/sh\necho run\n")
    os.chmod(os.path.join(demo, "run.sh"), 0o755)
    os.symlink("notes", os.path.join(demo, "latest"))
    write(".bashrc", "PS1='\\[\\e[1;32m\\]demo\\[\\e[0m\\] $ '\nalias ls='ls --color=auto'\n")
    write(".zshrc", "PROMPT='%F{cyan}%~%f %# '\nRPROMPT='%F{yellow}%?%f'\nautoload -Uz compinit && compinit -u -d /tmp/demo/.zcompdump\nzstyle ':completion:*' menu select\n")
    write(".vimrc", "set nocompatible nomodeline ruler showcmd number hlsearch incsearch laststatus=2 mouse=a background=dark viminfo= noswapfile shortmess+=I\nsyntax on\n")
    os.makedirs(os.path.join(demo, ".config/mc"))
    write(".config/mc/ini", "[Layout]\nfree_space=false\n[Midnight-Commander]\nskin=default\n")
    write(".nanorc", "set linenumbers\nset softwrap\n")
    write(".tmux.conf", "set -g default-shell /bin/sh\nset -g status-right 'demo'\nset -g default-terminal 'screen-256color'\nset -g mouse on\nset -g status-interval 0\n")
    for name in ["ink.mjs", "window.py", "bars.py", "modern.py"]:
        shutil.copy(os.path.join(HERE, "demo", name), demo)
    if os.path.exists(os.path.join(HERE, "demo", "node_modules")):
        shutil.copytree(os.path.join(HERE, "demo", "node_modules"), os.path.join(demo, "node_modules"), symlinks=True)
    repository(os.path.join(demo, "repo"))


def repository(path):
    """A git repository with a few branches and merges, the same every time."""
    os.makedirs(path)
    env = {"PATH": os.environ["PATH"], "HOME": DEMO, "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "Demo", "GIT_AUTHOR_EMAIL": "demo@example.com",
           "GIT_COMMITTER_NAME": "Demo", "GIT_COMMITTER_EMAIL": "demo@example.com"}
    clock = [1767225600]

    def git(*args):
        clock[0] += 3600
        subprocess.run(["git", *args], cwd=path, env={**env, "GIT_AUTHOR_DATE": f"{clock[0]} +0000", "GIT_COMMITTER_DATE": f"{clock[0]} +0000"}, check=True, capture_output=True)

    def change(name, text, message):
        with open(os.path.join(path, name), "a") as f:
            f.write(text)
        git("add", name)
        git("commit", "-m", message)

    git("init", "-b", "main")
    change("tree.go", GO, "orchard: trees can be shaken")
    change("world.txt", WORLD, "orchard: words of the world ✳ 日本")
    git("checkout", "-b", "pears")
    change("pear.txt", "pear\n" * 5, "pears: plant five")
    change("pear.txt", "conference\n", "pears: name one, and a subject that is so long that it does not fit into one row of a usual terminal")
    git("checkout", "main")
    change("tree.go", "\nfunc (t *Tree) Water() {}\n", "orchard: water")
    git("merge", "--no-ff", "-m", "merge pears", "pears")
    git("checkout", "-b", "plums", "HEAD~1")
    change("plum.txt", "plum\n", "plums: plant one")
    git("checkout", "main")
    git("merge", "--no-ff", "-m", "merge plums", "plums")
    git("tag", "v1.0")
    for i in range(12):
        change("log.txt", f"day {i}: {i * 7 % 5} apples\n", f"log: day {i}")
    with open(os.path.join(path, "tree.go"), "w") as f:
        f.write(GO.replace("Apples int", "Fruit  int").replace("dropped++", "dropped += 1"))


def vim_edit(name):
    t = Terminal(name, ["vim", "orchard.go"]).until("package orchard").check()
    t.type("5G", "O", "// A line that is new", ESC, "dd", "u", "3p", "/Apples\r", "n", "N", ":%s/dropped/fallen/gc\r", "y", "a", "gg", "V5jd", "u", "ggvG$", ESC)
    t.type(":set list\r", ":set nonumber\r", "zz", CTRL["D"], CTRL["U"], "10x", "P", "i", "typed text \x08\x08", CTRL["V"] + "u2713", ESC, ":q!\r")
    return t.end()


def vim_splits(name):
    t = Terminal(name, ["vim", "orchard.go"]).until("package orchard").check()
    t.type(":vs world.txt\r", CTRL["W"] + "l", ":sp long.txt\r", "G", CTRL["W"] + "j", "jjj")
    t.resize(100, 30).resize(60, 18)
    t.type(CTRL["W"] + "=", CTRL["W"] + "h", CTRL["E"] * 3, "gg", "5dd", "p", CTRL["W"] + "s", CTRL["W"] + "t")
    t.resize(40, 10).resize(90, 28)
    t.type(":only\r", ":tabnew notes/apple.txt\r", "gt", ":tabclose\r", ":qa!\r")
    return t.end()


def vim_world(name):
    t = Terminal(name, ["vim", "world.txt"], 60, 16).until("plain").check()
    t.type("4G", "w", "x", "u", "A日本", ESC, "0", "i😀 ", ESC, "5G$", "J", "u", "ggVG", "~", "u", ":set nowrap\r", "20zl", ":set wrap\r", "Go" + "字" * 70 + ESC, "gk", "gg")
    t.resize(41, 12)
    t.type("G$", "a…—", ESC, CTRL["V"] + "kk", "r-", ":q!\r")
    return t.end()


def vim_terminal_features(name):
    t = Terminal(name, ["vim", "-c", "set title cursorline", "-c", "let &t_SI=\"\\e[6 q\"", "-c", "let &t_EI=\"\\e[2 q\"", "-c", "set termguicolors", "orchard.go"], 72, 20)
    t.until("package").check()
    t.type("i", "x", ESC, "j", "\x1b[<0;10;5M\x1b[<0;10;5m", "\x1b[<64;10;5M", ":!echo from the shell\r", "\r", ":r !seq 30\r", CTRL["Z"])
    return t.end()


def less_(name):
    t = Terminal(name, ["less", "-N", "long.txt"]).until("long.txt").check()
    t.type(" ", " ", "b", "j", "j", "k", "k", "/quince\r", "n", "n", "G", "g", "50%", "d", "u")
    t.resize(60, 20)
    t.type(" ", "-S", "\r", RIGHT, LEFT, "y", "y", "h", "q", "G", "q")
    return t.end()


def less_colour(name):
    t = Terminal(name, ["sh", "-c", "cd repo && git -c color.ui=always log -p | less -R"], 90, 25).until(":").check()
    t.type(" ", " ", "j", "k", "/day\r", "n", "b")
    t.resize(70, 15)
    t.type("G", "q")
    return t.end()


def man(name):
    t = Terminal(name, ["man", "./orchard.1"], 78, 22).until("SYNOPSIS").check()
    t.type(" ", "j", "/option\r", "n", "g")
    t.resize(50, 22)
    t.type("G", "q")
    return t.end()


def git(name):
    t = Terminal(name, ["bash", "--norc", "-i"]).until("$").check()
    t.type("cd repo; export GIT_PAGER=cat\r", "git log --oneline --graph --color --decorate\r", "git diff --color\r", "git status\r", "git show --stat --color HEAD~13\r", "git diff --color-words\r")
    t.resize(50, 24)
    t.type("git log --graph --color -3\r", "git branch -av --color\r", "git blame tree.go | head -5\r", "exit\r")
    return t.end()


def git_pager(name):
    t = Terminal(name, ["sh", "-c", "cd repo && git log --graph --all --color --stat"], 80, 24, {"GIT_PAGER": "less -FRX"}).until(":").check()
    t.type(" ", " ", "b", "/plum\r", "q")
    return t.end()


def top(name):
    t = Terminal(name, ["top", "-d", "1"]).until("COMMAND").check()
    t.type("1", "c", "M", "x", "z", "V", "h", "q", "E", "f", "q")
    t.resize(100, 30).resize(60, 12)
    t.type("q")
    return t.end()


def htop(name):
    t = Terminal(name, ["sh", "-c", "sleep 60 & sleep 70 & htop -d 20; kill %1 %2"]).until("F10").check()
    t.type(F[5], DOWN, DOWN, F[6], DOWN, "\r", "\x1b[<0;12;9M\x1b[<0;12;9m", F[3] + "sle", ESC, F[4] + "ht", "\r", F[2], DOWN, RIGHT, ESC)
    t.resize(100, 30).resize(64, 16)
    t.type("H", " ", "t", "q")
    return t.end()


def mc(name):
    t = Terminal(name, ["mc", "-a", "-u"], 80, 25).until("Quit").check()
    t.type(DOWN, DOWN, "\t", DOWN, F[9], RIGHT, "\r", ESC + ESC, F[5], ESC + ESC, "\x1b[<0;5;5M\x1b[<0;5;5m")
    t.resize(100, 30).resize(70, 20)
    t.type(CTRL["O"], CTRL["O"], CTRL["S"] + "wor", F[3], PGDN, F[10], F[4], "typed", F[10], RIGHT, "\r", F[10], "\r")
    return t.end()


def mc_lines(name):
    t = Terminal(name, ["mc"], 76, 22, {"TERM": "xterm", "LC_ALL": "C", "COLORTERM": ""}).until("Quit").check()
    t.type(DOWN, F[9], DOWN, F[1], F[10], F[8], ESC + ESC, F[10], "\r")
    return t.end()


def nano(name):
    t = Terminal(name, ["nano", "orchard.go"], 76, 22).until("Exit").check()
    t.type(DOWN * 3, "new text ", CTRL["K"], CTRL["K"], CTRL["U"], CTRL["W"] + "Tree\r", "\x1b6", CTRL["U"], "\x1f", "12\r", CTRL["G"], CTRL["X"])
    t.resize(50, 14)
    t.type("日本語 wide " * 6, PGDN, PGUP, CTRL["X"], "n")
    return t.end()


def tmux(name):
    t = Terminal(name, ["tmux", "-f", ".tmux.conf", "new-session", "-s", "demo", "sh"]).until("demo").check()
    b = CTRL["B"]
    t.type("ls -la --color | tail -5\r", b + '"', "seq 40\r", b + "%", "cat world.txt\r", b + "o", b + "z", b + "z", b + "[", PGUP, UP + UP, "q")
    t.resize(100, 30).resize(60, 20)
    t.type("printf '\\033[1;3;4;9;38;5;208mstyled\\033[0m\\n'\r", b + "c", "echo second\r", b + "n", b + "w", DOWN, "\r", b + " ", b + ":kill-server\r")
    return t.end()


def tmux_nested(name):
    t = Terminal(name, ["tmux", "-f", ".tmux.conf", "new-session", "-s", "demo", "vim orchard.go"], 84, 26).until("package").check()
    b = CTRL["B"]
    t.type("5j", "ihello" + ESC, b + "%", "less long.txt\r", " ", b + "o", "G", b + "o", "/plum\r", "q", "for i in 1 2 3 4 5 6 7 8; do echo line $i; done\r")
    t.resize(70, 20)
    t.type(b + ":kill-server\r")
    return t.end()


def bash(name):
    t = Terminal(name, ["bash", "-i"]).until("demo").check()
    t.type("echo one two three", CTRL["A"], "X", CTRL["E"], CTRL["W"], CTRL["Y"], CTRL["U"], "ls\r", "ls no", "\t", "\t\t", CTRL["C"])
    t.type("echo " + "a long line that wraps around the edge of the terminal " * 3, CTRL["A"], "\x1bf\x1bf", "INSERTED ", CTRL["E"], "\r")
    t.type(CTRL["R"] + "long", CTRL["G"], UP, UP, DOWN, CTRL["C"], "cat world.txt\r", "echo '日本語" + LEFT * 2, "x", END, "'\r", CTRL["L"])
    t.type("for i in $(seq 60); do printf '\\033[3%dmline %d\\033[0m\\n' $((i%8)) $i; done\r", "echo " + "wrap" * 25)
    t.resize(60, 20).resize(100, 24)
    t.type("\r", "clear\r", "printf 'no newline'\r", "tput cup 5 10; echo there; tput smcup; echo alt; tput rmcup\r", "exit\r")
    return t.end()


def zsh(name):
    t = Terminal(name, ["zsh", "-i"], 70, 20, {"HOME": DEMO, "ZDOTDIR": DEMO}).until("~").check()
    t.type("ls ", "\t", "\t", "\t", CTRL["C"], "echo $((6*7))\r", "echo " + "long words here " * 8, CTRL["A"], "\x1bf", "X", CTRL["C"])
    t.type("print -P '%B%F{red}bold red%f%b'\r", "false\r", "for i in 1 2 3\rdo echo $i\rdone\r", CTRL["R"] + "print", "\r", "cat world.txt\r", "echo 日本語 wide", CTRL["B"] * 3, "Z", CTRL["C"])
    t.resize(50, 20).resize(90, 22)
    t.type("clear\r", "exit\r")
    return t.end()


def fish(name):
    t = Terminal(name, ["fish", "--no-config", "-i"], 76, 20).until("~").check()
    t.type("echo hello\r", "ec", "\x1b[C", "\r", "ls no", "\t", "\t", CTRL["C"], "cat wor", "\t", "\r", "for i in (seq 3)\r", "echo $i\r", "end\r", "notacommand\r")
    t.type("echo " + "many words that wrap " * 6, CTRL["A"], "#", CTRL["C"], CTRL["R"], ESC, UP, UP, CTRL["C"])
    t.resize(50, 16).resize(90, 20)
    t.type(CTRL["L"], "exit\r")
    return t.end()


def python(name):
    t = Terminal(name, ["/usr/bin/python3", "-q"]).until(">>>").check()
    t.type("import sys\r", "for i in range(5):\r    print(i, '日本')\r\r", "{n: n*n for n in range(30)}\r", "1/0\r", "'long ' * 40\r", UP, UP, CTRL["C"], "str.i", "\t\t", CTRL["C"])
    t.type("print('\\x1b[7minverse\\x1b[0m \\x1b[4:3mcurly')\r", "help\r")
    t.resize(50, 18)
    t.type("print('x' * 170)\r", "exit()\r")
    return t.end()


def node(name):
    t = Terminal(name, [shutil.which("node"), "--no-warnings"], 72, 20).until(">").check()
    t.type("1 + 1\r", "[1,2,3].map(", "\t", "x => x * 2)\r", "({a: 1, b: 'two', c: [1, null, undefined], d: /re/, e: new Map([[1, 2]])})\r", "Math.", "\t\t", CTRL["C"])
    t.type("const f = (a) => {\r", "return a + 1\r", "}\r", "f(41)\r", "'ab'.re", CTRL["C"], "throw new Error('demo')\r", UP, UP, CTRL["C"], ".help\r")
    t.resize(48, 16)
    t.type("'wide 日本語 ' + 'text '.repeat(20)\r", ".exit\r")
    return t.end()


def ink(name):
    t = Terminal(name, [shutil.which("node"), "ink.mjs"], 70, 22).until("harvest").check()
    t.type(DOWN, DOWN, UP, "\r", pause=0.3)
    t.resize(48, 22).resize(90, 26)
    t.type("日本 typed", "\x7f\x7f", DOWN, "\r", pause=0.3)
    t.type("q", pause=0.5)
    return t.end()


def ink_small(name):
    t = Terminal(name, [shutil.which("node"), "ink.mjs"], 34, 8).until("columns").check()
    t.type(DOWN, "\r", pause=0.3)
    t.resize(28, 6).resize(50, 12)
    t.type("q", pause=0.5)
    return t.end()


def window(name):
    t = Terminal(name, ["/usr/bin/python3", "window.py"], 70, 20).until("orchard").check()
    t.type(DOWN, DOWN, "s", "s", "b", "p", "i", "d", "w", "x", "l", "h")
    t.resize(90, 26).resize(50, 14)
    t.type("r", "s", "q")
    return t.end()


def bars(name):
    t = Terminal(name, ["/usr/bin/python3", "bars.py"], 64, 14).until("all done").check()
    return t.end()


def modern(name):
    t = Terminal(name, ["/usr/bin/python3", "modern.py"], 66, 18)
    for step in range(12):
        t.until(f"step {step}").check()
        t.type("\r")
    t.resize(50, 18).resize(80, 24)
    t.type("\r", "\r")
    return t.end()


def history(name):
    t = Terminal(name, ["bash", "--norc", "-i"], 80, 24).until("$").check()
    t.type("for i in $(seq 300); do printf '%d \\033[38;5;%dm%s\\033[0m %s\\n' $i $((i % 256)) \"$(head -c $((i % 150)) /dev/zero | tr '\\0' x)\" end; done\r")
    t.resize(50, 24).resize(120, 30).resize(33, 10).resize(80, 24)
    t.type("ls --color -la\r", "cat world.txt world.txt world.txt\r")
    t.resize(24, 24).resize(80, 12)
    t.type("exit\r")
    return t.end()


def watch(name):
    t = Terminal(name, ["watch", "-c", "-n", "1", "printf '\\033[32mapples\\033[0m '; ls -1 --color=always | head -12"], 60, 16).until("apples").check()
    t.settle(1.3)
    t.check().resize(40, 10)
    t.settle(1.3)
    t.check().type(CTRL["C"])
    return t.end()


def gdb(name):
    t = Terminal(name, ["gdb", "-q", "-nx", "/bin/true"], 80, 24).until("(gdb)").check()
    t.type("set pagination off\r", "info line\r", "layout asm\r", "help info lin\r", "tui disable\r", "print 6*7\r", "info sh", "\t\t", CTRL["C"], "layout regs\r")
    t.resize(60, 20)
    t.type("quit\r")
    return t.end()


ALL = {
    "vim-edit": vim_edit, "vim-splits": vim_splits, "vim-world": vim_world, "vim-features": vim_terminal_features,
    "less": less_, "less-colour": less_colour, "man": man, "git": git, "git-pager": git_pager, "top": top, "htop": htop,
    "mc": mc, "mc-lines": mc_lines, "nano": nano, "tmux": tmux, "tmux-nested": tmux_nested,
    "bash": bash, "zsh": zsh, "fish": fish, "python": python, "node": node, "ink": ink, "ink-small": ink_small,
    "curses": window, "bars": bars, "modern": modern, "history": history, "watch": watch, "gdb": gdb,
}
