package kube

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/kube/op"
)

// awaitRunner is the command of a new pod. It becomes the runner once that is there.
const awaitRunner = "until [ -x " + op.Runner + " ]; do sleep 0.1 2>/dev/null || sleep 1; done; exec " + op.Runner + " init"

// newPod describes the pod of a new session, and names its container.
func newPod(r op.Request) (*unstructured.Unstructured, string, error) {
	o := r.Options
	object := &unstructured.Unstructured{Object: map[string]any{}}
	if o.PodTemplate != "" {
		text, err := os.ReadFile(o.PodTemplate)
		if err == nil {
			err = yaml.Unmarshal(text, &object.Object)
		}
		if err != nil {
			return nil, "", api.Errorf(api.CodeInvalidParams, "option pod_template: %s", err)
		}
		if kind := object.GetKind(); kind != "" && kind != "Pod" {
			return nil, "", api.Errorf(api.CodeInvalidParams, "option pod_template: %s has a %s, not a Pod", o.PodTemplate, kind)
		}
	}
	object.SetAPIVersion("v1")
	object.SetKind("Pod")
	object.SetName("trl-" + strings.TrimPrefix(r.SessionID, "s-"))
	object.SetNamespace("")
	object.SetGenerateName("")
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, o.Labels)
	labels[labelDaemon], labels[labelSession] = r.Daemon, r.SessionID
	object.SetLabels(labels)

	spec, err := mapIn(object.Object, "spec")
	if err != nil {
		return nil, "", err
	}
	spec["restartPolicy"] = "Never"
	setDefault(spec, "terminationGracePeriodSeconds", int64(10))
	if o.ServiceAccount != "" {
		spec["serviceAccountName"] = o.ServiceAccount
	} else if _, set := spec["serviceAccountName"]; !set {
		setDefault(spec, "automountServiceAccountToken", false)
	}
	if o.RuntimeClass != "" {
		spec["runtimeClassName"] = o.RuntimeClass
	}
	if len(o.NodeSelector) > 0 {
		selector, err := mapIn(spec, "nodeSelector")
		if err != nil {
			return nil, "", err
		}
		for name, value := range o.NodeSelector {
			selector[name] = value
		}
	}
	if err := addTolerations(spec, o.Tolerations); err != nil {
		return nil, "", err
	}
	container, err := containerOf(spec, o.Container)
	if err != nil {
		return nil, "", err
	}
	if o.Image != "" {
		container["image"] = o.Image
	}
	if text, _ := container["image"].(string); text == "" {
		return nil, "", api.Errorf(api.CodeInvalidParams, "option image: a new pod needs an image; write kubernetes:IMAGE")
	}
	delete(container, "args")
	switch o.Pull {
	case "", "missing":
		setDefault(container, "imagePullPolicy", "IfNotPresent")
	case "always":
		container["imagePullPolicy"] = "Always"
	case "never":
		container["imagePullPolicy"] = "Never"
	}
	if err := addSecurity(container, o); err != nil {
		return nil, "", err
	}
	if err := addLimits(container, r.Limits); err != nil {
		return nil, "", err
	}
	if err := addVolumes(spec, container, o.Mounts); err != nil {
		return nil, "", err
	}
	if o.RunnerImage != "" {
		container["command"] = []any{op.Runner, "init"}
		first := map[string]any{
			"name": "trl-runner", "image": o.RunnerImage, "command": []any{"/trl-runner", "copy", op.Runner},
			"volumeMounts": []any{map[string]any{"name": runnerVolume, "mountPath": op.RunnerDir}},
		}
		if security, ok := container["securityContext"]; ok {
			first["securityContext"] = security
		}
		list, _ := spec["initContainers"].([]any)
		spec["initContainers"] = append([]any{first}, list...)
	} else {
		container["command"] = []any{"/bin/sh", "-c", awaitRunner}
	}
	name, _ := container["name"].(string)
	return object, name, nil
}

// setDefault sets a field that the template leaves open.
func setDefault(object map[string]any, name string, value any) {
	if _, set := object[name]; !set {
		object[name] = value
	}
}

// mapIn returns the object in a field, which it makes if it is not there.
func mapIn(object map[string]any, name string) (map[string]any, error) {
	switch inner := object[name].(type) {
	case nil:
		made := map[string]any{}
		object[name] = made
		return made, nil
	case map[string]any:
		return inner, nil
	}
	return nil, api.Errorf(api.CodeInvalidParams, "option pod_template: %s is not an object", name)
}

// containerOf returns the container of the session: the named one, the first one of the template,
// or a new one.
func containerOf(spec map[string]any, name string) (map[string]any, error) {
	list, _ := spec["containers"].([]any)
	for _, entry := range list {
		container, ok := entry.(map[string]any)
		if !ok {
			return nil, api.Errorf(api.CodeInvalidParams, "option pod_template: a container is not an object")
		}
		if name == "" || container["name"] == name {
			setDefault(container, "name", containerName)
			return container, nil
		}
	}
	if name == "" {
		name = containerName
	}
	container := map[string]any{"name": name}
	spec["containers"] = append(list, container)
	return container, nil
}

