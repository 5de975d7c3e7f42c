package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// runtimes measures sessions in other places. Their engines are those of the tests, which measure: see
// TestMeasure in tests/places. What the tests print goes to stderr at once: engines take minutes to start on a
// busy machine.
func (b *bench) runtimes() error {
	file := filepath.Join(b.daemon.dir, "places.json")
	cmd := exec.Command("go", "test", "./tests/places", "-count=1", "-timeout=30m", "-v", "-run", "^TestMeasure$", "-measure", file)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var list []struct {
		Name           string
		Samples, Floor samples
		Ratio          float64
		Bytes          int64
		Took           time.Duration
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		fmt.Fprintf(os.Stderr, "SKIPPED: no place can be measured here\n")
	}
	for _, m := range list {
		if m.Bytes > 0 {
			b.report.rate(m.Name, m.Bytes, m.Took, 0, 0)
		} else {
			b.report.latency(m.Name, m.Samples, m.Floor, 0, m.Ratio)
		}
	}
	return nil
}
