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

// PlaceKindInfo describes a kind of place: how its words are written and which options it knows.
type PlaceKindInfo struct {
	Kind PlaceKind
	// Short is another word for the kind; empty if there is none.
	Short string
	// Argument is what follows the colon, for people; empty if the kind has no argument.
	Argument string
	// Sets are the options that the argument sets. A place of the kind needs the first of them.
	Sets []string
	// Options are the other options of the kind.
	Options []string
	Doc     string
}

// PlaceKinds is the one list of the kinds. It is a function, so that programs that do not call it,
// such as the runner, do not contain it.
func PlaceKinds() []PlaceKindInfo {
	return []PlaceKindInfo{
		{Kind: PlaceHost, Doc: "the daemon's own machine"},
		{
			Kind: PlaceDocker, Argument: "IMAGE", Sets: []string{"image"}, Doc: "a new container, which lives as long as a session is in it",
			Options: []string{"mounts", "network", "user", "pull", "platform", "labels", "read_only", "capabilities", "oci_runtime", "engine"},
		},
		{Kind: PlaceContainer, Argument: "NAME", Sets: []string{"container"}, Options: []string{"user", "engine"}, Doc: "an existing container, which TRL never removes"},
		{Kind: PlaceSSH, Argument: "DESTINATION", Sets: []string{"destination"}, Options: []string{"identity", "ssh_options"}, Doc: "another machine, as ssh(1) connects to it"},
		{
			Kind: PlaceKubernetes, Short: "k8s", Argument: "IMAGE", Sets: []string{"image"}, Doc: "a new pod, which lives as long as a session is in it",
			Options: []string{
				"context", "namespace", "container", "mounts", "user", "pull", "labels", "read_only", "capabilities", "service_account", "node_selector", "tolerations",
				"runtime_class", "pod_template", "claim_pool", "runner_image",
			},
		},
		{Kind: PlacePod, Argument: "[NAMESPACE/]POD[/CONTAINER]", Sets: []string{"pod", "namespace", "container"}, Options: []string{"context"}, Doc: "an existing pod, which TRL never removes"},
		{Kind: PlaceTRL, Argument: "ADDRESS", Sets: []string{"address"}, Options: []string{"token_file", "ca_file", "cert_file", "key_file", "server_name", "runtime", "owner_lost_s"}, Doc: "the machine of another daemon, over gRPC"},
	}
}

// FindPlaceKind returns the row of PlaceKinds with that name or short name.
func FindPlaceKind(name string) (PlaceKindInfo, bool) {
	for _, k := range PlaceKinds() {
		if name != "" && (string(k.Kind) == name || k.Short == name) {
			return k, true
		}
	}
	return PlaceKindInfo{}, false
}

// Knows reports whether places of the kind have the option.
func (k PlaceKindInfo) Knows(option string) bool {
	return contains(k.Sets, option) || contains(k.Options, option)
}

// All returns all options of the kind, those of its argument first.
func (k PlaceKindInfo) All() []string { return append(append([]string(nil), k.Sets...), k.Options...) }

// PlaceOptions are the options of places. Each kind knows some of them.
type PlaceOptions struct {
	// Image is the image of a new container or pod.
	Image string `json:"image,omitempty"`
	// Container is the name or id of an existing container; in a pod, the name of one of its
	// containers.
	Container string `json:"container,omitempty"`
	// Mounts are SOURCE:TARGET or SOURCE:TARGET:ro. A source that begins with / is a directory
	// or file of the engine's machine; any other is a volume, or in a pod the name of a persistent
	// volume claim.
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
	// CAFile is the file with the certificates to verify that daemon's certificate with.
	CAFile string `json:"ca_file,omitempty"`
	// CertFile and KeyFile are the files with the certificate to present to that daemon, and its key.
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
	// ServerName is the name in the certificate of that daemon, if it differs from the address.
	ServerName string `json:"server_name,omitempty"`
	// Runtime is the word for a place of that daemon, in which the session will be. Empty: its default.
	Runtime string `json:"runtime,omitempty"`
	// OwnerLostS is the number of seconds after which that daemon ends the session if this one does
	// not connect to it. It is at most the setting owner_lost_s there, which is also the default.
	OwnerLostS float64 `json:"owner_lost_s,omitempty"`
}

// optionField is one option and its value.
type optionField struct {
	name  string
	value reflect.Value
}

func (o PlaceOptions) fields() []optionField {
	v := reflect.ValueOf(o)
	list := make([]optionField, v.NumField())
	for i := range list {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		list[i] = optionField{name, v.Field(i)}
	}
	return list
}

