// Package wire_test speaks the line protocol with the real daemon, as text: every
// file testdata/*.txtar is run over the unix socket, over `trl serve --stdio`, over
// WebSocket, over gRPC with each line in a frame, and over HTTP with each line as a
// request of its own.
//
// The comment of a file says what it shows; a line such as "only: socket stdio" in it
// restricts where. Its sections are done one after another:
//
//	-- client --            lines to send; ${name} stands for what was bound to $name, and
//	                        ${agent} for a program that speaks as coding agents do
//	-- raw --               quoted strings to send as they are, `"x" * 1000` repeated
//	-- server --            lines that must come, in this order
//	-- server any order --  lines that must come
//	-- stream name --       the pushes of the stream bound to $name until its exit, the
//	                        pieces of one kind joined: stdout "…", stderr "…", exit {…}
//	-- viewer name --       the next pushes of the stream of session.attach bound to $name:
//	                        snapshot {…}, output "…" in any number of pieces, resize {…}, exit {…}
//	-- dialogue name --     pushes of the stream of dialogue.events bound to $name: for each line
//	                        one whose event is as it says, {…}, or the last, end {…}; what
//	                        comes between is passed over
//	-- end of input --      the client ends its side
//	-- closed --            the server ends the connection
//
// Lines of the server are compared as JSON. In what is expected the string "$name"
// binds the value, or must be what was bound before; "*" is anything, "*string",
// "*number", "*bool", "*list" and "*time" (RFC 3339, UTC) are anything of that kind,
// "*…" followed by a text is a string that contains it. The member "..." allows
// members that are not named.
package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/trl-dev/trl/tests/trltest"
)

// patience bounds a connection, also one that carries megabytes on a busy machine.
const patience = 5 * time.Minute

func TestWire(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, transport := range []string{"socket", "stdio", "websocket", "grpc", "http"} {
			if only := only(archive.Comment); only != nil && !slices.Contains(only, transport) {
				continue
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar")+"/"+transport, func(t *testing.T) {
				s := newScript(t, transport)
				if bytes.Contains(txtar.Format(archive), []byte("${agent}")) {
					s.vars["agent"] = trltest.FakeAgent(t)
				}
				s.run(archive)
			})
		}
	}
}

func only(comment []byte) []string {
	for line := range strings.Lines(string(comment)) {
		if transports, ok := strings.CutPrefix(strings.TrimSpace(line), "only: "); ok {
			return strings.Fields(transports)
		}
	}
	return nil
}

// script is one run of a file.
type script struct {
	t      *testing.T
	out    io.Writer
	lines  *bufio.Reader
	end    func() error
	leave  func()            // breaks the connection
	vars   map[string]string // JSON scalars, strings without their quotes
	where  string            // for messages
	daemon *trltest.Daemon   // nil on stdio

	viewers map[string]*viewed // by the id of their stream
	told    map[string]int64   // the last number of each stream of a dialogue
	aside   []string           // lines that came before they were wanted
}

// newScript starts a daemon with these flags and connects to it.
func newScript(t *testing.T, transport string, args ...string) *script {
	s := &script{t: t, vars: map[string]string{}, viewers: map[string]*viewed{}, told: map[string]int64{}}
	if transport == "websocket" || transport == "http" {
		s.webTransport(transport, args)
		return s
	}
	if transport == "grpc" {
		s.grpcTransport(args)
		return s
	}
	if transport == "stdio" {
		d := trltest.Start(t, trltest.Stdio(), trltest.Args(args...))
		s.out, s.lines, s.end = d.Stdin, bufio.NewReader(d.Stdout), d.Stdin.Close
		watchdog := time.AfterFunc(patience, func() { d.Stdout.Close() })
		t.Cleanup(func() { watchdog.Stop() })
		return s
	}
	d := trltest.Start(t, trltest.Args(args...))
	conn, err := net.Dial("unix", d.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	s.out, s.lines, s.end = conn, bufio.NewReader(conn), conn.(*net.UnixConn).CloseWrite
	s.daemon, s.leave = d, func() { conn.Close() }
	return s
}

func (s *script) run(archive *txtar.Archive) {
	s.t.Helper()
	for i, section := range archive.Files {
		s.where = fmt.Sprintf("section %d (%s)", i+1, section.Name)
		lines := strings.FieldsFunc(string(section.Data), func(r rune) bool { return r == '\n' })
		name, arg, _ := strings.Cut(section.Name, " ")
		switch {
		case name == "client":
			for _, line := range lines {
				s.send(s.expand(line) + "\n")
			}
		case name == "raw":
			for _, line := range lines {
				s.send(s.unquote(line))
			}
		case name == "server" && arg == "":
			for _, line := range lines {
				s.expect(line)
			}
		case section.Name == "server any order":
			s.expectAll(lines)
		case name == "stream":
			s.stream(arg, lines)
		case name == "viewer":
			s.viewer(arg, lines)
		case name == "dialogue":
			s.dialogue(arg, lines)
		case section.Name == "end of input":
			if err := s.end(); err != nil {
				s.fatalf("%s", err)
			}
		case section.Name == "closed":
			if line, err := s.lines.ReadString('\n'); err != io.EOF {
				s.fatalf("got %q, %v; want the end", line, err)
			}
		default:
			s.fatalf("no such kind of section")
		}
	}
}

func (s *script) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s: %s", s.where, fmt.Sprintf(format, args...))
}

var variable = regexp.MustCompile(`\$\{(\w+)\}`)

// expand replaces what is bound and leaves the rest to the shell.
func (s *script) expand(line string) string {
	return variable.ReplaceAllStringFunc(line, func(ref string) string {
		if value, ok := s.vars[ref[2:len(ref)-1]]; ok {
			return value
		}
		return ref
	})
}

// unquote evaluates "text" or "text" * n.
func (s *script) unquote(line string) string {
	quoted, err := strconv.QuotedPrefix(line)
	if err != nil {
		s.fatalf("%s: %s", line, err)
	}
	text, err := strconv.Unquote(quoted)
	if err != nil {
		s.fatalf("%s: %s", line, err)
	}
	if times, ok := strings.CutPrefix(line[len(quoted):], " * "); ok {
		n, err := strconv.Atoi(times)
		if err != nil {
			s.fatalf("%s: %s", line, err)
		}
		return strings.Repeat(text, n)
	}
	return s.expand(text)
}

func (s *script) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.out, text); err != nil {
		s.fatalf("send: %s", err)
	}
}

func (s *script) receive() string {
	s.t.Helper()
	line, err := s.lines.ReadString('\n')
	if err != nil {
		s.fatalf("receive: %s after %q", err, line)
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *script) expect(want string) {
	s.t.Helper()
	got := s.next(func(line string) bool { return !s.forViewer(line) })
	if why := s.match(want, got); why != "" {
		s.fatalf("%s\ngot  %s\nwant %s", why, got, want)
	}
}

// expectAll receives as many lines as are wanted; each must match one of them.
func (s *script) expectAll(want []string) {
	s.t.Helper()
	for len(want) > 0 {
		got := s.next(func(line string) bool { return !s.forViewer(line) })
		found := -1
		for i, w := range want {
			if s.match(w, got) == "" {
				found = i
				break
			}
		}
		if found < 0 {
			s.fatalf("got  %s\nwant one of\n%s", got, strings.Join(want, "\n"))
		}
		want = append(want[:found:found], want[found+1:]...)
	}
}
