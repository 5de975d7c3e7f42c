package testkit_test

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/trl-dev/trl/internal/testkit"
)

func TestDirs(t *testing.T) {
	for name, make := range map[string]func(testing.TB) string{"Dir": testkit.Dir, "MemoryDir": testkit.MemoryDir} {
		var dir string
		t.Run(name+" has room for a socket", func(t *testing.T) {
			t.Cleanup(func() { // runs after the removal
				if _, err := os.Stat(dir); !os.IsNotExist(err) {
					t.Errorf("%s is left: %v", dir, err)
				}
			})
			dir = make(t)
			t.Cleanup(func() { // runs before the removal
				if _, err := os.Stat(dir); err != nil {
					t.Errorf("removed too early: %v", err)
				}
			})
			if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 || len(dir) > 40 {
				t.Errorf("%s: %v, %v", dir, info.Mode(), err)
			}
			ln, err := net.Listen("unix", filepath.Join(dir, "s"))
			if err != nil {
				t.Fatal(err)
			}
			ln.Close()
		})
	}
}
