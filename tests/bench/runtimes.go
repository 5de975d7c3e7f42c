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
// TestMeasure in tests/places.
func (b *bench) runtimes() error {
	file := filepath.Join(b.daemon.dir, "places.json")
	cmd := exec.Command("go", "test", "./tests/places", "-count=1", "-timeout=1h", "-v", "-run", "^TestMeasure$", "-measure", file)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
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
