//go:build linux

package clustertest

import (
	"net/http"
	"testing"
)

const nodePath = "/api/v1/nodes/node1"

// LoseNode kills the kubelet and deletes the node, as the controller of a cloud does when the machine
// does not exist any more. The node is back after the test.
func (c *Cluster) LoseNode(t testing.TB) {
	t.Helper()
	c.kubelet.kill()
	t.Cleanup(func() {
		err := c.kubelet.start()
		if err == nil {
			err = c.await("the node", nodePath, "KubeletReady")
		}
		if err != nil {
			t.Error(err)
		}
	})
	if _, err := c.Do(http.MethodDelete, nodePath, "", nil); err != nil {
		t.Fatal(err)
	}
}

// Taint gives the node a taint that its pods do not tolerate, until the test ends: the cluster ends them.
func (c *Cluster) Taint(t testing.TB) {
	t.Helper()
	taint := func(list string) {
		t.Helper()
		if _, err := c.Do(http.MethodPatch, nodePath, "application/merge-patch+json", []byte(`{"spec":{"taints":`+list+`}}`)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { taint("[]") })
	taint(`[{"key":"trl.dev/test","effect":"NoExecute"}]`)
}