// Set returns the names of the options that are set, sorted.
func (o PlaceOptions) Set() []string {
	var names []string
	for _, f := range o.fields() {
		if !f.value.IsZero() {
			names = append(names, f.name)
		}
	}
	sort.Strings(names)
	return names
}

// With returns the options, with every option that is set in over replaced by that one.
func (o PlaceOptions) With(over PlaceOptions) PlaceOptions {
	to := reflect.ValueOf(&o).Elem()
	for i, f := range over.fields() {
		if !f.value.IsZero() {
			to.Field(i).Set(f.value)
		}
	}
	return o
}

// PlaceInfo describes the place of a session. Its fields are empty where they do not apply.
type PlaceInfo struct {
	Kind      PlaceKind `json:"kind"`                // kind of the place
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

// RuntimeListParams has no fields.
type RuntimeListParams struct{}

// RuntimeListResult lists the places.
type RuntimeListResult struct {
	// Runtimes are the names from the configuration, and then the kinds.
	Runtimes []RuntimeInfo `json:"runtimes"`
	// Default is the place of sessions that do not name one.
	Default string `json:"default"`
	// Adhoc says whether callers may use places that the configuration does not name.
	Adhoc bool `json:"adhoc"`
}

// RuntimeInfo describes a word for places.
type RuntimeInfo struct {
	Runtime string    `json:"runtime"` // a name from the configuration, or a kind
	Kind    PlaceKind `json:"kind"`    // kind of the place
	// Configured is true for a name from the configuration.
	Configured bool `json:"configured"`
	// Argument describes what must follow the kind and a colon, such as IMAGE; absent if the
	// word is complete.
	Argument string `json:"argument,omitempty"`
	// Options are the options that callers may set in place.
	Options []string `json:"options"`
	// Usable is false if this daemon cannot create sessions there; Why says the reason.
	Usable bool   `json:"usable"`
	Why    string `json:"why,omitempty"`
	// Sessions is the number of live sessions in places of this word. For a kind it includes
	// those of KIND:ARGUMENT.
	Sessions int `json:"sessions"`
}

// RuntimeCheckParams names a place.
type RuntimeCheckParams struct {
	// Runtime is the word for the place, as in session.create. Empty: the default.
	Runtime string `json:"runtime,omitempty"`
	// Place overrides options, as in session.create.
	Place *PlaceOptions `json:"place,omitempty"`
	// TimeoutS bounds the check; 10 seconds when absent.
	TimeoutS *float64 `json:"timeout_s,omitempty"`
}

// Check reports the first invalid parameter.
func (p RuntimeCheckParams) Check() error {
	if p.Runtime != "" {
		if err := CheckPlaceWord(p.Runtime); err != nil {
			return err
		}
	}
	if p.TimeoutS != nil && (!(*p.TimeoutS > 0) || *p.TimeoutS > 3600) {
		return InvalidParam("timeout_s", "must be a number of seconds above 0, at most 3600")
	}
	return nil
}

// RuntimePruneParams has no fields.
type RuntimePruneParams struct{}

// RuntimePruneResult says what was removed.
type RuntimePruneResult struct {
	// Removed are the names of the containers, pods and sessions that were removed.
	Removed []string `json:"removed"`
	// Pending are the sessions that have ended, but whose places cannot be reached. TRL tries
	// again by itself.
	Pending []string `json:"pending"`
	// Faults are the reasons why a place could not be inspected, such as an engine that does
	// not answer.
	Faults []string `json:"faults"`
}

// RuntimeCheckResult says whether sessions can be created in a place.
type RuntimeCheckResult struct {
	// Runtime is the word that was checked.
	Runtime   string    `json:"runtime"`
	Kind      PlaceKind `json:"kind"`      // kind of the place
	Reachable bool      `json:"reachable"` // true if the place answered, so sessions can probably be created there
	// Why says why the place cannot be reached, and what to do.
	Why string `json:"why,omitempty"`
	// LatencyMS is how long one request to the place took.
	LatencyMS float64 `json:"latency_ms,omitempty"`
	OS        string  `json:"os,omitempty"`   // such as linux
	Arch      string  `json:"arch,omitempty"` // such as amd64
	// Engine is the name and version of the program that runs the place, such as "docker 20.10.24".
	Engine string `json:"engine,omitempty"`
	// Enforced lists features that sessions have there and may lack in other places, such as
	// "cgroup.kill".
	Enforced []string `json:"enforced"`
}
