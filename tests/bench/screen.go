package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/terminal/vt"
)

const (
	screenLines = 10_000   // of scrollback
	screenPiece = 32 << 10 // bytes of one write
	// In one round the model is written ourPasses times about a megabyte, xterm.js its own.
	screenRounds = 10
	ourPasses    = 8
	xtermPasses  = 2
	snapshots    = 50
)

// screen measures the model of a screen in this process, 80x24: how fast it takes in what
// programs write, what it keeps, and a snapshot of all of that. What stands beside it is
// xterm.js, which it is equal to, with the same bytes in the same pieces.
func (b *bench) screen() error {
	dir, err := os.MkdirTemp("", "trlbench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	other, err := startXterm(dir)
	remark := ""
	if err != nil {
		other, remark = nil, "no xterm.js: "+err.Error()
	} else {
		defer other.stop()
	}
	for _, t := range screenTexts() {
		if err := b.screenSpeed(t, filepath.Join(dir, t.name), other, remark); err != nil {
			return err
		}
	}
	for _, colour := range []bool{false, true} {
		if err := b.screenSize(colour, filepath.Join(dir, "lines"), other, remark); err != nil {
			return err
		}
	}
	return nil
}

// spent is what something took, in seconds: by the clock, and of processors. On a busy
// machine only the second says how fast it is.
type spent struct{ wall, cpu float64 }

func (b *bench) screenSpeed(t screenText, file string, other *xterm, remark string) error {
	if err := os.WriteFile(file, t.text, 0o600); err != nil {
		return err
	}
	screen := newScreen()
	write := func(passes int) {
		for range passes {
			for piece := range slices.Chunk(t.text, screenPiece) {
				screen.Write(piece)
				_ = screen.Replies()
			}
		}
	}
	// First a round that does not count: scrollbacks are filled, code is compiled.
	write(2)
	if other != nil {
		if _, err := other.write(file, 3); err != nil {
			return err
		}
	}
	var ours, theirs []spent
	for range screenRounds {
		ours = append(ours, measured(func() { write(ourPasses) }))
		if other == nil {
			continue
		}
		took, err := other.write(file, xtermPasses)
		if err != nil {
			return err
		}
		theirs = append(theirs, took)
	}
	size := float64(len(t.text))
	b.report.speed("screen: "+t.name+"; floor: xterm.js", paceOf(size*ourPasses, ours), paceOf(size*xtermPasses, theirs), t.target, remark)
	return nil
}

func newScreen() *vt.Terminal {
	return vt.New(vt.Config{Cols: 80, Rows: 24, Scrollback: screenLines})
}

// measured calls f and says what this process spent meanwhile.
func measured(f func()) spent {
	began, before := time.Now(), processorTime()
	f()
	return spent{time.Since(began).Seconds(), (processorTime() - before).Seconds()}
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pace is bytes per second, by the clock and of processors; 0 when nothing was measured.
type pace struct{ wall, cpu float64 }

// paceOf is the median of rounds with so many bytes each.
func paceOf(bytes float64, rounds []spent) pace {
	if len(rounds) == 0 {
		return pace{}
	}
	var walls, cpus []float64
	for _, r := range rounds {
		walls, cpus = append(walls, r.wall), append(cpus, r.cpu)
	}
	slices.Sort(walls)
	slices.Sort(cpus)
	return pace{bytes / walls[len(walls)/2], bytes / cpus[len(cpus)/2]}
}

// screenSize measures a screen whose scrollback is full of full lines.
func (b *bench) screenSize(colour bool, file string, other *xterm, remark string) error {
	name, text := "plain", fullLines(screenLines+24, colour)
	if colour {
		name = "colour"
	}
	before := heap()
	screen := newScreen()
	screen.Write(text)
	bytes := float64(heap() - before)
	if n := screen.ScrollbackLen(); n != screenLines {
		return fmt.Errorf("the screen has %d of %d lines of scrollback", n, screenLines)
	}
	floor := 0.0
	if other != nil {
		err := os.WriteFile(file, text, 0o600)
		if err == nil {
			floor, err = other.memory(file)
		}
		if err != nil {
			return err
		}
	}
	b.report.size("10,000 full lines, "+name+"; floor: xterm.js", bytes, floor, 10e6, remark)

	var snapshot []byte
	var took samples
	var cpu float64
	for range snapshots {
		s := measured(func() { snapshot = screen.Snapshot(-1) })
		took = append(took, time.Duration(s.wall*1e9))
		cpu += s.cpu
	}
	b.report.latency("their snapshot, "+name, took, nil, 15*time.Millisecond, 0)
	b.report.note("their snapshot, "+name+": CPU", "%.4f s", cpu/snapshots)
	b.report.size("their snapshot, "+name, float64(len(snapshot)), 0, 0, "")
	runtime.KeepAlive(text)
	return nil
}

// heap is what is in use now.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
