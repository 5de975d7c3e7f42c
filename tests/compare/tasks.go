//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// subject is one way to run commands.
type subject struct {
	name    string
	version string
	// run runs a command of a shell, for at most limit if that is not 0, in the way that the subject
	// has for it. It returns when the subject does, or when ctx ends.
	run func(ctx context.Context, command string, limit time.Duration) (answer, error)
	// bulk runs a command with much output and returns how many bytes arrived; nil for run.
	bulk func(ctx context.Context, command string) (int, error)
	// renew starts the server and its session again, before each task, where a task may leave them
	// unusable for the next one; nil where that is not necessary.
	renew func()
	// session reports that all commands share one shell.
	session bool
	// marker is the text by which the subject recognises the end of a command in its output; empty
	// for one that looks for none.
	marker string
	// crash kills the server with SIGKILL; nil where there is none.
	crash func()
	// again starts the server again and returns the output of the command that ran during the crash;
	// nil where the subject has no way to ask for it.
	again func(ctx context.Context) ([]byte, error)
}

// answer is how a command ended.
type answer struct {
	status int
	output []byte
}

var errGaveUp = errors.New("gave up waiting")

// try runs a command and gives up after a while, even where run does not return.
func (s *subject) try(command string, limit, patience time.Duration) (answer, time.Duration, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	type outcome struct {
		answer
		err error
	}
	done := make(chan outcome, 1)
	start := time.Now()
	go func() {
		a, err := s.run(ctx, command, limit)
		done <- outcome{a, err}
	}()
	select {
	case o := <-done:
		if ctx.Err() != nil {
			o.err = errGaveUp
		}
		return o.answer, time.Since(start), o.err
	case <-ctx.Done():
		return answer{}, time.Since(start), errGaveUp
	}
}

// row is what was seen of one subject.
type row struct {
	*subject
	latency                                      time.Duration // median of true; 0 if it does not run
	rate                                         float64       // bytes per second; 0 if the output did not arrive
	background, timeout, exit, forged, afterKill string
	remark                                       string // why there is no rate
}

// measure does all tasks with a subject. The last one ends its server.
func measure(s *subject, rounds int) row {
	r := row{subject: s}
	for _, task := range []func(){
		func() { r.latencyOfTrue(rounds) },
		r.throughput,
		func() { r.forged = s.forgery() },
		func() { r.background = s.backgroundChild() },
		func() { r.timeout = s.setsidChild() },
		func() { r.exit = s.exitThree() },
		func() { r.afterKill = s.killed() },
	} {
		if s.renew != nil {
			s.renew()
		}
		task()
	}
	return r
}

func (r *row) latencyOfTrue(rounds int) {
	var times []time.Duration
	for i := range rounds + 3 {
		a, took, err := r.try("true", 0, 30*time.Second)
		if err != nil || a.status != 0 {
			fmt.Fprintf(os.Stderr, "compare: %s: true: status %d, %v\n", r.name, a.status, err)
			return
		}
		if i >= 3 { // the first ones warm up
			times = append(times, took)
		}
	}
	slices.Sort(times)
	r.latency = times[len(times)/2]
}

const bulkBytes = 100_000_000

func (r *row) throughput() {
	const command = "yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcd | head -c 100000000"
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	bulk := r.bulk
	if bulk == nil {
		bulk = func(context.Context, string) (int, error) {
			a, _, err := r.try(command, 0, time.Minute)
			return len(a.output), err
		}
	}
	start := time.Now()
	n, err := bulk(ctx, command)
	took := time.Since(start)
	switch {
	case errors.Is(err, errGaveUp) || ctx.Err() != nil:
		r.remark = "not within a minute"
	case err != nil:
		r.remark = err.Error()
	case n < bulkBytes:
		r.remark = fmt.Sprintf("%.1f of 100 MB arrived", float64(n)/1e6)
	default:
		r.rate = float64(n) / took.Seconds()
	}
}

// forgery prints the marker of the subject, or a text that looks like one, and then fails.
func (s *subject) forgery() string {
	text := s.marker
	if text == "" {
		text = "EXIT:0 __END__"
	}
	a, _, err := s.try("printf '%s\\n' '"+text+"'; printf 'last line\\n'; (exit 7)", 0, 10*time.Second)
	whole := bytes.Contains(a.output, []byte(text)) && bytes.Contains(a.output, []byte("last line"))
	switch {
	case errors.Is(err, errGaveUp):
		return "fooled: does not return within 10 s"
	case err != nil:
		return "fooled: " + short(err)
	case a.status != 7 && !whole:
		return fmt.Sprintf("fooled: status %d instead of 7, output cut", a.status)
	case a.status != 7:
		return fmt.Sprintf("fooled: status %d instead of 7", a.status)
	case !whole:
		return "status right, the text is missing in the output"
	case s.marker == "":
		return "right: has no marker"
	}
	return "right"
}

