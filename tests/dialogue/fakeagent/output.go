package main

import (
	"encoding/json"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// obj is a JSON object. Its keys are written in alphabetical order; a reader must not rely on
// another one.
type obj = map[string]any

// output writes to stdout, and ends the process at a byte.
type output struct {
	tee    *os.File
	dieAt  int64
	dieHow string

	mu      sync.Mutex
	written int64 // guarded by mu
}

// line writes a whole line.
func (o *output) line(v any) { o.write(append(encode(v), '\n')) }

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		leave(70, "encode: %s", err)
	}
	return b
}

// write writes bytes, as they are.
func (o *output) write(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dies := o.dieAt >= 0 && o.written+int64(len(b)) >= o.dieAt
	if dies {
		b = b[:o.dieAt-o.written]
	}
	n, _ := os.Stdout.Write(b) // the real one lives on without a reader
	o.written += int64(n)
	if o.tee != nil {
		_, _ = o.tee.Write(b[:n])
	}
	if dies {
		die(o.dieHow)
	}
}

// die ends the process without another word.
func die(how string) {
	if code, err := strconv.Atoi(how); err == nil {
		os.Exit(code)
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	forever()
}
