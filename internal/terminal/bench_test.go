package terminal_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/trl-dev/trl/internal/output"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/terminal"
)

// text is a file with coloured text, as a compiler writes it.
func text(b *testing.B, size int) string {
	path := b.TempDir() + "/text"
	line := "\x1b[1msome/file.go:12:\x1b[0m \x1b[31merror:\x1b[0m something is not what it should be\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, size/len(line))), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

const benchSize = 20 << 20

// BenchmarkOutput is a program that writes as fast as it can.
func BenchmarkOutput(b *testing.B) {
	path := text(b, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		c := terminal.Config{
			Path: "/bin/cat", Args: []string{"cat", path}, Cols: 80, Rows: 24, Scrollback: 10_000, Start: reaper.Start,
			Log: output.New(output.NewStore(output.StoreConfig{}), 8<<20),
		}
		term, err := terminal.Start(c)
		if err != nil {
			b.Fatal(err)
		}
		<-term.Done()
		term.Close()
	}
}

// BenchmarkPTY is the floor: the same output without a screen model.
func BenchmarkPTY(b *testing.B) {
	path := text(b, benchSize)
	b.SetBytes(benchSize)
	for b.Loop() {
		pty, err := process.OpenPTY()
		if err != nil {
			b.Fatal(err)
		}
		slave, err := pty.Slave()
		if err != nil {
			b.Fatal(err)
		}
		p, err := reaper.Start(process.Spec{Path: "/bin/cat", Args: []string{"cat", path}, Files: []*os.File{slave, slave, slave}, Setsid: true, Setctty: true})
		slave.Close()
		if err != nil {
			b.Fatal(err)
		}
		buf := make([]byte, 64<<10)
		go func() { <-p.Done(); pty.Interrupt() }()
		for err == nil {
			_, err = pty.Read(buf)
		}
		<-p.Done()
		pty.Close()
	}
}

// BenchmarkIdle is what a terminal costs in which nothing happens.
func BenchmarkIdle(b *testing.B) {
	var before, after runtime.MemStats
	var terms []*terminal.Terminal
	runtime.GC()
	runtime.ReadMemStats(&before)
	for b.Loop() {
		term, err := terminal.Start(terminal.Config{
			Path: "/bin/cat", Args: []string{"cat"}, Cols: 80, Rows: 24, Scrollback: 10_000, Start: reaper.Start,
			Log: output.New(output.NewStore(output.StoreConfig{}), 8<<20),
		})
		if err != nil {
			b.Fatal(err)
		}
		terms = append(terms, term)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.HeapAlloc+after.StackInuse-before.HeapAlloc-before.StackInuse)/float64(len(terms)), "B/terminal")
	for _, term := range terms {
		term.Process().Signal(9)
		<-term.Done()
		term.Close()
	}
}
