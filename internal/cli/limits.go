package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
)

// limitFlags set when a new session ends on its own, and what it may use.
type limitFlags struct {
	lifetime, idleTimeout ui.SecondsFlag
	resources             resourceFlags
}

func (f *limitFlags) register(flags *pflag.FlagSet, session string) {
	flags.Var(&f.lifetime, "lifetime", "end "+session+" after this time, even if it is in use (0 is never)")
	flags.Var(&f.idleTimeout, "idle-timeout", "end "+session+" when it has been idle for this time (0 is never)")
}

func (f *limitFlags) fill(p *api.SessionCreateParams) {
	p.LifetimeS, p.IdleTimeoutS = f.lifetime.Value, f.idleTimeout.Value
	f.resources.fill(p)
}

// given returns the name of the first flag that the user set, "" for none.
func (f *limitFlags) given() string {
	switch {
	case f.lifetime.Value != nil:
		return "--lifetime"
	case f.idleTimeout.Value != nil:
		return "--idle-timeout"
	}
	return ""
}

// resourceFlags limit what a session or a command may use.
type resourceFlags struct {
	memory     bytesFlag
	cpus       numberFlag
	pids       countFlag
	bestEffort bool
}

func (f *resourceFlags) register(flags *pflag.FlagSet, who string) {
	flags.Var(&f.memory, "memory", "memory that "+who+" may use, such as 512M or 2G")
	flags.Var(&f.cpus, "cpus", "processors that "+who+" may use, such as 1.5")
	flags.Var(&f.pids, "pids", "processes and threads that "+who+" may have")
	flags.BoolVar(&f.bestEffort, "best-effort", false, "continue without a limit or isolation that cannot be enforced")
}

// fill limits a new session.
func (f *resourceFlags) fill(p *api.SessionCreateParams) {
	if l, mode := f.limits(); l != nil {
		p.Limits, p.LimitsMode = l, mode
	}
}

// limits returns the limits of a session; nil for none.
func (f *resourceFlags) limits() (*api.Limits, api.LimitsMode) {
	l := api.Limits{MemoryBytes: f.memory.value, CPUs: f.cpus.value, Pids: f.pids.value}
	if l.IsZero() {
		return nil, ""
	}
	return &l, f.limitsMode()
}

// commandLimits returns the limits of a command; nil for none.
func (f *resourceFlags) commandLimits() *api.CommandLimits {
	l := api.CommandLimits{MemoryBytes: f.memory.value, CPUs: f.cpus.value, Pids: f.pids.value}
	if l == (api.CommandLimits{}) {
		return nil
	}
	return &l
}

func (f *resourceFlags) limitsMode() api.LimitsMode {
	if f.bestEffort {
		return api.LimitsBestEffort
	}
	return ""
}

// reportLimits prints which limits are not in force, or only nearly.
func (a *app) reportLimits(r *api.LimitReport) {
	if r == nil {
		return
	}
	for _, e := range r.Enforced {
		if e.Mechanism == api.MechanismWeak {
			whom := map[string]string{api.LimitMemory: "each process alone", api.LimitPids: "all processes of the user together"}[e.Limit]
			a.Stderr.Linef("trl: limit %s: only for %s (%s)", e.Limit, whom, e.Mechanism)
		}
	}
	for _, u := range r.NotEnforced {
		a.Stderr.Linef("trl: limit %s: not enforced: %s", u.Limit, u.Reason)
	}
}

// limitFacts describes the limits of a session for trl info.
func limitFacts(l *api.SessionLimits) (facts [][2]string) {
	if l == nil {
		return nil
	}
	values := map[string]string{
		api.LimitCPUs: strconv.FormatFloat(l.CPUs, 'g', -1, 64), api.LimitMemory: ui.BytesText(float64(l.MemoryBytes)), api.LimitPids: strconv.FormatInt(l.Pids, 10),
		api.LimitOpenFiles: strconv.FormatInt(l.OpenFiles, 10), api.LimitFileBytes: ui.BytesText(float64(l.FileBytes)),
		api.LimitOutput: ui.BytesText(float64(l.OutputBytes)), api.LimitCommands: strconv.FormatInt(l.Commands, 10),
		api.LimitLifetime: ui.Seconds(l.LifetimeS),
	}
	for _, e := range l.Enforced {
		facts = append(facts, [2]string{"limit", e.Limit + " " + values[e.Limit] + " (" + e.Mechanism + ")"})
	}
	for _, u := range l.NotEnforced {
		facts = append(facts, [2]string{"limit", u.Limit + " " + values[u.Limit] + ", not enforced: " + u.Reason})
	}
	return facts
}

// isolationFacts describes the isolation of a session for trl info.
func isolationFacts(i *api.SessionIsolation) (facts [][2]string) {
	if i == nil {
		return nil
	}
	add := func(text string) { facts = append(facts, [2]string{"isolation", text}) }
	add("files " + i.Files + ", network " + i.Network + ", processes " + i.Processes)
	for _, e := range i.Enforced {
		add(e.Aspect + " (" + strings.Join(e.Mechanisms, ", ") + ")")
	}
	for _, u := range i.NotEnforced {
		add(u.Aspect + ", not enforced: " + u.Reason)
	}
	return facts
}

// oomText describes a process that the kernel killed.
func oomText(k *api.OOMKill) string {
	switch {
	case k == nil:
		return "the kernel killed a process"
	case k.PID == 0: // only root may read the kernel's log
		return "the kernel killed a process at the limit of " + ui.BytesText(float64(k.LimitBytes))
	}
	return fmt.Sprintf("the kernel killed %s (pid %d, %s) at the limit of %s", ui.Printable(k.Command), k.PID, ui.BytesText(float64(k.RSSBytes)), ui.BytesText(float64(k.LimitBytes)))
}

// bytesFlag is a size: 1048576, 512M, 2GiB. The value is nil if the flag was not given.
type bytesFlag struct{ value *int64 }

func (f *bytesFlag) Type() string { return "SIZE" }

func (f *bytesFlag) String() string { return optional(f.value) }

func (f *bytesFlag) Set(text string) error {
	n, err := config.ParseBytes(text)
	if err != nil {
		return err
	}
	if n < 0 {
		return errors.New("must be 0 or more")
	}
	f.value = &n
	return nil
}

// numberFlag is a number such as 1.5.
type numberFlag struct{ value *float64 }

func (f *numberFlag) Type() string { return "NUMBER" }

func (f *numberFlag) String() string { return optional(f.value) }

func (f *numberFlag) Set(text string) error {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0) {
		return errors.New("not a number such as 1.5")
	}
	f.value = &v
	return nil
}

// countFlag is a whole number.
type countFlag struct{ value *int64 }

func (f *countFlag) Type() string { return "NUMBER" }

func (f *countFlag) String() string { return optional(f.value) }

func (f *countFlag) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return errors.New("not a whole number")
	}
	f.value = &v
	return nil
}

func optional[T any](p *T) string {
	if p == nil {
		return ""
	}
	return fmt.Sprint(*p)
}
