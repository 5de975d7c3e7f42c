//go:build linux

// Command withdocker runs a command with a Docker engine of its own: DOCKER_HOST names the engine, and
// TRL_TEST_IMAGE an image with a shell. Where no engine can be started, it prints the reason and runs the command
// without one.
//
//	withdocker npm test
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/trl-dev/trl/internal/runtimes/docker/dockertest"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: withdocker COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	os.Exit(run(os.Args[1:]))
}

// run returns the exit status of the command. The engine ends after it, also when it is interrupted.
func run(argv []string) (status int) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := dockertest.Possible(); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: no Docker engine can be started here (%v)\n", err)
	} else {
		e, err := dockertest.Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, "withdocker:", err)
			return 1
		}
		defer func() {
			if err := e.Stop(); err != nil {
				fmt.Fprintln(os.Stderr, "withdocker:", err)
				status = max(status, 1)
			}
		}()
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+e.Host, "TRL_TEST_IMAGE="+dockertest.Busybox)
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, "withdocker:", err)
		return 1
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	err := cmd.Wait()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "withdocker:", err)
	}
	if code := cmd.ProcessState.ExitCode(); code >= 0 {
		return code
	}
	return 1 // a signal
}
