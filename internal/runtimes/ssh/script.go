package ssh

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/trl-dev/trl/api"
)

// loginCommand is what the login shell of the other machine gets to run. It means the same to sh,
// bash, zsh, fish and csh.
const loginCommand = "exec /bin/sh"

// maxNoise bounds the output of the startup files of a login shell.
const maxNoise = 1 << 20

// shellPatience bounds the start of a login shell, for callers without a deadline.
const shellPatience = time.Minute

// aboutMachine sets b to what identifies the boot of the machine and m to what identifies the
// machine; each is empty if it cannot be known. It starts no program on Linux.
const aboutMachine = `b= m=
if [ -r /proc/sys/kernel/random/boot_id ]; then read -r b </proc/sys/kernel/random/boot_id
elif [ -x /usr/sbin/sysctl ]; then b=$(/usr/sbin/sysctl -n kern.bootsessionuuid 2>/dev/null); fi
[ -r /etc/machine-id ] && read -r m </etc/machine-id
`

// facts identify a machine and its boot. A field is empty if it is not known.
type facts struct {
	Boot    string `json:"boot,omitempty"`
	Machine string `json:"machine,omitempty"`
	OS      string `json:"os,omitempty"` // as GOOS and GOARCH
	Arch    string `json:"arch,omitempty"`
}

// run runs a script in /bin/sh on the other machine. The script calls `say WORD...` once, before it
// reads its stdin and before any output of its own; run returns the words. So the output of startup
// files, which comes first, is never mistaken for that of the script. Nothing may be written to the
// program before run returns: a shell reads its script in large pieces.
func (c *connection) run(ctx context.Context, script string) (*program, []string, error) {
	p, err := c.open(ctx, loginCommand)
	if err != nil {
		return nil, nil, err
	}
	words, err := p.begin(ctx, script)
	if err != nil {
		_ = p.Close()
		return nil, nil, err
	}
	return p, words, nil
}

func (p *program) begin(ctx context.Context, script string) ([]string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, shellPatience, fmt.Errorf("after %s", shellPatience))
	defer cancel()
	// The mark is in two parts, so that an echo of the script does not contain it.
	one, two := rand.Text(), rand.Text()
	say := "say() { printf '%s%s' " + one + " " + two + "; for x; do printf ' %s' \"${x:--}\"; done; echo; }\n"
	past := time.Unix(1, 0)
	stop := context.AfterFunc(ctx, func() {
		_ = p.stdin.SetWriteDeadline(past)
		_ = p.stdout.SetReadDeadline(past)
	})
	_, writeErr := io.WriteString(p.stdin, say+script)
	line, err := p.find([]byte(one + two))
	stopped := stop()
	if err == nil && stopped {
		return strings.Fields(line), nil
	}
	host := p.m.c.t.Destination
	switch {
	case !stopped || errors.Is(err, os.ErrDeadlineExceeded):
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: its login shell has not started /bin/sh (%s): %s", host, context.Cause(ctx), advice(p.said.String()))
	case errors.Is(err, errNoise):
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: the startup files of its login shell print without end", host)
	}
	exit, waitErr := p.Wait()
	if waitErr != nil {
		return nil, waitErr
	}
	said := lastLines(exit.Stderr)
	if said == "" && writeErr != nil {
		said = writeErr.Error()
	}
	return nil, api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: its login shell ended with status %d instead of starting /bin/sh: %s", host, exit.Status, advice(said))
}

func advice(said string) string {
	if said = lastLines(said); said == "" {
		said = "it says nothing"
	}
	return said + "; make sure that this works: ssh HOST exec /bin/sh"
}

var errNoise = errors.New("no mark in the output")

// find reads stdout up to a mark and the rest of its line, which it returns. What was read after the
// line is in ahead.
func (p *program) find(mark []byte) (string, error) {
	var seen []byte
	buf := make([]byte, 4096)
	for len(seen) < maxNoise {
		n, err := p.stdout.Read(buf)
		seen = append(seen, buf[:n]...)
		if _, after, ok := bytes.Cut(seen, mark); ok {
			if line, rest, ok := bytes.Cut(after, []byte("\n")); ok {
				p.ahead = bytes.Clone(rest)
				return string(line), nil
			}
		}
		if err != nil {
			return "", err
		}
	}
	return "", errNoise
}

// line reads one line of stdout.
func (p *program) line() (string, error) {
	var b []byte
	one := make([]byte, 1)
	for len(b) < maxNoise {
		if _, err := io.ReadFull(p, one); err != nil {
			return string(b), err
		}
		if one[0] == '\n' {
			return string(b), nil
		}
		b = append(b, one[0])
	}
	return string(b), errNoise
}

