//go:build linux

package kube

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/testkit"
)

// TestRole: the account of dist/kubernetes/rbac.yaml can do what a daemon does in its namespace, and nothing
// else.
func TestRole(t *testing.T) {
	cluster := clustertest.Start(t)
	apply(t, cluster, "rbac.yaml")
	text := testkit.Must(cluster.Do(http.MethodPost, "/api/v1/namespaces/default/serviceaccounts/trl/token", "application/json",
		[]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)))(t)
	var answer struct{ Status struct{ Token string } }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status.Token == "" {
		t.Fatalf("no token: %v, %s", err, text)
	}
	admin := testkit.Must(os.ReadFile(cluster.Kubeconfig))(t)
	mine := regexp.MustCompile(`token: [^},\s]+`).ReplaceAll(admin, []byte("token: "+answer.Status.Token))
	if bytes.Equal(admin, mine) {
		t.Fatalf("the kubeconfig has no token:\n%s", admin)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, mine, 0o600); err != nil {
		t.Fatal(err)
	}

	c := newClientOf(t, kubeconfig)
	if a := c.ask(op.Request{Op: op.Check}); a.Error != nil || a.Version != "v"+clustertest.Version {
		t.Errorf("check: %+v", a)
	}
	pod := c.create("s-0000000021", api.PlaceOptions{Image: clustertest.Busybox})
	if out, exit := c.run(pod, "in", "/bin/sh", "-c", "cat; echo; exit 3"); out != "in\n" || exit.Status != 3 {
		t.Errorf("%q, %+v", out, exit)
	}
	if a := c.ask(op.Request{Op: op.List, Daemon: "d1", Namespaces: []string{"default"}}); len(a.Strays) != 1 {
		t.Errorf("list: %+v", a)
	}
	if a := c.ask(op.Request{Op: op.Remove, Pod: *pod}); a.Error != nil {
		t.Error(a.Error)
	}
	c.wantNone()

	k := testkit.Must(newCluster(""))(t)
	for _, place := range []struct{ namespace, resource string }{{"default", "secrets"}, {"kube-system", "pods"}, {"", "nodes"}} {
		_, err := k.objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: place.resource}).Namespace(place.namespace).List(t.Context(), metav1.ListOptions{})
		if err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("%s in namespace %q: %v", place.resource, place.namespace, err)
		}
	}
	a := c.ask(op.Request{Op: op.Create, Daemon: "d1", SessionID: "s-0000000022", Options: api.PlaceOptions{Image: clustertest.Busybox, Namespace: "kube-system"}})
	if a.Error == nil || !strings.Contains(a.Error.Message, "forbidden") {
		t.Errorf("a pod in another namespace: %+v", a)
	}
}

// TestManifests: a cluster accepts the other files too.
func TestManifests(t *testing.T) {
	cluster := clustertest.Start(t)
	for _, name := range []string{"daemon.yaml", "network-policy.yaml"} {
		apply(t, cluster, name, "dryRun=All")
	}
}

// apply creates the objects of a file of dist/kubernetes. They are removed after the test.
func apply(t *testing.T, cluster *clustertest.Cluster, name string, query ...string) {
	t.Helper()
	text := testkit.Must(os.ReadFile(filepath.Join("../../dist/kubernetes", name)))(t)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		body := testkit.Must(yaml.YAMLToJSONStrict([]byte(document)))(t)
		var object struct {
			APIVersion, Kind string
			Metadata         struct{ Name string }
		}
		if err := json.Unmarshal(body, &object); err != nil {
			t.Fatal(err)
		}
		base := "/apis/"
		if !strings.Contains(object.APIVersion, "/") {
			base = "/api/"
		}
		plural := strings.ToLower(object.Kind) + "s"
		plural = strings.Replace(plural, "policys", "policies", 1)
		path := base + object.APIVersion + "/namespaces/default/" + plural
		// Strict: a field that the cluster does not know is an error.
		if _, err := cluster.Do(http.MethodPost, path+"?fieldValidation=Strict&"+strings.Join(query, "&"), "application/json", body); err != nil {
			t.Fatalf("%s: %s %s: %v", name, object.Kind, object.Metadata.Name, err)
		}
		t.Cleanup(func() { _, _ = cluster.Do(http.MethodDelete, path+"/"+object.Metadata.Name, "", nil) })
	}
}
