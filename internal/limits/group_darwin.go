package limits

import (
	"errors"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

var errNoGroups = errors.New("macOS has no cgroups")

// Group is nothing on macOS, which has no cgroups.
type Group struct{}

// NewGroup returns an empty Group.
func NewGroup(string, *process.Cgroup) *Group { return &Group{} }

// Sub returns an empty Group.
func (*Group) Sub(string, *process.Cgroup) *Group { return &Group{} }

// Adopt does nothing.
func (*Group) Adopt(...int) error { return nil }

// MoveTracked does nothing.
func (*Group) MoveTracked() error { return nil }

// Join is empty.
func (*Group) Join() []string { return nil }

// Active reports false.
func (*Group) Active() bool { return false }

// Observe does nothing.
func (*Group) Observe() {}

// Observes reports false.
func (*Group) Observes() bool { return false }

// Watch does nothing.
func (*Group) Watch() {}

// Set returns an error, except for the removal of a limit.
func (*Group) Set(_ string, value float64) (string, error) {
	if value == 0 {
		return MechanismSelf, nil
	}
	return "", errNoGroups
}

// Stats is empty.
func (*Group) Stats() Stats { return Stats{} }

// Peak is nothing on macOS.
type Peak struct{}

// NewPeak returns nil.
func (*Group) NewPeak() *Peak { return nil }

// End returns nothing.
func (*Peak) End() int64 { return 0 }

// RemoveEmpty reports true.
func (*Group) RemoveEmpty() bool { return true }

// Remove does nothing.
func (*Group) Remove() error { return nil }

// RemoveAt does nothing.
func RemoveAt([]string, string) error { return nil }

// Roots is empty.
func Roots() []string { return nil }

// OwnMemory returns 0.
func OwnMemory() int64 { return 0 }

// OwnScores returns nothing.
func OwnScores(int64) Scores { return Scores{} }

// CPU returns nothing.
func CPU(string) (user, system int64, ok bool) { return 0, 0, false }

// Prefer does nothing.
func Prefer([]int, int) {}

// LastOOM returns an unknown process.
func LastOOM(string) (api.OOMKill, string) { return api.OOMKill{}, "" }

// weakRlimits is empty: the limits of macOS for memory and processes do not do what they say.
func weakRlimits(api.Limits, map[string]bool) []rlimit { return nil }

// setRlimit is not possible: macOS changes only the limits of the calling process.
func setRlimit(int, int, uint64) error { return errors.New("macOS cannot change a process that runs") }
