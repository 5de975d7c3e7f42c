package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/trl-dev/trl/internal/kube/op"
)

// fate is what the cluster says about the end of a pod. A pod that is evicted, or whose node is lost, is
// removed soon after the cluster has given the reason: a later question finds no pod.
type fate struct {
	over chan struct{} // closed when the pod has ended
	why  string        // guarded by cluster.mu; empty if the cluster gave no reason
}

// lastBytes is how long the connections to a pod may stay open after its end. They end by themselves,
// with the last bytes, unless its node is lost.
const lastBytes = 5 * time.Second

// watch notes the fate of a pod, from the first call for the pod to its end or that of life.
func (k *cluster) watch(life context.Context, tasks *sync.WaitGroup, pod op.Pod) *fate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.fates[pod.UID]; f != nil {
		return f
	}
	f := &fate{over: make(chan struct{})}
	k.fates[pod.UID] = f
	tasks.Go(func() {
		get := func(ctx context.Context) (*unstructured.Unstructured, error) { return k.get(ctx, pod) }
		see := func(o *unstructured.Unstructured) (bool, error) {
			k.mu.Lock()
			f.why = disruption(o)
			k.mu.Unlock()
			phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
			return phase == "Failed" || phase == "Succeeded", nil
		}
		err := follow(life, k.pods(pod.Namespace), "pod "+pod.Name, pod.Name, get, see)
		for apierrors.IsUnauthorized(err) && pause(life, lastPause) { // the credentials may be renewed
			err = follow(life, k.pods(pod.Namespace), "pod "+pod.Name, pod.Name, get, see)
		}
		forget := func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			delete(k.fates, pod.UID)
		}
		if err != nil && !errors.As(err, new(*endedError)) { // this account may not watch, or the program ends
			forget()
			return
		}
		close(f.over)
		time.AfterFunc(forgetAfter, forget)
	})
	return f
}

// reason returns the reason for which the cluster has removed a pod; empty if there is none, or if the pod
// was not watched. The watch may learn of the end a moment later than an answer of the cluster does.
func (k *cluster) reason(ctx context.Context, pod op.Pod) string {
	k.mu.Lock()
	f := k.fates[pod.UID]
	k.mu.Unlock()
	if f == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, lastBytes)
	defer cancel()
	select {
	case <-f.over:
	case <-ctx.Done():
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return f.why
}

// cutAfter calls cut when the pod has ended and its connections had their time, unless ctx ends first.
func (f *fate) cutAfter(ctx context.Context, cut func()) {
	select {
	case <-f.over:
	case <-ctx.Done():
		return
	}
	if pause(ctx, lastBytes) {
		cut()
	}
}

// deleted is the end of a pod that was deleted. why is the reason of the cluster; empty if a person
// or a program has deleted the pod.
func deleted(name, why string) *endedError {
	cause := "pod " + name + " was deleted"
	if why != "" {
		cause += ": " + why
	}
	return &endedError{cause}
}

// disruption returns the reason for which the cluster ends a pod: an eviction, a node that is lost, a pod
// with a higher priority.
func disruption(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "DisruptionTarget" && condition["status"] == "True" {
			return fmt.Sprintf("%v: %v", condition["reason"], condition["message"])
		}
	}
	return ""
}
