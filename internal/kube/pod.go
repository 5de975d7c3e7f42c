package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
)

// The labels of everything that TRL makes.
const (
	labelDaemon  = "trl.dev/daemon"
	labelSession = "trl.dev/session"
)

// containerName is the container of a pod that TRL made without a template.
const containerName = "trl"

func (k *cluster) pods(namespace string) dynamic.ResourceInterface {
	return k.objects.Resource(podsResource).Namespace(namespace)
}

// create makes a pod and waits until its container runs. After an error nothing is left of it.
func (k *cluster) create(ctx context.Context, c *call) (*op.Pod, error) {
	if c.Options.ClaimPool != "" {
		return k.claim(ctx, c)
	}
	object, container, err := newPod(c.Request)
	if err != nil {
		return nil, err
	}
	namespace := k.namespaceOf(c.Options)
	c.progress("schedule", "creating a pod in namespace %s", namespace)
	made, err := k.pods(namespace).Create(ctx, object, metav1.CreateOptions{})
	pod := op.Pod{Namespace: namespace, Name: object.GetName(), Container: container, Made: true}
	if err == nil {
		pod.UID = string(made.GetUID())
		err = k.awaitRunning(ctx, c, &pod)
	}
	if err != nil {
		if made != nil {
			k.cleanUp(pod)
		}
		if c.Options.RunnerImage == "" && strings.Contains(err.Error(), `exec: "/bin/sh"`) {
			err = api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: image %s has no /bin/sh, with which TRL copies its runner; set the option runner_image", c.Options.Image)
		}
		return nil, err
	}
	return &pod, nil
}

// cleanUp removes what create made before it was given up.
func (k *cluster) cleanUp(pod op.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	_ = k.remove(ctx, pod)
}

func (k *cluster) namespaceOf(o api.PlaceOptions) string {
	if o.Namespace != "" {
		return o.Namespace
	}
	return k.namespace
}

// awaitRunning waits until the container of a pod runs, and completes pod.
func (k *cluster) awaitRunning(ctx context.Context, c *call, pod *op.Pod) error {
	said := ""
	var waiting error
	get := func(ctx context.Context) (*unstructured.Unstructured, error) { return k.get(ctx, *pod) }
	err := follow(ctx, k.pods(pod.Namespace), "pod "+pod.Name, pod.Name, get, func(o *unstructured.Unstructured) (bool, error) {
		st := stateOf(o, pod.Container)
		if st.ended != "" {
			return true, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s", st.ended)
		}
		if st.hopeless {
			return true, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: pod %s: %s", pod.Name, st.waits)
		}
		if st.waits != said && st.waits != "" {
			said = st.waits
			c.progress(st.step, "%s", st.waits)
			waiting = api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: pod %s: %s", pod.Name, st.waits)
		}
		if !st.running {
			return false, nil
		}
		pod.UID, pod.Image = string(o.GetUID()), st.image
		pod.Node, _, _ = unstructured.NestedString(o.Object, "spec", "nodeName")
		return true, nil
	})
	if err != nil && ctx.Err() != nil && waiting != nil {
		return waiting // the reason is more useful than that the time is over
	}
	if err != nil {
		return err
	}
	k.askNode(ctx, pod)
	return nil
}

// askNode asks for the system of the pod's node. Not every account may.
func (k *cluster) askNode(ctx context.Context, pod *op.Pod) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	node, err := k.objects.Resource(nodesResource).Get(ctx, pod.Node, metav1.GetOptions{})
	if err != nil {
		return
	}
	pod.OS, pod.Arch = systemOf(node)
}

// systemOf returns the system of a node.
func systemOf(node *unstructured.Unstructured) (os, arch string) {
	os, _, _ = unstructured.NestedString(node.Object, "status", "nodeInfo", "operatingSystem")
	arch, _, _ = unstructured.NestedString(node.Object, "status", "nodeInfo", "architecture")
	return os, arch
}

// The nodes that are asked for their system, and the time for it: it is one detail of a check, whose
// caller waits.
const (
	platformNodes   = 100
	platformTimeout = 3 * time.Second
)

