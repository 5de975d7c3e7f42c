package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// TestScripts plays the transcripts *.txtar. The comment of an archive is the
// transcript, its files are put into the working directory first.
//
//	Text that is not indented is for the reader.
//
//	  $ trl run 'echo hello; exit 3'     a command, run by sh, its output on both streams
//	  > and its next line, if any
//	  hello                              what it prints,
//	  x-[0-9a-f]+ (re)                   as it is or as a regular expression
//	  [3]                                the exit status, if not 0
//
//	  tty$ trl ls                        the same on a terminal of 100 columns
//
// $DIR in the output stands for the directory of the sandbox. A file whose name ends in _linux is for Linux alone.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_linux.txtar") && runtime.GOOS != "linux" {
			continue
		}
		t.Run(strings.TrimSuffix(file, ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s := newSandbox(t)
			if strings.HasPrefix(file, "dialogue") {
				s.addAgent(t)
			}
			for _, f := range archive.Files {
				path := filepath.Join(s.work, f.Name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			for _, st := range steps(string(archive.Comment)) {
				s.play(t, file, st)
			}
		})
	}
}

// step is one command of a transcript and what it must print.
type step struct {
	line    int
	tty     bool
	command string
	want    []string
	status  int
}

var statusLine = regexp.MustCompile(`^\[(\d+)\]$`)

func steps(transcript string) []step {
	var list []step
	for i, line := range strings.Split(transcript, "\n") {
		text, indented := strings.CutPrefix(line, "  ")
		if !indented {
			continue
		}
		if command, ok := strings.CutPrefix(text, "$ "); ok {
			list = append(list, step{line: i + 1, command: command})
			continue
		}
		if command, ok := strings.CutPrefix(text, "tty$ "); ok {
			list = append(list, step{line: i + 1, command: command, tty: true})
			continue
		}
		st := &list[len(list)-1]
		if more, ok := strings.CutPrefix(text, "> "); ok && len(st.want) == 0 {
			st.command += "\n" + more
			continue
		}
		if m := statusLine.FindStringSubmatch(text); m != nil {
			st.status, _ = strconv.Atoi(m[1])
			continue
		}
		st.want = append(st.want, text)
	}
	return list
}

// play runs one step and compares.
func (s *sandbox) play(t *testing.T, file string, st step) {
	t.Helper()
	var printed string
	var status int
	if st.tty {
		printed, status = s.onTerminal(t, s.command("/bin/sh", "-c", st.command)).all(t)
	} else {
		cmd := s.command("/bin/sh", "-c", "exec 2>&1\n"+st.command)
		o := s.finish(t, cmd)
		printed, status = o.stdout, o.status
	}
	printed = strings.ReplaceAll(printed, s.dir, "$DIR")
	lines := strings.Split(strings.TrimSuffix(printed, "\n"), "\n")
	if printed == "" {
		lines = nil
	}
	same := len(lines) == len(st.want)
	for i := 0; same && i < len(lines); i++ {
		same = sameLine(t, st.want[i], lines[i])
	}
	if !same {
		t.Errorf("%s:%d: %s\nprinted\n\t%s\nwant\n\t%s", file, st.line, st.command, strings.Join(lines, "\n\t"), strings.Join(st.want, "\n\t"))
	}
	if status != st.status {
		t.Errorf("%s:%d: %s: status %d, want %d\n%s", file, st.line, st.command, status, st.status, printed)
	}
}

func sameLine(t *testing.T, want, got string) bool {
	t.Helper()
	pattern, isPattern := strings.CutSuffix(want, " (re)")
	if !isPattern {
		return want == got
	}
	re, err := regexp.Compile(`^(?:` + pattern + `)$`)
	if err != nil {
		t.Fatal(err)
	}
	return re.MatchString(got)
}
