package grpc_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trl-dev/trl/tests/trltest"
)

// TestPythonExample runs the program of the page, where Python has the packages for it.
// TRL_TEST_GRPC_PYTHON names a Python that has them.
func TestPythonExample(t *testing.T) {
	python := os.Getenv("TRL_TEST_GRPC_PYTHON")
	if python == "" {
		python = "python3"
	}
	if out, err := exec.Command(python, "-c", "import grpc, grpc_tools").CombinedOutput(); err != nil {
		t.Skipf("%s cannot import grpc and grpc_tools (pip install grpcio grpcio-tools): %s", python, out)
	}
	d := trltest.Start(t, trltest.Args("--grpc", "127.0.0.1:0"))
	cmd := exec.Command(python, "../../docs/grpc_example.py", strings.TrimPrefix(d.GRPC(t), "grpc://"), `printf 'a\377b'; echo problem >&2; exit 3`)
	cmd.Env = append(os.Environ(), "TRL_TOKEN="+d.Token(t), "PYTHONDONTWRITEBYTECODE=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(out) != "a\xffb" || !strings.Contains(stderr.String(), "problem\n") {
		t.Errorf("%q, %q, %v", out, stderr.String(), err)
	}
}