// The numbers make the processes of this run recognisable.
var number = 1_000_000 + os.Getpid()

func (s *subject) backgroundChild() string {
	child := fmt.Sprint("sleep ", number+100_000_000)
	defer endProcesses(child)
	_, took, err := s.try(child+" & echo started", 0, 4*time.Second)
	switch {
	case errors.Is(err, errGaveUp):
		return "waits for the child"
	case err != nil:
		return short(err)
	case took > 2*time.Second:
		return fmt.Sprintf("after %.1f s", took.Seconds())
	}
	return "at once"
}

func (s *subject) setsidChild() string {
	apart, leader := fmt.Sprint("sleep ", number+200_000_000), fmt.Sprint("sleep ", number+300_000_000)
	defer endProcesses(apart)
	defer endProcesses(leader)
	_, took, err := s.try("setsid "+apart+" & "+leader, time.Second, 20*time.Second)
	returned := fmt.Sprintf("returns after %.1f s", took.Seconds())
	if errors.Is(err, errGaveUp) {
		returned = "does not return within 20 s"
	}
	// A process that was sent SIGTERM may take a moment.
	var left []string
	for deadline := time.Now().Add(3 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		left = nil
		if len(pids(leader)) > 0 {
			left = append(left, "the command")
		}
		if len(pids(apart)) > 0 {
			left = append(left, "the setsid child")
		}
		if left == nil {
			return returned + ", nothing left"
		}
	}
	return returned + ", left: " + strings.Join(left, " and ")
}

func (s *subject) exitThree() string {
	a, _, err := s.try("exit 3", 0, 10*time.Second)
	status := fmt.Sprintf("status %d", a.status)
	if err != nil {
		status = "no status"
	}
	if !s.session {
		return status + ", no session"
	}
	if b, _, err := s.try("echo alive", 0, 10*time.Second); err != nil || !bytes.Contains(b.output, []byte("alive")) {
		return status + ", the session is dead"
	}
	return status + ", the session lives"
}

const lines = 30

// killed kills the server while a command prints numbers to its output and to a file.
func (s *subject) killed() string {
	if s.crash == nil {
		return "has no server"
	}
	dir, err := os.MkdirTemp("/tmp", "trlcompare")
	if err != nil {
		return short(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "lines")
	seen := func() int {
		text, _ := os.ReadFile(file)
		return bytes.Count(text, []byte("\n"))
	}
	// wait gives up when no line has come for so long.
	wait := func(n int, silence time.Duration) bool {
		have := seen()
		for last := time.Now(); have < n && time.Since(last) < silence; time.Sleep(20 * time.Millisecond) {
			if now := seen(); now > have {
				have, last = now, time.Now()
			}
		}
		return have >= n
	}
	command := fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; echo $i >>%s; sleep 0.1; done", lines, file)
	go s.try(command, 0, 30*time.Second)
	if !wait(3, 15*time.Second) {
		return "the command did not start"
	}
	s.crash()
	if !wait(lines, 5*time.Second) {
		return fmt.Sprintf("the command dies, after %d of %d lines", seen(), lines)
	}
	if s.again == nil {
		return "the command survives, its output is lost"
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := s.again(ctx)
	if err != nil {
		return "the command survives, its output: " + short(err)
	}
	if n := bytes.Count(out, []byte("\n")); n != lines || !bytes.HasSuffix(out, []byte(fmt.Sprintf("\n%d\n", lines))) {
		return fmt.Sprintf("the command survives, %d of %d lines of its output are kept", n, lines)
	}
	return "the command survives, all of its output is kept"
}

// pids finds the processes with exactly these arguments.
func pids(args string) []int {
	want := strings.ReplaceAll(args, " ", "\x00") + "\x00"
	var list []int
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && string(text) == want {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
				list = append(list, pid)
			}
		}
	}
	return list
}

// endProcesses ends what a task left behind.
func endProcesses(args string) {
	for _, pid := range pids(args) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// short is the beginning of an error.
func short(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line[:min(len(line), 120)]
}
