package server_test

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// dialAs connects as another user. Credentials belong to threads, so one thread
// changes its own and ends with the goroutine.
func dialAs(t *testing.T, socket string, uid int) (conn net.Conn, err error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can be somebody else")
	}
	for _, path := range []string{filepath.Dir(filepath.Dir(socket)), filepath.Dir(socket), socket} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		id := uintptr(uid)
		if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, id, id, id); errno != 0 {
			err = errno
			return
		}
		conn, err = net.Dial("unix", socket)
	}()
	<-done
	return conn, err
}
