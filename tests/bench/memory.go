package main

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memory measures what an idle session costs: our own private memory in runner
// and daemon, the shell apart.
func (b *bench) memory() error {
	s := b.shells[0]
	alone, err := b.idle(idleSessions{
		name: "idle session", program: "the shell (" + s.name + ")", target: 1.5e6,
		params: object{"shell": s.path, "working_dir": "/"},
		// One command each: a session that was used is what stays idle.
		use: func(w *wire, id string) error {
			_, err := w.runCommand(id, "true")
			return err
		},
	})
	if err == nil && alone > 0 {
		b.report.size("daemon without a session", alone, 0, 20e6, "")
	}
	return err
}

// idleSessions are sessions whose memory is measured.
type idleSessions struct {
	name    string
	params  object // of session.create
	use     func(w *wire, id string) error
	program string  // what runs in them
	target  float64 // for all that is ours, in bytes; 0 for none
}

// idle reports what such sessions cost, and returns what the daemon takes without any; 0
// where that cannot be known.
func (b *bench) idle(s idleSessions) (alone float64, err error) {
	if _, err := os.Stat("/proc/self/smaps_rollup"); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: no /proc/self/smaps_rollup here\n", s.name)
		return 0, nil
	}
	const n = 200
	// A fresh daemon: one that has done other things has room left for sessions.
	fresh := *b
	if fresh.daemon, err = startDaemon(b.binary); err != nil {
		return 0, err
	}
	defer fresh.daemon.stop()
	if fresh.conn, err = dial(fresh.daemon.socket); err != nil {
		return 0, err
	}
	defer fresh.conn.close()
	time.Sleep(500 * time.Millisecond) // it gives back what its start needed
	before, err := private(fresh.daemon.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	ids, err := fresh.openMany(n, s.params)
	defer fresh.closeMany(ids)
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := s.use(fresh.conn, id); err != nil {
			return 0, err
		}
	}
	time.Sleep(5 * time.Second) // an idle session returns what it does not need
	var runners, programs int64
	for _, id := range ids {
		var info struct {
			ShellPID  int `json:"shell_pid"`
			RunnerPID int `json:"runner_pid"`
		}
		if err := fresh.conn.call("session.info", object{"session_id": id}, &info); err != nil {
			return 0, err
		}
		r, err := private(info.RunnerPID)
		if err != nil {
			return 0, err
		}
		p, err := private(info.ShellPID)
		if err != nil {
			return 0, err
		}
		runners, programs = runners+r, programs+p
	}
	after, err := private(fresh.daemon.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	perDaemon := float64(after-before) / n
	name := s.name + " at 200: "
	b.report.size(name+"runner", float64(runners)/n, 0, 0, "")
	b.report.size(name+"daemon's share", perDaemon, 0, 0, "")
	b.report.size(name+"ours in all", float64(runners)/n+perDaemon, 0, s.target, "")
	b.report.size(name+s.program, float64(programs)/n, 0, 0, "")
	return float64(before), nil
}

// private is the memory that a process does not share with others.
func private(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var sum int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) >= 2 && strings.HasPrefix(fields[0], "Private_") {
			kb, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, err
			}
			sum += kb << 10
		}
	}
	return sum, nil
}

// scale has 1,000 idle sessions that all answer, then 200 that run at once.
func (b *bench) scale() error {
	start := time.Now()
	ids, err := b.openMany(1000, object{"shell": b.shells[0].path, "working_dir": "/"})
	defer b.closeMany(ids)
	if err != nil {
		return err
	}
	b.report.note("1,000 sessions created", "%.1f s", time.Since(start).Seconds())
	start = time.Now()
	answered := b.inParallel(ids, 16, "echo here")
	b.report.count("of 1,000 idle sessions answered", answered, len(ids))
	b.report.note("a command in each of 1,000", "%.1f s", time.Since(start).Seconds())
	start = time.Now()
	done := b.inParallel(ids[:200], 200, "sleep 2")
	b.report.count("of 200 running at once ended well", done, 200)
	b.report.note("200 times sleep 2, at once", "%.1f s", time.Since(start).Seconds())
	return nil
}

func (b *bench) openMany(n int, params object) ([]string, error) {
	var mu sync.Mutex
	var ids []string
	var failure error
	b.workers(4, n, func(w *wire, _ int) {
		id, err := w.create(params)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failure = err
			return
		}
		ids = append(ids, id)
	})
	return ids, failure
}

func (b *bench) closeMany(ids []string) {
	b.workers(4, len(ids), func(w *wire, i int) { _ = w.destroy(ids[i]) })
}

// inParallel runs a command in every session and counts those that end with 0.
func (b *bench) inParallel(ids []string, connections int, command string) int {
	var mu sync.Mutex
	n := 0
	b.workers(connections, len(ids), func(w *wire, i int) {
		if _, err := w.runCommand(ids[i], command); err == nil {
			mu.Lock()
			n++
			mu.Unlock()
		}
	})
	return n
}

// workers calls f for 0 to n-1, over so many connections at once.
func (b *bench) workers(connections, n int, f func(*wire, int)) {
	next := make(chan int)
	var group sync.WaitGroup
	for range connections {
		group.Go(func() {
			w, err := dial(b.daemon.socket)
			if err != nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
				for range next {
				}
				return
			}
			defer w.close()
			for i := range next {
				f(w, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	group.Wait()
}
