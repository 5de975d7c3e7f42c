// Package limits bounds what the processes of a session use, with cgroups where this process may
// make groups with controllers, and with the limits of processes otherwise.
//
// There are three ways. In the cgroup v2 tree, the group of the session itself has the limits; that
// needs root, or a subtree that systemd has delegated. With cgroup v1, each controller is a tree of
// its own, and the session gets a group in each that it needs. Limits of processes are the weak way:
// memory counts for each process alone, and processes count for the whole user.
package limits

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/confine"
)

// The mechanisms, as the API names them.
const (
	MechanismV2   = "cgroup-v2"
	MechanismV1   = "cgroup-v1"
	MechanismSelf = "rlimit" // exactly what the limit means
	MechanismWeak = api.MechanismWeak
	MechanismTRL  = "trl" // the runner or the daemon itself
)

// controllers maps the limits that need a cgroup to the controller.
var controllers = map[string]string{api.LimitCPUs: "cpu", api.LimitMemory: "memory", api.LimitPids: "pids"}

// Stats are the counters of a group. A value that is not known is 0.
type Stats struct {
	UserMS, SystemMS int64
	HasCPU           bool // the two above are known
	MemoryBytes      int64
	MemoryPeakBytes  int64
	MemoryLimit      int64
	Pids             int64
	OOMKills         int64 // of processes in the group
	OutOfMemory      int64 // times that the group's own limit left no memory; -1 if cgroup v1 does not count that
	ThrottledMS      int64
	ForksRefused     int64
}

// rlimit is a limit of processes that stands for a limit of a session.
type rlimit struct {
	limit    string
	resource int
	max      uint64
}

// Plan is the way in which the limits of a session or of a command are enforced.
type Plan struct {
	Report  api.LimitReport
	Rlimits []confine.Rlimit
}

// Apply enforces the limits of a session or of a command with its group, as far as that is possible.
// Limits in elsewhere are enforced by the place. It returns an error if a required limit cannot be
// enforced. In place of other limits that a cgroup cannot enforce, processes get limits of their own.
func Apply(g *Group, l api.Limits, required []string, elsewhere []api.EnforcedLimit) (Plan, error) {
	p := Plan{Report: api.LimitReport{Enforced: []api.EnforcedLimit{}, NotEnforced: []api.UnenforcedLimit{}}}
	done := map[string]string{}
	for _, e := range elsewhere {
		done[e.Limit] = e.Mechanism
	}
	missing, refused := map[string]bool{}, false
	l.Each(func(limit string, value float64) {
		mechanism := done[limit]
		var err error
		switch {
		case mechanism != "":
		case controllers[limit] != "":
			mechanism, err = g.Set(limit, value)
		case limit == api.LimitOpenFiles || limit == api.LimitFileBytes:
			mechanism = MechanismSelf
		default:
			mechanism = MechanismTRL
		}
		switch {
		case err != nil:
			missing[limit] = true
			refused = refused || slices.Contains(required, limit)
			p.Report.NotEnforced = append(p.Report.NotEnforced, api.UnenforcedLimit{Limit: limit, Reason: err.Error()})
		case value > 0:
			p.Report.Enforced = append(p.Report.Enforced, api.EnforcedLimit{Limit: limit, Mechanism: mechanism})
		}
	})
	for resource, value := range map[int]*int64{syscall.RLIMIT_NOFILE: l.OpenFiles, syscall.RLIMIT_FSIZE: l.FileBytes} {
		if value != nil && *value > 0 {
			p.Rlimits = append(p.Rlimits, confine.Rlimit{Resource: resource, Max: uint64(*value)})
		}
	}
	if len(missing) == 0 {
		return p, nil
	}
	if refused {
		return p, unavailableError(p.Report, required)
	}
	for _, r := range weakRlimits(l, missing) {
		p.Rlimits = append(p.Rlimits, confine.Rlimit{Resource: r.resource, Max: r.max})
		p.Report.Enforced = append(p.Report.Enforced, api.EnforcedLimit{Limit: r.limit, Mechanism: MechanismWeak})
		p.Report.NotEnforced = slices.DeleteFunc(p.Report.NotEnforced, func(u api.UnenforcedLimit) bool { return u.Limit == r.limit })
	}
	return p, nil
}

// unavailableError is the error of required limits that cannot be enforced. It names the first one.
func unavailableError(report api.LimitReport, required []string) error {
	var first api.UnenforcedLimit
	reasons := map[string]any{}
	for _, u := range slices.Backward(report.NotEnforced) {
		if slices.Contains(required, u.Limit) {
			first, reasons[u.Limit] = u, u.Reason
		}
	}
	e := api.Errorf(api.CodeLimitUnavailable, "limit %s cannot be enforced: %s", first.Limit, first.Reason)
	e.Details = map[string]any{"limits": reasons}
	return e
}

// Change applies the limits of processes to processes that run already.
func (p Plan) Change(pids []int) error {
	for _, r := range p.Rlimits {
		for _, pid := range pids {
			if err := setRlimit(pid, r.Resource, r.Max); err != nil {
				return api.Errorf(api.CodeLimitUnavailable, "process %d: its limit cannot be changed: %s", pid, err)
			}
		}
	}
	return nil
}

// quota returns the microseconds that cpus may use in a period of a tenth of a second.
func quota(cpus float64) int64 {
	return max(int64(math.Round(cpus*period)), 1000)
}

const period = 100_000

// number reads the first number of a file of a group; 0 if there is none.
func number(dir, file string) int64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n
}

// field reads the number after a word at the start of a line.
func field(text []byte, word string) (int64, bool) {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, word+" "); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

func content(dir, file string) []byte {
	text, _ := os.ReadFile(filepath.Join(dir, file))
	return text
}

func put(dir, file, value string) error {
	f, err := os.OpenFile(filepath.Join(dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}
