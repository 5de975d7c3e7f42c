package api

// The names of the limits, as they are in Limits.
const (
	LimitCPUs      = "cpus"
	LimitMemory    = "memory_bytes"
	LimitPids      = "pids"
	LimitOpenFiles = "open_files"
	LimitFileBytes = "file_bytes"
	LimitOutput    = "output_bytes"
	LimitLifetime  = "lifetime_s"
	LimitCommands  = "commands"
)

// LimitsMode says what happens to a limit, or to isolation, that the place of a session cannot enforce. In
// a call, it is for the limits that the call names; in the configuration, for those that the configuration sets.
type LimitsMode string

// The two modes.
const (
	LimitsRequire    LimitsMode = "require"     // the call fails with LIMIT_UNAVAILABLE or ISOLATION_UNAVAILABLE
	LimitsBestEffort LimitsMode = "best-effort" // the call succeeds, and not_enforced names the limit
)

// Limits bound what a session may use. An absent limit is the daemon's default; 0 means no limit.
type Limits struct {
	// CPUs is the processor time that all processes of the session together may use, in
	// processors: 1.5 is one and a half.
	CPUs *float64 `json:"cpus,omitempty"`
	// MemoryBytes is the memory of all processes of the session together. At the limit the
	// kernel kills a process of the session.
	MemoryBytes *int64 `json:"memory_bytes,omitempty"`
	// Pids is the number of processes and threads of the session, with its shell. At the limit
	// a fork fails.
	Pids *int64 `json:"pids,omitempty"`
	// OpenFiles is the number of files that each process may have open; at least 32.
	OpenFiles *int64 `json:"open_files,omitempty"`
	// FileBytes is the size of the largest file that a process may write.
	FileBytes *int64 `json:"file_bytes,omitempty"`
	// OutputBytes is how much each command may write to stdout and stderr together. A command
	// that writes more is cancelled.
	OutputBytes *int64 `json:"output_bytes,omitempty"`
	// LifetimeS is the same as lifetime_s of the session.
	LifetimeS *float64 `json:"lifetime_s,omitempty"`
	// Commands is how many commands the session runs; further ones fail with
	// SESSION_LIMIT_EXCEEDED.
	Commands *int64 `json:"commands,omitempty"`
}

// CommandLimits bound what one command may use, within the limits of its session. Absent or 0: no
// limit beyond those of the session.
type CommandLimits struct {
	CPUs        *float64 `json:"cpus,omitempty"`         // processors
	MemoryBytes *int64   `json:"memory_bytes,omitempty"` // memory of all its processes together
	Pids        *int64   `json:"pids,omitempty"`         // its processes and threads, without the shell
}

// MechanismWeak is the mechanism of a limit that is only approximate: it holds for each process
// alone, or for the whole user.
const MechanismWeak = "rlimit-weak"

// EnforcedLimit is a limit that is in force.
type EnforcedLimit struct {
	Limit string `json:"limit"` // such as memory_bytes
	// Mechanism is what enforces the limit: cgroup-v2, cgroup-v1, rlimit, docker, kubernetes or
	// trl; rlimit-weak for a limit that holds for each process alone, or for the whole user.
	Mechanism string `json:"mechanism"`
}

// UnenforcedLimit is a limit that is not in force.
type UnenforcedLimit struct {
	Limit  string `json:"limit"`  // such as memory_bytes
	Reason string `json:"reason"` // why not, and how to get it
}

// LimitReport says which of the requested limits are in force.
type LimitReport struct {
	Enforced    []EnforcedLimit   `json:"enforced"`     // limits that are in force
	NotEnforced []UnenforcedLimit `json:"not_enforced"` // limits that the place cannot enforce
}

// SessionLimits are the limits of a session, and which of them are in force. A limit of 0 is none.
type SessionLimits struct {
	CPUs        float64 `json:"cpus,omitempty"`         // processors
	MemoryBytes int64   `json:"memory_bytes,omitempty"` // memory of all processes together
	Pids        int64   `json:"pids,omitempty"`         // processes and threads
	OpenFiles   int64   `json:"open_files,omitempty"`   // open files of each process
	FileBytes   int64   `json:"file_bytes,omitempty"`   // size of the largest file
	OutputBytes int64   `json:"output_bytes,omitempty"` // output of each command
	LifetimeS   float64 `json:"lifetime_s,omitempty"`   // seconds until the session ends
	Commands    int64   `json:"commands,omitempty"`     // commands that the session runs
	LimitReport
}

