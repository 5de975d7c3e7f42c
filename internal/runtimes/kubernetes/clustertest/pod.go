//go:build linux

package clustertest

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Pod makes a pod without TRL, waits until it runs, and returns its name. more are further fields of its
// container, in JSON; the volume small has one megabyte. The pod is removed after the test.
func (c *Cluster) Pod(t testing.TB, more ...string) string {
	t.Helper()
	name := "foreign-" + strings.ToLower(rand.Text()[:8])
	const pods = "/api/v1/namespaces/default/pods"
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q},"spec":{"terminationGracePeriodSeconds":0,`+
		`"volumes":[{"name":"small","emptyDir":{"medium":"Memory","sizeLimit":"1Mi"}}],`+
		`"containers":[{%s"name":"main","image":%q,"command":["/bin/sleep","100000"]}]}}`, name, strings.Join(more, ""), Busybox)
	if _, err := c.Do(http.MethodPost, pods, "application/json", []byte(text)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Do(http.MethodDelete, pods+"/"+name+"?gracePeriodSeconds=0", "", nil) })
	if err := c.await("pod "+name, pods+"/"+name, `"phase":"Running"`); err != nil {
		t.Fatal(err)
	}
	return name
}
