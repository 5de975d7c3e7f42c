package api

import (
	"reflect"
	"sort"
	"strings"
)

// PlaceKind says what a place is and how a session gets there.
type PlaceKind string

// The kinds of places. A place is one word: a name from the configuration, a kind, or
// KIND:ARGUMENT.
const (
	PlaceHost       PlaceKind = "host"       // the daemon's own machine
	PlaceDocker     PlaceKind = "docker"     // docker:IMAGE, a new container
	PlaceContainer  PlaceKind = "container"  // container:NAME, an existing container
	PlaceSSH        PlaceKind = "ssh"        // ssh:DESTINATION, another machine
	PlaceKubernetes PlaceKind = "kubernetes" // kubernetes:IMAGE or k8s:IMAGE, a new pod
	PlacePod        PlaceKind = "pod"        // pod:[NAMESPACE/]POD[/CONTAINER], an existing pod
	PlaceTRL        PlaceKind = "trl"        // trl:ADDRESS, another daemon
)

// PlaceOptions are the options of places. Each kind knows some of them; see PlaceKinds.
type PlaceOptions struct {
	// Image is the image of a new container or pod.
	Image string `json:"image,omitempty"`
	// Container is the name or id of an existing container; in a pod, the name of one of its
	// containers.
	Container string `json:"container,omitempty"`
	// Mounts are SOURCE:TARGET or SOURCE:TARGET:ro. A source that begins with / is a directory
	// or file of the engine's machine; any other is a volume.
	Mounts []string `json:"mounts,omitempty"`
	// Network is none, bridge or the name of a network.
	Network string `json:"network,omitempty"`
	// User is the user in the container, as NAME, UID or UID:GID.
	User string `json:"user,omitempty"`
	// Pull says when to pull the image: missing (the default), always or never.
	Pull string `json:"pull,omitempty"`
	// Platform is the platform of the image, such as linux/arm64.
	Platform string `json:"platform,omitempty"`
	// Labels are added to the container or pod.
	Labels map[string]string `json:"labels,omitempty"`
	// ReadOnly makes the root file system of the container read-only.
	ReadOnly *bool `json:"read_only,omitempty"`
	// Capabilities are the capabilities that the container has; by default it has none.
	Capabilities []string `json:"capabilities,omitempty"`
	// OCIRuntime is the runtime of the engine, such as runsc for gVisor.
	OCIRuntime string `json:"oci_runtime,omitempty"`
	// Engine is the address of the engine, such as unix:///run/docker.sock.
	Engine string `json:"engine,omitempty"`

	// Destination is what ssh(1) connects to: a host name, user@host, or a name from ssh_config.
	Destination string `json:"destination,omitempty"`
	// Identity is the file with the private key.
	Identity string `json:"identity,omitempty"`
	// SSHOptions are options of ssh_config, such as Port=2222.
	SSHOptions []string `json:"ssh_options,omitempty"`

	// RunnerImage is an image with TRL's runner, for images without a shell.
	RunnerImage string `json:"runner_image,omitempty"`
	// Context is the context of the kubeconfig.
	Context string `json:"context,omitempty"`
	// Namespace is the namespace of the pod.
	Namespace string `json:"namespace,omitempty"`
	// Pod is the name of an existing pod.
	Pod string `json:"pod,omitempty"`
	// ServiceAccount is the service account of a new pod.
	ServiceAccount string `json:"service_account,omitempty"`
	// NodeSelector selects the nodes for a new pod by their labels.
	NodeSelector map[string]string `json:"node_selector,omitempty"`
	// Tolerations are KEY, KEY=VALUE, KEY:EFFECT or KEY=VALUE:EFFECT.
	Tolerations []string `json:"tolerations,omitempty"`
	// RuntimeClass is the runtime class of a new pod.
	RuntimeClass string `json:"runtime_class,omitempty"`
	// PodTemplate is a file with a pod, into which the other options are merged.
	PodTemplate string `json:"pod_template,omitempty"`
	// ClaimPool is the warm pool from which a pod is claimed.
	ClaimPool string `json:"claim_pool,omitempty"`

	// Address is the address of another daemon, such as grpcs://build:7331.
	Address string `json:"address,omitempty"`
	// TokenFile is the file with the token for that daemon.
	TokenFile string `json:"token_file,omitempty"`
	// CAFile is the file with the certificates that vouch for that daemon.
	CAFile string `json:"ca_file,omitempty"`
}

// Set returns the names of the options that are set, sorted.
func (o PlaceOptions) Set() []string {
	var names []string
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// PlaceInfo describes the place of a session. Its fields are empty where they do not apply.
type PlaceInfo struct {
	Kind      PlaceKind `json:"kind"`
	Container string    `json:"container,omitempty"` // name of the container
	Image     string    `json:"image,omitempty"`     // image of the container or pod
	Host      string    `json:"host,omitempty"`      // the machine: where the engine runs, or what ssh connected to
	Namespace string    `json:"namespace,omitempty"` // namespace of the pod
	Pod       string    `json:"pod,omitempty"`       // name of the pod
	Node      string    `json:"node,omitempty"`      // node of the pod
	Address   string    `json:"address,omitempty"`   // address of the other daemon
	OS        string    `json:"os,omitempty"`        // such as linux
	Arch      string    `json:"arch,omitempty"`      // such as amd64
}

// PlaceProgress reports a slow step on the way to a session.
type PlaceProgress struct {
	// Step is pull, schedule, start or upload.
	Step string `json:"step"`
	// Message says for people what happens, such as "pulling alpine:3".
	Message string `json:"message"`
	// Done and Total count bytes; Total is 0 if it is not known.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
}

// RuntimeCheckResult says whether sessions can be created in a place.
type RuntimeCheckResult struct {
	// Runtime is the word that was checked.
	Runtime   string    `json:"runtime"`
	Kind      PlaceKind `json:"kind"`
	Reachable bool      `json:"reachable"`
	// Why says why the place cannot be reached, and what to do.
	Why string `json:"why,omitempty"`
	// LatencyMS is how long one question and its answer took.
	LatencyMS float64 `json:"latency_ms,omitempty"`
	OS        string  `json:"os,omitempty"`
	Arch      string  `json:"arch,omitempty"`
	// Engine is the name and version of what runs the place, such as "docker 20.10.24".
	Engine string `json:"engine,omitempty"`
	// Enforced lists what sessions have there and may lack in other places, such as
	// "cgroup.kill".
	Enforced []string `json:"enforced"`
}