// addLimits sets the limits of the container that Kubernetes knows.
func addLimits(container map[string]any, l *api.Limits) error {
	if l == nil {
		return nil
	}
	resources, err := mapIn(container, "resources")
	if err != nil {
		return err
	}
	limits, err := mapIn(resources, "limits")
	if err != nil {
		return err
	}
	l.Each(func(name string, v float64) {
		switch {
		case v <= 0:
		case name == api.LimitCPUs:
			limits["cpu"] = strconv.FormatInt(int64(v*1000), 10) + "m"
		case name == api.LimitMemory:
			limits["memory"] = strconv.FormatInt(int64(v), 10)
		}
	})
	return nil
}

// addSecurity takes all privileges away that neither the template nor the options give.
func addSecurity(container map[string]any, o api.PlaceOptions) error {
	security, err := mapIn(container, "securityContext")
	if err != nil {
		return err
	}
	setDefault(security, "allowPrivilegeEscalation", false)
	setDefault(security, "seccompProfile", map[string]any{"type": "RuntimeDefault"})
	capabilities := map[string]any{"drop": []any{"ALL"}}
	if len(o.Capabilities) > 0 {
		capabilities["add"] = anyList(o.Capabilities)
		security["capabilities"] = capabilities
	}
	setDefault(security, "capabilities", capabilities)
	if o.ReadOnly != nil {
		security["readOnlyRootFilesystem"] = *o.ReadOnly
	}
	if o.User == "" {
		return nil
	}
	uid, gid, both := strings.Cut(o.User, ":")
	for field, text := range map[string]string{"runAsUser": uid, "runAsGroup": gid} {
		if field == "runAsGroup" && !both {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 32)
		if err != nil || n < 0 {
			return api.Errorf(api.CodeInvalidParams, "option user: %q: pods take numbers, as UID or UID:GID", o.User)
		}
		security[field] = n
	}
	return nil
}

// runnerVolume is the volume for the runner.
const runnerVolume = "trl-runner"

// addVolumes adds the volume of the runner, and the claims that mounts name.
func addVolumes(spec, container map[string]any, mounts []string) error {
	volumes, _ := spec["volumes"].([]any)
	mounted, _ := container["volumeMounts"].([]any)
	volumes = append(volumes, map[string]any{"name": runnerVolume, "emptyDir": map[string]any{}})
	mounted = append(mounted, map[string]any{"name": runnerVolume, "mountPath": op.RunnerDir})
	for i, mount := range mounts {
		parts := strings.Split(mount, ":")
		if len(parts) < 2 || len(parts) > 3 || len(parts) == 3 && parts[2] != "ro" && parts[2] != "rw" {
			return api.Errorf(api.CodeInvalidParams, "option mounts: %q: must be CLAIM:TARGET or CLAIM:TARGET:ro", mount)
		}
		if strings.HasPrefix(parts[0], "/") {
			return api.Errorf(api.CodeInvalidParams, "option mounts: %q: a pod mounts persistent volume claims, not directories of the node; use pod_template for a hostPath", mount)
		}
		name, readOnly := fmt.Sprintf("trl-mount-%d", i+1), len(parts) == 3 && parts[2] == "ro"
		volumes = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": parts[0]}})
		mounted = append(mounted, map[string]any{"name": name, "mountPath": parts[1], "readOnly": readOnly})
	}
	spec["volumes"], container["volumeMounts"] = volumes, mounted
	return nil
}

// effects are the effects of taints.
var effects = []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}

// addTolerations adds tolerations in the form KEY[=VALUE][:EFFECT].
func addTolerations(spec map[string]any, list []string) error {
	all, _ := spec["tolerations"].([]any)
	for _, text := range list {
		rest, effect, hasEffect := strings.Cut(text, ":")
		key, value, hasValue := strings.Cut(rest, "=")
		if key == "" || hasEffect && !slices.Contains(effects, effect) {
			return api.Errorf(api.CodeInvalidParams, "option tolerations: %q: must be KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT, with the effect %s",
				text, strings.Join(effects, ", "))
		}
		toleration := map[string]any{"key": key, "operator": "Exists"}
		if hasValue {
			toleration["operator"], toleration["value"] = "Equal", value
		}
		if hasEffect {
			toleration["effect"] = effect
		}
		all = append(all, toleration)
	}
	if len(all) > 0 {
		spec["tolerations"] = all
	}
	return nil
}

func anyList(list []string) []any {
	all := make([]any, len(list))
	for i, s := range list {
		all[i] = s
	}
	return all
}
