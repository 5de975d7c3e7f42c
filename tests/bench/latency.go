package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// latency measures a builtin and a program in every shell. Rounds through TRL and
// rounds in the bare shell take turns, so that both see the same machine.
func (b *bench) latency() error {
	for _, s := range b.shells {
		if err := b.shellLatency(s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return b.commandLine()
}

// commandLine measures a command from a command line, which is mostly the start of a process.
func (b *bench) commandLine() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	run := func() error {
		cmd := exec.Command(b.binary, "run", "-s", "bench", "true")
		cmd.Env = append(os.Environ(), "TRL_SOCKET_PATH="+b.daemon.socket, "TRL_STATE_DIR="+filepath.Join(b.daemon.dir, "state"))
		return cmd.Run()
	}
	if err := run(); err != nil { // makes the session
		return err
	}
	var ours, floor samples
	for range b.rounds * 5 {
		through, err := sample(1, run)
		if err != nil {
			return err
		}
		alone, err := sample(1, func() error { return exec.Command(self, nothing).Run() })
		if err != nil {
			return err
		}
		ours, floor = append(ours, through...), append(floor, alone...)
	}
	b.report.latency("trl run -s NAME true, a process in all", ours, floor, 5*time.Millisecond, 0)
	return b.conn.destroy("bench")
}

func (b *bench) shellLatency(s shell) error {
	id, err := b.conn.newSession(s.path)
	if err != nil {
		return err
	}
	defer func() { _ = b.conn.destroy(id) }()
	var bare *bareShell
	if s.bare != nil {
		if bare, err = startBare(s); err != nil {
			return err
		}
		defer bare.stop()
	}
	for _, what := range []struct {
		command string
		times   int
		// Of a builtin the time counts, of a program the ratio to the bare shell.
		limit  time.Duration
		ratio  float64
		spread float64 // of the p99
	}{{"true", 100, 200 * time.Microsecond, 0, 3}, {"/bin/true", 20, 0, 1.4, 0}} {
		ours, floor, err := b.turns(id, bare, what.command, what.times)
		if err != nil {
			return err
		}
		b.report.latency(s.name+": "+what.command, ours, floor, what.limit, what.ratio)
		if what.spread > 0 {
			b.report.spread(s.name+": "+what.command+", p99", ours, floor, what.spread)
		}
	}
	if bare == nil {
		return nil
	}
	if err := b.emptyCall(s, id, bare); err != nil {
		return err
	}
	return b.backgroundChild(s, id, bare)
}

// emptyCall measures a call that passes through the daemon and the runner and does nothing there,
// each time after a program has run in the bare shell and used the caches of the processors. A
// command in which TRL did nothing at all would take that much longer than the bare shell.
func (b *bench) emptyCall(s shell, id string, bare *bareShell) error {
	var info struct {
		ExecID string `json:"exec_id"`
	}
	if err := b.conn.call("exec.run", object{"session_id": id, "command": "true"}, &info); err != nil {
		return err
	}
	line, err := request("exec.info", object{"exec_id": info.ExecID})
	if err != nil {
		return err
	}
	var calls, programs samples
	for range b.rounds * 20 {
		program, err := sample(1, func() error { return bare.run("/bin/true") })
		if err != nil {
			return err
		}
		call, err := sample(1, func() error {
			_, err := b.conn.roundTrip(line)
			return err
		})
		if err != nil {
			return err
		}
		calls, programs = append(calls, call...), append(programs, program...)
	}
	b.report.latency(s.name+": an empty call after /bin/true", calls, programs, 0, 0)
	return nil
}

// backgroundChild measures a command that leaves a child behind, which holds its output.
// The child is ended before the next one, outside of the time that counts.
func (b *bench) backgroundChild(s shell, id string, bare *bareShell) error {
	const leave, clean = "{ sleep 100 & }", "kill -9 $!; wait $! 2>/dev/null; true"
	var ours, floor samples
	for range b.rounds * 5 {
		through, err := sample(1, func() error { return b.through(id, leave) })
		if err != nil {
			return err
		}
		if err := b.through(id, clean); err != nil {
			return err
		}
		alone, err := sample(1, func() error { return bare.run(leave) })
		if err != nil {
			return err
		}
		if err := bare.run(clean); err != nil {
			return err
		}
		ours, floor = append(ours, through...), append(floor, alone...)
	}
	b.report.latency(s.name+": sleep 100 &", ours, floor, 2*time.Millisecond, 0)
	return nil
}

var exitZero = []byte(`"exit_code":0`)

// turns runs a command in rounds, through TRL and in the bare shell, if there is one.
func (b *bench) turns(id string, bare *bareShell, command string, times int) (ours, floor samples, err error) {
	for range b.rounds {
		more, err := sample(times, func() error { return b.through(id, command) })
		if err != nil {
			return nil, nil, err
		}
		ours = append(ours, more...)
		if bare == nil {
			continue
		}
		more, err = sample(times, func() error { return bare.run(command) })
		if err != nil {
			return nil, nil, err
		}
		floor = append(floor, more...)
	}
	return ours, floor, nil
}

// through runs a command through TRL.
func (b *bench) through(id, command string) error {
	line, err := request("exec.run", object{"session_id": id, "command": command})
	if err != nil {
		return err
	}
	answer, err := b.conn.roundTrip(line)
	if err == nil && !bytes.Contains(answer, exitZero) {
		err = fmt.Errorf("%s: %s", command, answer)
	}
	return err
}

// create measures how long a session takes to begin and to end, and what limits and isolation add.
func (b *bench) create() error {
	for _, s := range b.shells {
		created, both, err := b.sessions(object{"shell": s.path, "working_dir": "/"})
		if err != nil {
			return err
		}
		b.report.latency(s.name+": session.create", created, nil, 8*time.Millisecond, 0)
		b.report.latency(s.name+": create and destroy", both, nil, 0, 0)
	}
	dir, err := os.MkdirTemp("", "trl-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	first := b.shells[0]
	for _, kind := range []struct {
		name   string
		params object
		adds   time.Duration // the most that it may add
	}{
		{"with limits", object{"limits": object{"memory_bytes": 1 << 30, "pids": 100}, "limits_mode": "best-effort"}, 0},
		{"Landlock and seccomp", object{"isolation": object{"processes": "own"}, "isolation_mode": "best-effort"}, 3 * time.Millisecond},
		{"isolation workspace", object{"isolation": object{"profile": "workspace"}, "isolation_mode": "best-effort"}, 0},
	} {
		plain := object{"shell": first.path, "working_dir": dir}
		maps.Copy(kind.params, plain)
		created, floor, err := b.creations(kind.params, plain)
		if err != nil {
			return err
		}
		b.report.added(first.name+": create, "+kind.name, created, floor, kind.adds)
	}
	return nil
}

// sessions makes and ends sessions. It returns how long making took, and both together.
func (b *bench) sessions(params object) (created, both samples, err error) {
	for begin := time.Now(); len(both) < 40 && (len(both) < 5 || time.Since(begin) < 5*time.Second); {
		start := time.Now()
		id, err := b.conn.create(params)
		if err != nil {
			return nil, nil, err
		}
		created = append(created, time.Since(start))
		if err := b.conn.call("session.destroy", object{"session_id": id}, nil); err != nil {
			return nil, nil, err
		}
		both = append(both, time.Since(start))
	}
	return created, both, nil
}

// creations makes sessions of two kinds in turns, so that both see the same machine.
func (b *bench) creations(params, plain object) (created, floor samples, err error) {
	for range b.rounds * 3 {
		for _, kind := range []struct {
			params object
			times  *samples
		}{{plain, &floor}, {params, &created}} {
			start := time.Now()
			id, err := b.conn.create(kind.params)
			if err != nil {
				return nil, nil, err
			}
			*kind.times = append(*kind.times, time.Since(start))
			if err := b.conn.destroy(id); err != nil {
				return nil, nil, err
			}
		}
	}
	return created, floor, nil
}
