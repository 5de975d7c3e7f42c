// Command bench measures TRL through its socket, each thing beside the floor it
// cannot be faster than, taken in the same run. It prints a table and writes JSON.
//
//	make bench
//	go run ./tests/bench -only latency -shells bash,dash
//
// It fails only when something does not work; a missed target is printed.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// options are the command line.
type options struct {
	binary string
	out    string
	only   string
	shells string
	rounds int
}

// nothing is the argument with which this program ends at once: the floor of any program in Go.
const nothing = "nothing"

func main() {
	if len(os.Args) == 2 && os.Args[1] == nothing {
		return
	}
	var o options
	flag.StringVar(&o.binary, "bin", "bin/trl", "the trl to measure")
	flag.StringVar(&o.out, "o", "bench.json", "file to write the results to; empty for none")
	flag.StringVar(&o.only, "only", "", "parts to run, separated by commas: "+strings.Join(partNames(), ", "))
	flag.StringVar(&o.shells, "shells", "dash,bash,zsh,ash,fish", "shells to measure")
	flag.IntVar(&o.rounds, "rounds", 20, "rounds of each latency; each has 100 builtins and 20 programs")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// part is one thing to measure.
type part struct {
	name string
	run  func(*bench) error
}

var parts = []part{
	{"floors", (*bench).floors},
	{"latency", (*bench).latency},
	{"create", (*bench).create},
	{"throughput", (*bench).throughput},
	{"flow", (*bench).flow},
	{"streams", (*bench).streams},
	{"web", (*bench).web},
	{"grpc", (*bench).grpc},
	{"terminals", (*bench).terminals},
	{"dialogues", (*bench).dialogues},
	{"runtimes", (*bench).runtimes},
	{"memory", (*bench).memory},
	{"scale", (*bench).scale},
}

func partNames() []string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return names
}

// bench is one run: the daemon, one connection, and what has been measured.
type bench struct {
	options
	daemon *daemon
	conn   *wire
	shells []shell
	report report
}

func run(o options) error {
	daemon, err := startDaemon(o.binary)
	if err != nil {
		return err
	}
	defer daemon.stop()
	conn, err := dial(daemon.socket)
	if err != nil {
		return err
	}
	defer conn.close()
	b := &bench{options: o, daemon: daemon, conn: conn}
	b.shells = findShells(strings.Split(o.shells, ","), daemon.dir)
	b.report = report{Version: daemon.version(o.binary), OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Started: time.Now().UTC()}
	b.report.header()
	for _, p := range parts {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), p.name) {
			continue
		}
		if err := p.run(b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	b.report.Seconds = time.Since(b.report.Started).Seconds()
	return b.report.finish(o.out)
}
