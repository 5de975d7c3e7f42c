//go:build linux

package kube

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes/clustertest"
	"github.com/trl-dev/trl/internal/testkit"
)

// define defines a resource of agent-sandbox in the cluster, with any fields.
func define(t *testing.T, k *cluster, r schema.GroupVersionResource, kind string) {
	t.Helper()
	definitions := k.objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": r.GroupResource().String()},
		"spec": map[string]any{
			"group": r.Group, "scope": "Namespaced", "names": map[string]any{"plural": r.Resource, "singular": strings.ToLower(kind), "kind": kind},
			"versions": []any{map[string]any{
				"name": r.Version, "served": true, "storage": true, "subresources": map[string]any{"status": map[string]any{}},
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	testkit.Must(definitions.Create(t.Context(), o, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = definitions.Delete(context.Background(), o.GetName(), metav1.DeleteOptions{}) })
	testkit.Eventually(t, "the cluster serves "+r.Resource, func() bool {
		_, err := k.objects.Resource(r).Namespace("default").List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
}

// operator does the part of agent-sandbox: it gives a pod to each claim on the pool warm, and tells those on
// other pools that they have to wait.
func operator(t *testing.T, k *cluster, pod string) {
	ctx, cancel := context.WithCancel(context.Background())
	claims := k.objects.Resource(claimsResource).Namespace("default")
	w := testkit.Must(claims.Watch(ctx, metav1.ListOptions{}))(t)
	var work sync.WaitGroup
	work.Go(func() {
		for e := range w.ResultChan() {
			if e.Type != watch.Added {
				continue
			}
			// A caller that gives up may have removed its claim already.
			if err := fulfil(ctx, k, e.Object.(*unstructured.Unstructured), pod); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		}
	})
	t.Cleanup(func() {
		w.Stop()
		cancel()
		work.Wait()
	})
}

func fulfil(ctx context.Context, k *cluster, claim *unstructured.Unstructured, pod string) error {
	status := func(ready, reason, message string, more map[string]any) error {
		set := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": ready, "reason": reason, "message": message}}}
		for key, value := range more {
			set[key] = value
		}
		claim.Object["status"] = set
		changed, err := k.objects.Resource(claimsResource).Namespace("default").UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		if err == nil {
			claim = changed
		}
		return err
	}
	if err := status("False", "PoolEmpty", "the pool has no pod yet", nil); err != nil {
		return err
	}
	if pool, _, _ := unstructured.NestedString(claim.Object, "spec", "warmPoolRef", "name"); pool != "warm" {
		return nil
	}
	labels, _, _ := unstructured.NestedStringMap(claim.Object, "spec", "additionalPodMetadata", "labels")
	o, err := k.pods("default").Get(ctx, pod, metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.SetLabels(labels)
	if _, err := k.pods("default").Update(ctx, o, metav1.UpdateOptions{}); err != nil {
		return err
	}
	sandbox := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": sandboxesResource.GroupVersion().String(), "kind": "Sandbox",
		"metadata": map[string]any{"name": "warm-x", "annotations": map[string]any{podAnnotation: pod}},
	}}
	if _, err := k.objects.Resource(sandboxesResource).Namespace("default").Create(ctx, sandbox, metav1.CreateOptions{}); err != nil {
		return err
	}
	return status("True", "Ready", "", map[string]any{"sandbox": map[string]any{"name": "warm-x"}})
}

// TestClaim: a session gets a pod out of a warm pool by a claim, which is removed with the session, and when
// its caller gives up.
func TestClaim(t *testing.T) {
	testkit.Long(t)
	c := newClient(t)
	k := testkit.Must(newCluster(""))(t)
	request := func(id, pool string) op.Request {
		return op.Request{Op: op.Create, Daemon: "d1", SessionID: id, Options: api.PlaceOptions{ClaimPool: pool, Labels: map[string]string{"team": "a"}}}
	}
	a := c.ask(request("s-0000000011", "warm"))
	if a.Error == nil || !strings.Contains(a.Error.Message, "the cluster has no sandboxclaims extensions.agents.x-k8s.io/v1beta1") {
		t.Errorf("a cluster without agent-sandbox: %+v", a.Error)
	}
	define(t, k, claimsResource, "SandboxClaim")
	define(t, k, sandboxesResource, "Sandbox")
	warm := clustertest.Start(t).Pod(t)
	operator(t, k, warm)

	conn, _, a, progress := c.begin(request("s-0000000012", "warm"))
	conn.Close()
	if a.Error != nil || a.Pod == nil || a.Pod.Name != warm || a.Pod.Claim != "trl-0000000012" || a.Pod.Made {
		t.Fatalf("a claim: %+v", a)
	}
	if got := fmt.Sprint(progress); !strings.Contains(got, "claiming a pod from pool warm") || !strings.Contains(got, "PoolEmpty: the pool has no pod yet") {
		t.Errorf("progress %s", got)
	}
	if out, exit := c.run(a.Pod, "", "/bin/sh", "-c", "echo in the pod"); out != "in the pod\n" || exit.Status != 0 {
		t.Errorf("%q, %+v", out, exit)
	}
	claims := k.objects.Resource(claimsResource).Namespace("default")
	o := testkit.Must(claims.Get(t.Context(), a.Pod.Claim, metav1.GetOptions{}))(t)
	if l := o.GetLabels(); l[labelDaemon] != "d1" || l[labelSession] != "s-0000000012" || l["team"] != "a" {
		t.Errorf("labels %v", l)
	}
	l := c.ask(op.Request{Op: op.List, Daemon: "d1", Namespaces: []string{"default"}})
	if len(l.Strays) != 1 || l.Strays[0].SessionID != "s-0000000012" || l.Strays[0].Pod.Claim != a.Pod.Claim || l.Strays[0].Pod.Made {
		t.Errorf("a claim is listed without its pod: %+v", l.Strays)
	}
	for range 2 {
		if r := c.ask(op.Request{Op: op.Remove, Pod: *a.Pod}); r.Error != nil {
			t.Error(r.Error)
		}
	}
	wantClaims := func() {
		t.Helper()
		testkit.Eventually(t, "no claim is left", func() bool {
			return len(testkit.Must(claims.List(t.Context(), metav1.ListOptions{}))(t).Items) == 0
		})
	}
	wantClaims()
	if _, err := k.pods("default").Get(t.Context(), warm, metav1.GetOptions{}); err != nil {
		t.Errorf("TRL removed a pod that it did not make: %v", err)
	}

	conn = c.dial(request("s-0000000013", "cold"))
	testkit.Eventually(t, "the claim exists", func() bool {
		return len(testkit.Must(claims.List(t.Context(), metav1.ListOptions{}))(t).Items) == 1
	})
	conn.Close() // the caller gives up
	wantClaims()
}