// Report returns the limits, and which of them are in force.
func (l Limits) Report(report LimitReport) *SessionLimits {
	return &SessionLimits{
		CPUs: value(l.CPUs), MemoryBytes: value(l.MemoryBytes), Pids: value(l.Pids), OpenFiles: value(l.OpenFiles), FileBytes: value(l.FileBytes),
		OutputBytes: value(l.OutputBytes), LifetimeS: value(l.LifetimeS), Commands: value(l.Commands), LimitReport: report,
	}
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// OOMKill is a process that the kernel killed because of a memory limit. A process id of 0 means
// that the kernel did not let TRL know which process it was.
type OOMKill struct {
	PID      int    `json:"pid"`       // process id in the session's runtime
	Command  string `json:"command"`   // name of the process
	RSSBytes int64  `json:"rss_bytes"` // its resident memory when it was killed
	// LimitBytes is the memory limit that was reached.
	LimitBytes int64 `json:"limit_bytes"`
}

const (
	minMemory    = 1 << 20
	minOpenFiles = 32
	maxNumber    = 1 << 53 // JSON carries integers up to this exactly
)

// Each calls f with every limit that is set, in the order of the struct.
func (l Limits) Each(f func(name string, value float64)) {
	whole := func(name string, p *int64) {
		if p != nil {
			f(name, float64(*p))
		}
	}
	if l.CPUs != nil {
		f(LimitCPUs, *l.CPUs)
	}
	whole(LimitMemory, l.MemoryBytes)
	whole(LimitPids, l.Pids)
	whole(LimitOpenFiles, l.OpenFiles)
	whole(LimitFileBytes, l.FileBytes)
	whole(LimitOutput, l.OutputBytes)
	if l.LifetimeS != nil {
		f(LimitLifetime, *l.LifetimeS)
	}
	whole(LimitCommands, l.Commands)
}

// Over returns l with the limits of changes in place of its own.
func (l Limits) Over(changes *Limits) Limits {
	if changes == nil {
		return l
	}
	pick(&l.CPUs, changes.CPUs)
	pick(&l.MemoryBytes, changes.MemoryBytes)
	pick(&l.Pids, changes.Pids)
	pick(&l.OpenFiles, changes.OpenFiles)
	pick(&l.FileBytes, changes.FileBytes)
	pick(&l.OutputBytes, changes.OutputBytes)
	pick(&l.LifetimeS, changes.LifetimeS)
	pick(&l.Commands, changes.Commands)
	return l
}

func pick[T any](to **T, from *T) {
	if from != nil {
		*to = from
	}
}

// IsZero reports whether no limit is set.
func (l Limits) IsZero() bool { return l == Limits{} }

// Names returns the names of the limits that are set.
func (l Limits) Names() (names []string) {
	l.Each(func(name string, _ float64) { names = append(names, name) })
	return names
}

// Required returns the names of the limits that a call with this mode must get.
func (l Limits) Required(mode LimitsMode) []string {
	if mode == LimitsBestEffort {
		return nil
	}
	return l.Names()
}

// Of returns the limits of a command as those of a session.
func (l *CommandLimits) Of() Limits {
	if l == nil {
		return Limits{}
	}
	return Limits{CPUs: l.CPUs, MemoryBytes: l.MemoryBytes, Pids: l.Pids}
}

// check reports the first invalid limit.
func (l *Limits) check() (err error) {
	if l == nil {
		return nil
	}
	l.Each(func(name string, v float64) {
		if err == nil {
			err = checkLimit(name, v)
		}
	})
	return err
}

func checkLimit(name string, v float64) error {
	field := "limits." + name
	switch {
	case name == LimitLifetime:
		return checkSeconds(field, &v)
	case v == 0:
	case name == LimitCPUs && !(v >= 0.01 && v <= 10000):
		return InvalidParam(field, "must be 0 (no limit) or from 0.01 to 10000 processors")
	case name != LimitCPUs && !(v > 0 && v <= maxNumber):
		return InvalidParam(field, "must be 0 (no limit) or a positive number up to 2^53")
	case name == LimitMemory && v < minMemory:
		return InvalidParam(field, "must be 0 (no limit) or at least 1 MiB")
	case name == LimitOpenFiles && v < minOpenFiles:
		return InvalidParam(field, "must be 0 (no limit) or at least %d, because the shell needs some itself", minOpenFiles)
	}
	return nil
}

func (m LimitsMode) check(field string) error {
	if m != "" && m != LimitsRequire && m != LimitsBestEffort {
		return InvalidParam(field, "%.40q is not one of require, best-effort", string(m))
	}
	return nil
}

// checkLimits checks the limits of a request; lifetime is that of the session, if the caller sets it too.
func checkLimits(l *Limits, mode LimitsMode, lifetime *float64) error {
	if err := l.check(); err != nil {
		return err
	}
	if l != nil && l.LifetimeS != nil && lifetime != nil && *l.LifetimeS != *lifetime {
		return InvalidParam("limits.lifetime_s", "differs from lifetime_s")
	}
	return mode.check("limits_mode")
}

func checkSeconds(field string, s *float64) error {
	// A year is longer than any caller waits, and keeps durations from overflowing.
	if s != nil && (*s < 0 || *s > 366*24*3600 || *s != *s) {
		return InvalidParam(field, "must be a number of seconds from 0 (none) to one year")
	}
	return nil
}
