//go:build linux

package clustertest

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// Volume gives the cluster a volume of the node for one claim of 1Gi at most, until the test ends.
func (c *Cluster) Volume(t testing.TB) {
	t.Helper()
	dir, err := os.MkdirTemp(c.dir, "volume")
	if err != nil {
		t.Fatal(err)
	}
	const volumes = "/api/v1/persistentvolumes"
	name := filepath.Base(dir)
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":%q},"spec":{"capacity":{"storage":"1Gi"},`+
		`"accessModes":["ReadWriteOnce"],"local":{"path":%q},"nodeAffinity":{"required":{"nodeSelectorTerms":[{"matchExpressions":`+
		`[{"key":"kubernetes.io/hostname","operator":"In","values":["node1"]}]}]}}}}`, name, dir)
	if _, err := c.Do(http.MethodPost, volumes, "application/json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Do(http.MethodDelete, volumes+"/"+name, "", nil) })
}

// Kubectl returns the path of kubectl; it skips the test where tests/setup.sh could not build it.
func Kubectl(t testing.TB) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(filepath.Dir(program())), "kubectl-"+Version, "kubectl")
	if _, err := os.Stat(path); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: kubectl was not built; tests/setup.sh does\n", t.Name())
		t.SkipNow()
	}
	return path
}