// quote makes one word of /bin/sh.
func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// word returns what `say` printed for a word that may have been empty.
func word(words []string, i int) string {
	if i >= len(words) || words[i] == "-" {
		return ""
	}
	return words[i]
}

// execScript runs a program that is where it is expected, on the same boot of the machine; otherwise
// it ends. Its words are the boot, the machine and whether the program is there.
func execScript(boot string, argv []string) string {
	var b strings.Builder
	b.WriteString("trl() {\n" + aboutMachine)
	fmt.Fprintf(&b, "w=%s p=%s h=missing\n", quote(boot), quote(argv[0]))
	b.WriteString(`[ -x "$p" ] && h=there
say "$b" "$m" $h
[ $h = there ] || exit 0
[ -z "$w" ] || [ -z "$b" ] || [ "$w" = "$b" ] || exit 0
exec`)
	for _, a := range argv {
		b.WriteString(" " + quote(a))
	}
	b.WriteString("\n}\ntrl\n")
	return b.String()
}

// installScript brings the runner to the other machine. Its words are the boot, the machine and what
// uname says. Then it reads two lines, the name of the runner's file and its hash, and answers with a
// line: "have PATH", or "none" and the reasons, or "need DIRECTORY". After the last one it reads the
// runner up to the end of its stdin, and answers "have PATH" or "fail" and the reason. If it reads
// "ping" first, it answers that at once, and brings nothing: the answer to the two lines is then what the
// runner there says about the machine, or "none".
//
// The directories in /var/tmp, /tmp and /dev/shm must belong to this user: others can make them too.
const installScript = `trl() {
umask 077
LC_ALL=C; export LC_ALL
` + aboutMachine + `o=$(uname -s) a=$(uname -m)
[ "$o" = Darwin ] && [ "$(/usr/sbin/sysctl -in hw.optional.arm64 2>/dev/null)" = 1 ] && a=arm64
say "$b" "$m" "$o" "$a"
IFS= read -r f || return 0
look=
if [ "$f" = ping ]; then
  echo ping
  look=1
  IFS= read -r f || return 0
fi
IFS= read -r sum || return 0
u=$(id -u)
set -- "${XDG_CACHE_HOME:-$HOME/.cache}/trl" "$HOME/.trl" "/var/tmp/trl-cache-$u" "/tmp/trl-cache-$u" "/dev/shm/trl-cache-$u"
for d; do
  case $d in /*) ;; *) continue;; esac
  if [ ! -h "$d" ] && [ -O "$d" ] && [ -f "$d/$f" ] && [ -O "$d/$f" ] && [ -x "$d/$f" ]; then
    [ -z "$look" ] || { "$d/$f" check "$sum" || echo none; return 0; }
    touch -c "$d/$f" 2>/dev/null
    printf 'have %s\n' "$d/$f"
    return 0
  fi
done
[ -z "$look" ] || { echo none; return 0; }
why= t=
undo() {
  [ -z "$t" ] || rm -f "$t"
  [ -z "$new" ] || rmdir "$new" 2>/dev/null
  [ -z "$above" ] || rmdir "$above" 2>/dev/null
  t=
}
# A shell takes an empty file for a script that succeeds.
checked() { case $e in *'"protocol"'*) ;; *) e="the copy is incomplete $e"; return 1;; esac; }
trap undo 0
trap 'exit 1' 1 2 13 15
for d; do
  case $d in /*) ;; *) continue;; esac
  new= above=
  [ -d "$d" ] || new=$d
  [ -d "${d%/*}" ] || above=${d%/*}
  e=$(mkdir -p -m 700 "$d" 2>&1) || { why="$why; $e"; continue; }
  if [ -h "$d" ] || [ ! -O "$d" ]; then why="$why; $d: belongs to another user"; continue; fi
  t=$d/.$f.$$
  if e=$( { printf '#!/bin/sh\nexit 0\n' >"$t" && chmod 700 "$t"; } 2>&1 ) && e=$("$t" 2>&1); then break; fi
  undo
  why="$why; $d: ${e:-programs cannot be started there}"
done
if [ -z "$t" ]; then printf 'none %s\n' "$(printf '%s' "$why" | tr '\n' ' ')"; return 0; fi
printf 'need %s\n' "$d"
if e=$(cat 2>&1 >"$t") && chmod 700 "$t" && e=$("$t" check "$sum" 2>&1) && checked && e=$(mv -f "$t" "$d/$f" 2>&1); then
  t= new= above=
  printf 'have %s\n' "$d/$f"
  find "$d" -type f \( -name 'trl-runner-*' -mtime +30 -o -name '.trl-runner-*' -mtime +1 \) ! -name "$f" -exec rm -f {} \; 2>/dev/null
  return 0
fi
undo
printf 'fail %s\n' "$(printf '%s' "$e" | tr '\n' ' ')"
}
trl
`
