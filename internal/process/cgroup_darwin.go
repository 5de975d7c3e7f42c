package process

import "errors"

// errNoCgroup is what every operation answers on a system without cgroups.
var errNoCgroup = errors.New("cgroup: this system has none")

// Cgroup does not exist on this system: its methods work on nil and do nothing.
type Cgroup struct{}

// NewCgroup answers that there are none.
func NewCgroup(string) (*Cgroup, error) { return nil, errNoCgroup }

// OpenCgroup returns nil.
func OpenCgroup(string) *Cgroup { return nil }

// Path is empty.
func (*Cgroup) Path() string { return "" }

// FD is 0, which Spec takes for none.
func (*Cgroup) FD() int { return 0 }

// Kill answers that there are none.
func (*Cgroup) Kill() error { return errNoCgroup }

// Procs is empty.
func (*Cgroup) Procs() []int { return nil }

// Remove does nothing.
func (*Cgroup) Remove() error { return nil }

// Close does nothing.
func (*Cgroup) Close() {}
