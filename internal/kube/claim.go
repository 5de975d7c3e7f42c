package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
)

// The resources of agent-sandbox, a project of Kubernetes SIG Apps. An operator keeps pools of
// warm pods; a claim takes one out of its pool.
var (
	claimsResource    = schema.GroupVersionResource{Group: "extensions.agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxclaims"}
	sandboxesResource = schema.GroupVersionResource{Group: "agents.x-k8s.io", Version: "v1beta1", Resource: "sandboxes"}
)

// podAnnotation names the pod of a sandbox that came from a pool; without it the pod has the name
// of the sandbox.
const podAnnotation = "agents.x-k8s.io/pod-name"

// claim takes a pod out of a pool and waits until it is ready. The claim carries no environment:
// that would make the pool start a new pod. After an error nothing is left of it.
func (k *cluster) claim(ctx context.Context, c *call) (*op.Pod, error) {
	namespace, name := k.namespaceOf(c.Options), "trl-"+strings.TrimPrefix(c.SessionID, "s-")
	labels := map[string]any{labelDaemon: c.Daemon, labelSession: c.SessionID}
	for key, value := range c.Options.Labels {
		labels[key] = value
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": claimsResource.GroupVersion().String(), "kind": "SandboxClaim",
		"metadata": map[string]any{"name": name, "labels": labels},
		"spec": map[string]any{
			"warmPoolRef":           map[string]any{"name": c.Options.ClaimPool},
			"additionalPodMetadata": map[string]any{"labels": labels},
		},
	}}
	claims := k.objects.Resource(claimsResource).Namespace(namespace)
	c.progress("schedule", "claiming a pod from pool %s", c.Options.ClaimPool)
	_, err := claims.Create(ctx, o, metav1.CreateOptions{})
	if apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) && apierrors.IsNotFound(err) {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: the cluster has no %s %s, which claim_pool needs; install agent-sandbox there",
			claimsResource.Resource, claimsResource.GroupVersion())
	}
	if err != nil {
		return nil, err
	}
	pod, err := k.claimed(ctx, c, namespace, name)
	if err != nil {
		k.cleanUp(op.Pod{Namespace: namespace, Claim: name})
		return nil, err
	}
	pod.Claim = name
	return pod, nil
}

// claimed waits until a claim has a pod that runs.
func (k *cluster) claimed(ctx context.Context, c *call, namespace, name string) (*op.Pod, error) {
	claims := k.objects.Resource(claimsResource).Namespace(namespace)
	get := func(ctx context.Context) (*unstructured.Unstructured, error) {
		return claims.Get(ctx, name, metav1.GetOptions{})
	}
	sandbox, waits := "", ""
	err := follow(ctx, claims, "claim "+name, name, get, func(o *unstructured.Unstructured) (bool, error) {
		ready, why := isReady(o)
		if why != "" && why != waits {
			waits = why
			c.progress("schedule", "%s", waits)
		}
		sandbox, _, _ = unstructured.NestedString(o.Object, "status", "sandbox", "name")
		return ready && sandbox != "", nil
	})
	if err != nil && ctx.Err() != nil && waits != "" {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: claim %s on pool %s: %s", name, c.Options.ClaimPool, waits)
	}
	if err != nil {
		return nil, err
	}
	o, err := k.objects.Resource(sandboxesResource).Namespace(namespace).Get(ctx, sandbox, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	options := c.Options
	options.Namespace, options.Pod = namespace, sandbox
	if pod := o.GetAnnotations()[podAnnotation]; pod != "" {
		options.Pod = pod
	}
	return k.find(ctx, options)
}

// isReady reads the condition Ready of a claim, and why it is not fulfilled.
func isReady(o *unstructured.Unstructured) (ready bool, why string) {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "Ready" {
			return condition["status"] == "True", strings.TrimSuffix(fmt.Sprintf("%v: %v", condition["reason"], condition["message"]), ": ")
		}
	}
	return false, ""
}