// platform returns a pod with the system of all nodes; nil if they differ, if they are too many, or if
// this account may not ask.
func (k *cluster) platform(ctx context.Context) *op.Pod {
	ctx, cancel := context.WithTimeout(ctx, platformTimeout)
	defer cancel()
	nodes, err := k.objects.Resource(nodesResource).List(ctx, metav1.ListOptions{Limit: platformNodes})
	if err != nil || nodes.GetContinue() != "" {
		return nil
	}
	var all *op.Pod
	for _, node := range nodes.Items {
		var pod op.Pod
		pod.OS, pod.Arch = systemOf(&node)
		if all != nil && *all != pod {
			return nil
		}
		all = &pod
	}
	return all
}

// get returns the pod. The error says that it has ended if another one has its name.
func (k *cluster) get(ctx context.Context, pod op.Pod) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	o, err := k.pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && pod.UID != "", err == nil && pod.UID != "" && string(o.GetUID()) != pod.UID:
		return nil, deleted(pod.Name, "")
	case apierrors.IsNotFound(err):
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: no pod %q in namespace %s", pod.Name, pod.Namespace)
	}
	return o, err
}

// podState is what matters about a pod and one of its containers.
type podState struct {
	running  bool
	image    string
	ended    string // why it has ended
	waits    string // what it waits for
	step     string // of PlaceProgress
	hopeless bool   // it will wait forever
}

// hopeless are the reasons for waiting that do not pass by themselves.
var hopeless = []string{"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError", "RunContainerError"}

// stateOf reads the state of a pod.
func stateOf(o *unstructured.Unstructured, container string) (st podState) {
	name := o.GetName()
	text := func(fields ...string) string {
		s, _, _ := unstructured.NestedString(o.Object, fields...)
		return s
	}
	for _, list := range []string{"initContainerStatuses", "containerStatuses"} {
		statuses, _, _ := unstructured.NestedSlice(o.Object, "status", list)
		for _, entry := range statuses {
			status, _ := entry.(map[string]any)
			field := func(fields ...string) string {
				s, _, _ := unstructured.NestedString(status, fields...)
				return s
			}
			if reason := field("state", "waiting", "reason"); reason != "" && st.waits == "" {
				st.waits, st.step = strings.TrimSpace(reason+": "+field("state", "waiting", "message")), "pull"
				st.waits = strings.TrimSuffix(st.waits, ":")
				st.hopeless = slices.Contains(hopeless, reason)
			}
			terminated, _, _ := unstructured.NestedMap(status, "state", "terminated")
			own := list == "containerStatuses" && field("name") == container
			if terminated != nil && (own || list == "initContainerStatuses" && fmt.Sprint(terminated["exitCode"]) != "0") {
				st.ended = fmt.Sprintf("container %s of pod %s ended: %s, exit status %v", field("name"), name, field("state", "terminated", "reason"), terminated["exitCode"])
				if m := field("state", "terminated", "message"); m != "" {
					st.ended += ": " + strings.Join(strings.Fields(m), " ")
				}
			}
			if own {
				st.image = field("image")
				_, st.running, _ = unstructured.NestedMap(status, "state", "running")
			}
		}
	}
	phase, reason := text("status", "phase"), text("status", "reason")
	switch {
	case reason != "" && (phase == "Failed" || phase == "Succeeded"):
		st.ended = strings.TrimSuffix(fmt.Sprintf("pod %s: %s: %s", name, reason, strings.TrimSpace(text("status", "message"))), ": ")
	case st.ended == "" && (phase == "Failed" || phase == "Succeeded"):
		st.ended = fmt.Sprintf("pod %s has ended: %s", name, strings.ToLower(phase))
	case o.GetDeletionTimestamp() != nil && !st.running:
		st.ended = deleted(name, "").cause
	}
	if st.ended != "" {
		st.running = false
		if why := disruption(o); why != "" && reason == "" {
			st.ended += ": " + why
		}
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, entry := range conditions {
		condition, _ := entry.(map[string]any)
		if condition["type"] == "PodScheduled" && condition["status"] == "False" && st.waits == "" && !st.running {
			st.waits, st.step = fmt.Sprintf("%v: %v", condition["reason"], condition["message"]), "schedule"
		}
	}
	return st
}

// find finds a container in a pod that runs.
func (k *cluster) find(ctx context.Context, o api.PlaceOptions) (*op.Pod, error) {
	pod := op.Pod{Namespace: k.namespaceOf(o), Name: o.Pod, Container: o.Container}
	object, err := k.get(ctx, pod)
	if err != nil {
		return nil, err
	}
	containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "containers")
	var names []string
	for _, entry := range containers {
		if container, ok := entry.(map[string]any); ok {
			name, _ := container["name"].(string)
			names = append(names, name)
		}
	}
	if pod.Container == "" && len(names) > 0 {
		pod.Container = names[0]
		if name := object.GetAnnotations()["kubectl.kubernetes.io/default-container"]; slices.Contains(names, name) {
			pod.Container = name
		}
	}
	if !slices.Contains(names, pod.Container) {
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: pod %s has no container %q; it has %s", pod.Name, pod.Container, strings.Join(names, ", "))
	}
	st := stateOf(object, pod.Container)
	if !st.running {
		why := st.ended
		if why == "" {
			why = "pod " + pod.Name + " is not running: " + st.waits
		}
		return nil, api.Errorf(api.CodeRuntimeUnavailable, "kubernetes: %s", why)
	}
	pod.UID, pod.Image = string(object.GetUID()), st.image
	pod.Node, _, _ = unstructured.NestedString(object.Object, "spec", "nodeName")
	k.askNode(ctx, &pod)
	return &pod, nil
}

