//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fixture lends what tests are made of to this program: it is a testing.TB as far as they need one.
// What Cleanup collects is done by end.
type fixture struct {
	testing.TB // nil; a method that is not below must not be called
	cleanups   []func()
}

// unavailable ends the use of a fixture that cannot be had.
type unavailable string

// try calls f and returns why it could not go on, or nothing.
func (f *fixture) try(do func()) (why string) {
	defer func() {
		if v := recover(); v != nil {
			u, ok := v.(unavailable)
			if !ok {
				panic(v)
			}
			why = string(u)
		}
	}()
	do()
	return ""
}

func (f *fixture) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		if why := f.try(f.cleanups[i]); why != "" {
			fmt.Fprintln(os.Stderr, "compare:", why)
		}
	}
}

func (f *fixture) must(err error) {
	if err != nil {
		f.Fatal(err)
	}
}

// need returns the path of a program: that in the variable, or the one on PATH.
func (f *fixture) need(variable, program, recipe string) string {
	name := program
	if set := os.Getenv(variable); variable != "" && set != "" {
		name = set
	}
	path, err := exec.LookPath(name)
	if err != nil {
		f.Skipf("%s is not installed; %s", program, recipe)
	}
	return path
}

// firstLine is what a program prints about its version. Only ssh prints it to stderr, where others warn.
func (f *fixture) firstLine(program string, args ...string) string {
	var stdout, stderr strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	f.must(cmd.Run())
	line, _, _ := strings.Cut(cmp.Or(stdout.String(), stderr.String()), "\n")
	return line
}

// server starts a program that is killed at the end, with its output in a file.
func (f *fixture) server(env []string, program string, args ...string) *exec.Cmd {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env...)
	log, err := os.Create(f.TempDir() + "/log")
	f.must(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	f.must(cmd.Start())
	f.Cleanup(func() { kill(cmd) })
	return cmd
}

// kill ends a server as a crash does. The programs of npm are scripts of node that start the server.
func kill(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	var servers []string
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid)); err == nil && filepath.Base(exe) == "node" {
		lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
		for _, list := range lists {
			pids, _ := os.ReadFile(list)
			servers = append(servers, strings.Fields(string(pids))...)
		}
	}
	for _, server := range servers {
		if pid, err := strconv.Atoi(server); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// until waits for a state that nothing announces.
func (f *fixture) until(what string, holds func() bool) {
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("%s: not within a minute", what)
		}
	}
}

func (f *fixture) Helper()                           {}
func (f *fixture) Failed() bool                      { return false }
func (f *fixture) Name() string                      { return "compare" }
func (f *fixture) Context() context.Context          { return context.Background() }
func (f *fixture) Cleanup(do func())                 { f.cleanups = append(f.cleanups, do) }
func (f *fixture) Fatal(args ...any)                 { panic(unavailable(fmt.Sprint(args...))) }
func (f *fixture) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }
func (f *fixture) Skip(args ...any)                  { f.Fatal(args...) }
func (f *fixture) Skipf(format string, args ...any)  { f.Fatalf(format, args...) }
func (f *fixture) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (f *fixture) Errorf(format string, args ...any) { f.Logf(format, args...) }
func (f *fixture) Error(args ...any)                 { fmt.Fprintln(os.Stderr, args...) }
func (f *fixture) TempDir() string {
	dir, err := os.MkdirTemp("", "trlcompare")
	f.must(err)
	f.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
