package testkit

import (
	"os"
	"testing"
)

// Dir returns a private directory for the sockets and the state of a test. Its path is short because
// the address of a unix socket is limited to about 100 bytes, which the paths of t.TempDir exceed.
// The directory is removed after all cleanups that the test registers later.
func Dir(t testing.TB) string {
	t.Helper()
	return tempDir(t, "/tmp")
}

// MemoryDir is Dir in memory, where the system has such a place, for secrets and runtime files.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err != nil {
		return tempDir(t, "/tmp")
	}
	return tempDir(t, "/dev/shm")
}

func tempDir(t testing.TB, parent string) string {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "trl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
