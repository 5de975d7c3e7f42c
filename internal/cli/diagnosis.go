package cli

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/cli/ui"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/doctor"
	"github.com/trl-dev/trl/internal/version"
)

// diagnose checks everything that TRL depends on. The daemon checks itself and its machine; what only
// this side can see is added here.
func (a *app) diagnose(cmd *cobra.Command) doctor.Findings {
	var f doctor.Findings
	cfg, err := a.settings(cmd)
	if err != nil {
		f.Add("Settings", "configuration", api.VerdictBad, err.Error())
		return f
	}
	addSettings(&f, cfg)
	files := doctor.Files{Socket: cfg.Socket, StateDir: cfg.StateDir, RuntimeDir: cfg.RuntimeDir}
	c, err := a.connect(cmd)
	if err != nil {
		return merge(f, doctor.Without(files, outputOf), map[string]func(*doctor.Findings){
			doctor.SectionFiles: func(f *doctor.Findings) { f.Add("Daemon", "daemon", api.VerdictBad, err.Error()) },
		})
	}
	defer c.Close()
	var limits map[string]float64
	more := map[string]func(*doctor.Findings){
		doctor.SectionFiles:  func(f *doctor.Findings) { limits = addDaemon(cmd.Context(), f, c) },
		doctor.SectionLimits: func(f *doctor.Findings) { addLimits(f, limits) },
	}
	r, err := c.SystemDoctor(cmd.Context(), api.SystemDoctorParams{})
	if err == nil {
		return merge(f, r.Findings, more)
	}
	limits = addDaemon(cmd.Context(), &f, c)
	if api.AsError(err).Code == api.CodeMethodNotFound {
		f.Add("Daemon", "checks", api.VerdictNote, "this daemon is too old to check itself; trl upgrade replaces it and keeps its sessions")
	} else {
		f.Add("Daemon", "checks", api.VerdictBad, err.Error())
	}
	addLimits(&f, limits)
	return f
}

// merge appends findings to f. After a section, more of it may add its own.
func merge(f, found doctor.Findings, more map[string]func(*doctor.Findings)) doctor.Findings {
	for i, one := range found {
		f = append(f, one)
		if add := more[one.Section]; add != nil && (i+1 == len(found) || found[i+1].Section != one.Section) {
			add(&f)
		}
	}
	return f
}

func addSettings(f *doctor.Findings, cfg config.Config) {
	changed := 0
	for _, e := range cfg.Entries() {
		if e.Origin != config.OriginDefault {
			changed++
		}
	}
	f.Add("Settings", "configuration", api.VerdictOK, ui.Plural(changed, "setting differs", "settings differ")+" from the default (trl config)")
	for _, note := range cfg.Notes() {
		f.Add("Settings", "environment", api.VerdictNote, note)
	}
}

// addDaemon reports what the daemon is, and returns its limits.
func addDaemon(ctx context.Context, f *doctor.Findings, c *client.Client) map[string]float64 {
	const section = "Daemon"
	info, err := c.SystemInfo(ctx, api.SystemInfoParams{})
	if err != nil {
		f.Add(section, "daemon", api.VerdictBad, err.Error())
		return nil
	}
	stats, err := c.SystemStats(ctx, api.SystemStatsParams{})
	f.Check(section, "daemon", fmt.Sprintf("pid %d, up %s, %s, %s, %s resident", info.PID,
		ui.Span(time.Duration(stats.UptimeS)*time.Second), ui.Plural(stats.ActiveSessions, "session", "sessions"),
		ui.Plural(stats.OpenFDs, "descriptor", "descriptors"), ui.BytesText(float64(stats.MemoryRSSBytes))), err)
	if info.Version != version.Version {
		f.Add(section, "version", api.VerdictNote, fmt.Sprintf("the daemon is %s, trl is %s; trl upgrade replaces the daemon with this trl and keeps its sessions", info.Version, version.Version))
	} else {
		f.Add(section, "version", api.VerdictOK, fmt.Sprintf("%s, api %d", info.Version, info.APIVersion))
	}
	return info.Limits
}

// addLimits reports the limits of the daemon's settings.
func addLimits(f *doctor.Findings, limits map[string]float64) {
	if limits == nil {
		return
	}
	const section = doctor.SectionLimits
	f.Add(section, "sessions", api.VerdictOK, fmt.Sprintf("%.0f (max_sessions)", limits["max_sessions"]))
	f.Add(section, "idle session", api.VerdictOK, endsAfter(limits["idle_timeout_s"])+" (idle_timeout_s)")
	f.Add(section, "any session", api.VerdictOK, endsAfter(limits["lifetime_s"])+" (lifetime_s)")
	f.Add(section, "command", api.VerdictOK, "timeout "+ui.Seconds(limits["default_timeout_s"])+" (default_timeout_s), grace "+ui.Seconds(limits["kill_grace_s"])+" (kill_grace_s)")
	f.Add(section, "output kept", api.VerdictOK, ui.BytesText(limits["output_bytes"])+" a stream (output_bytes), "+ui.BytesText(limits["session_output_bytes"])+" a session (session_output_bytes)")
}

func endsAfter(s float64) string {
	if s == 0 {
		return "never ends by itself"
	}
	return "ends after " + ui.Seconds(s)
}

// outputOf runs a program that reports its version, and returns its output.
func outputOf(argv []string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second
	out, _ := cmd.CombinedOutput()
	return string(out)
}
