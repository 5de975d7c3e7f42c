package shell

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A link that a session puts in the place of a private file does not lead to the file behind it, and a FIFO
// does not block.
func TestPrivateFiles(t *testing.T) {
	dir := t.TempDir()
	secret, path := dir+"/secret", dir+"/t"
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, path); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(path, []byte("text")); err != nil {
		t.Error(err)
	}
	for file, want := range map[string]string{secret: "secret", path: "text"} {
		if text, err := os.ReadFile(file); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v", file, text, err)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = writeFile(path, []byte("text")) // returns
}
