// Package op defines the requests of the daemon to trl-kube, and the answers. trl-kube is a program
// of its own, because the libraries that speak with a cluster would make every start of trl slower.
//
// Each operation has a connection of its own. The daemon sends a Request as one line of JSON. The
// program sends Answers, one line each; the last one has no Progress. After the answer to exec the
// connection carries the stdin and stdout of the program in the pod. The daemon gives an operation
// up by closing its connection.
package op

import "github.com/trl-dev/trl/api"

// The operations.
const (
	Check  = "check"  // can the cluster be reached?
	Create = "create" // make a pod and wait until it runs
	Find   = "find"   // find a running pod
	Exec   = "exec"   // start a program in a pod
	Wait   = "wait"   // wait until a program in a pod has ended
	Remove = "remove" // remove a pod
	List   = "list"   // list the pods and claims of this daemon
)

// Request asks for one operation.
type Request struct {
	Op string `json:"op"`
	// Cluster is the context of the kubeconfig; empty for the current one, or the cluster that
	// this process runs in.
	Cluster string `json:"cluster,omitempty"`
	// Daemon and SessionID label the pod that create makes.
	Daemon    string `json:"daemon,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	// Options are those of the place, for create and find.
	Options api.PlaceOptions `json:"options"`
	// Limits are those of the session, for create; nil for none.
	Limits *api.Limits `json:"limits,omitempty"`
	// Pod is the pod for exec and remove.
	Pod Pod `json:"pod"`
	// Argv is the program for exec.
	Argv []string `json:"argv,omitempty"`
	// ExecID is the program for wait, from the answer to exec.
	ExecID string `json:"exec_id,omitempty"`
	// Namespaces are searched by list.
	Namespaces []string `json:"namespaces,omitempty"`
}

// Answer is one line of the program.
type Answer struct {
	// Progress is set in all answers but the last.
	Progress *api.PlaceProgress `json:"progress,omitempty"`
	// Error says why the operation did not succeed.
	Error *api.Error `json:"error,omitempty"`
	// Ended says that the pod has ended, and why.
	Ended string `json:"ended,omitempty"`
	// Pod is the answer to create and find. In that to check, it has only the system of the nodes.
	Pod *Pod `json:"pod,omitempty"`
	// ExecID is the answer to exec.
	ExecID string `json:"exec_id,omitempty"`
	// Exit is the answer to wait; nil if it is not known how the program ended.
	Exit *Exit `json:"exit,omitempty"`
	// Version is the answer to check.
	Version string `json:"version,omitempty"`
	// Strays is the answer to list.
	Strays []Stray `json:"strays,omitempty"`
}

// Stray is a pod or claim that TRL made for a session.
type Stray struct {
	SessionID string `json:"session_id"`
	Pod       Pod    `json:"pod"`
}

// Name names the pod or the claim for people.
func (s Stray) Name() string {
	if s.Pod.Claim != "" {
		return "claim " + s.Pod.Namespace + "/" + s.Pod.Claim
	}
	return "pod " + s.Pod.Namespace + "/" + s.Pod.Name
}

// Pod identifies a container in a pod.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"` // another pod of the same name has another
	Container string `json:"container"`
	// Made says that TRL made the pod. Claim is the claim by which TRL got it from a pool.
	Made  bool   `json:"made,omitempty"`
	Claim string `json:"claim,omitempty"`

	Image string `json:"image,omitempty"`
	Node  string `json:"node,omitempty"`
	// OS and Arch are those of the node; empty if the cluster does not tell.
	OS   string `json:"os,omitempty"`
	Arch string `json:"arch,omitempty"`
}

// Exit says how a program ended.
type Exit struct {
	Status int    `json:"status"`
	Stderr string `json:"stderr,omitempty"` // its end
}

// RunnerDir is the directory in a pod that TRL made where its runner is. Runner is its path.
const (
	RunnerDir = "/.trl"
	Runner    = RunnerDir + "/trl-runner"
)
