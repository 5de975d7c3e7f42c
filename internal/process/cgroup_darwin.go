package process

import "errors"

// errNoCgroup is the error of every operation on a system without cgroups.
var errNoCgroup = errors.New("cgroup: this system has none")

// Cgroup is always nil on macOS, which has no cgroups. Its methods do nothing.
type Cgroup struct{}

// NewCgroup returns an error.
func NewCgroup(string) (*Cgroup, error) { return nil, errNoCgroup }

// OpenCgroup returns nil.
func OpenCgroup(string) *Cgroup { return nil }

// Sub returns nil.
func (*Cgroup) Sub(string) *Cgroup { return nil }

// SubOf is empty.
func (*Cgroup) SubOf(int) string { return "" }

// RemoveEmpty reports true.
func (*Cgroup) RemoveEmpty() bool { return true }

// Path is empty.
func (*Cgroup) Path() string { return "" }

// FD is 0, which means no cgroup in a Spec.
func (*Cgroup) FD() int { return 0 }

// Kill returns an error.
func (*Cgroup) Kill() error { return errNoCgroup }

// KillAll returns nothing.
func (*Cgroup) KillAll() []Killed { return nil }

// Procs is empty.
func (*Cgroup) Procs() []int { return nil }

// Remove does nothing.
func (*Cgroup) Remove() error { return nil }

// Close does nothing.
func (*Cgroup) Close() {}