// checkRuns returns an endedError if the container of a pod does not run any more.
func (k *cluster) checkRuns(ctx context.Context, pod op.Pod) error {
	o, err := k.get(ctx, pod)
	if errors.As(err, new(*endedError)) {
		return deleted(pod.Name, k.reason(ctx, pod))
	}
	if err != nil {
		return err
	}
	switch st := stateOf(o, pod.Container); {
	case st.ended != "":
		return &endedError{st.ended}
	case o.GetDeletionTimestamp() != nil: // its processes have got the signal to end
		return deleted(pod.Name, disruption(o))
	}
	return nil
}

// remove removes a pod that TRL made, with the claim by which TRL got it.
func (k *cluster) remove(ctx context.Context, pod op.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var err error
	switch {
	case pod.Claim != "":
		err = k.objects.Resource(claimsResource).Namespace(pod.Namespace).Delete(ctx, pod.Claim, metav1.DeleteOptions{})
	case pod.Made:
		// The session has ended its processes, so the container needs no time.
		now := int64(0)
		options := metav1.DeleteOptions{GracePeriodSeconds: &now}
		if pod.UID != "" {
			options.Preconditions = metav1.NewUIDPreconditions(pod.UID)
		}
		err = k.pods(pod.Namespace).Delete(ctx, pod.Name, options)
	}
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it does not exist, or another one has its name
		return nil
	}
	return err
}

// list finds the pods and claims of a daemon. Pods that a claim brought are not listed: they end with
// their claim.
func (k *cluster) list(ctx context.Context, daemon string, namespaces []string) (strays []op.Stray, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	selector := metav1.ListOptions{LabelSelector: labelDaemon + "=" + daemon}
	for _, namespace := range namespaces {
		claimed := map[string]bool{}
		claims, err := k.objects.Resource(claimsResource).Namespace(namespace).List(ctx, selector)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) { // a cluster without claims, or a role without them
			return nil, err
		}
		if err == nil {
			for _, o := range claims.Items {
				id := o.GetLabels()[labelSession]
				claimed[id] = true
				strays = append(strays, op.Stray{SessionID: id, Pod: op.Pod{Namespace: namespace, Claim: o.GetName()}})
			}
		}
		pods, err := k.pods(namespace).List(ctx, selector)
		if err != nil {
			return nil, err
		}
		for _, o := range pods.Items {
			if id := o.GetLabels()[labelSession]; !claimed[id] {
				strays = append(strays, op.Stray{SessionID: id, Pod: op.Pod{Namespace: namespace, Name: o.GetName(), UID: string(o.GetUID()), Made: true}})
			}
		}
	}
	return strays, nil
}
