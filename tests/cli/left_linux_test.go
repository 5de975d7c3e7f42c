package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// carriers lists the processes that carry one of the variables in their environment.
// One that is about to be gone is not counted: it is a zombie without an environment.
func carriers(marks ...[]byte) []proc {
	var list []proc
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range files {
		environ, err := os.ReadFile(f)
		if err != nil || !hasMark(environ, marks) {
			continue
		}
		dir := filepath.Dir(f)
		pid, _ := strconv.Atoi(filepath.Base(dir))
		cmdline, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		list = append(list, proc{pid, fmt.Sprintf("pid %d: %s", pid, bytes.ReplaceAll(cmdline, []byte{0}, []byte{' '}))})
	}
	return list
}
