package process_test

import (
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/trl-dev/trl/internal/process"
)

// TestPipesOf inspects a process that does not use its pipes.
func TestPipesOf(t *testing.T) {
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close(); w.Close() })
		return r, w
	}
	inR, inW := pipe()
	outR, outW := pipe()
	errR, errW := pipe()
	cmd := exec.Command("sleep", "100")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inR, outW, errW
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	outW.Close()
	stderr := process.FileIDOf(int(errR.Fd()))
	check := func(when string, want process.Pipes) {
		t.Helper()
		if got := process.PipesOf(pid, stderr); got != want {
			t.Errorf("%s: %+v, want %+v", when, got, want)
		}
	}
	check("at first", process.Pipes{Holds: true})
	if got := process.PipesOf(pid); got.Holds {
		t.Error("it holds a pipe that was not named")
	}
	inW.WriteString("data")
	check("with data to read", process.Pipes{Holds: true, Unfinished: true})
	check("again", process.Pipes{Holds: true, Unfinished: true})
	buf := make([]byte, 4)
	if _, err := io.ReadFull(inR, buf); err != nil || string(buf) != "data" {
		t.Fatalf("the data was touched: %q, %v", buf, err)
	}
	check("without data", process.Pipes{Holds: true})
	inW.Close()
	check("at the end of its input", process.Pipes{Holds: true, Unfinished: true})
	if _, err := inR.Read(buf); err != io.EOF {
		t.Fatalf("the end of the input: %v", err)
	}
	outR.Close()
	check("without a reader", process.Pipes{Holds: true, Unfinished: true})
	cmd.Process.Kill()
	cmd.Wait()
	check("when it is gone", process.Pipes{})
}
