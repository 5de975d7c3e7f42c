package soak_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/client"
	"github.com/trl-dev/trl/internal/limits"
	"github.com/trl-dev/trl/internal/testkit"
	"github.com/trl-dev/trl/tests/trltest"
)

func limit[T any](v T) *T { return &v }

// needsLimits skips a test loudly if the daemon cannot enforce limits with cgroups.
func needsLimits(t *testing.T, service *client.Client) {
	t.Helper()
	info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{
		SessionID: create(t, service, api.SessionCreateParams{Limits: allLimits(), LimitsMode: api.LimitsBestEffort}).SessionID,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range info.Limits.NotEnforced {
		t.Skipf("NO LIMITS TESTED: %s: %s", u.Limit, u.Reason)
	}
	destroy(t, service, info.SessionID)
}

// groupsOf returns the cgroups with limits of a session.
func groupsOf(id string) (dirs []string) {
	for _, root := range limits.Roots() {
		if dir := filepath.Join(root, id); exists(dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func allLimits() *api.Limits {
	return &api.Limits{CPUs: limit(1.5), MemoryBytes: limit(int64(256 << 20)), Pids: limit(int64(100))}
}

// Every limit that needs no cgroup does what it says, and malformed ones are refused.
func TestPlainLimits(t *testing.T) {
	service := trltest.Start(t).Client(t)
	ctx := context.Background()
	for field, l := range map[string]api.Limits{
		"limits.cpus":         {CPUs: limit(-1.0)},
		"limits.memory_bytes": {MemoryBytes: limit(int64(4096))},
		"limits.pids":         {Pids: limit(int64(-5))},
		"limits.open_files":   {OpenFiles: limit(int64(3))},
		"limits.file_bytes":   {FileBytes: limit(int64(math.MinInt64))},
		"limits.output_bytes": {OutputBytes: limit(int64(math.MaxInt64))},
		"limits.lifetime_s":   {LifetimeS: limit(-1.0)},
		"limits.commands":     {Commands: limit(int64(-1))},
	} {
		_, err := service.SessionCreate(ctx, api.SessionCreateParams{Limits: &l})
		if e := api.AsError(err); err == nil || e.Code != api.CodeInvalidParams || e.Details["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := service.SessionCreate(ctx, api.SessionCreateParams{LimitsMode: "perhaps"}); api.AsError(err).Code != api.CodeInvalidParams {
		t.Errorf("limits_mode: %v", err)
	}
	dir := t.TempDir()
	id := create(t, service, api.SessionCreateParams{Shell: "bash", WorkingDir: dir, Limits: &api.Limits{
		OpenFiles: limit(int64(40)), FileBytes: limit(int64(8192)), OutputBytes: limit(int64(100_000)), LifetimeS: limit(3600.0), Commands: limit(int64(4)),
	}}).SessionID
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id})
	if err != nil || info.Limits == nil || info.Limits.OpenFiles != 40 || len(info.Limits.Enforced) != 5 || len(info.Limits.NotEnforced) != 0 {
		t.Fatalf("limits = %+v, %v", info.Limits, err)
	}
	if info.EndsInS == nil {
		t.Error("the session has no end")
	}
	says(t, service, id, "ulimit -Hn; ulimit -Hf", "40\n8\n")
	res, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: "head -c 100000 /dev/zero > big"})
	if st, statErr := os.Stat(filepath.Join(dir, "big")); err != nil || res.ExitCode == 0 || statErr != nil || st.Size() != 8192 {
		t.Errorf("file_bytes: %+v, %v, %v", res, err, statErr)
	}
	res, err = service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: "yes"})
	if err != nil || !res.Cancelled || !strings.Contains(res.CancelCause, "output_bytes") {
		t.Errorf("output_bytes: %+v, %v", res.ExecOutcome, err)
	}
	says(t, service, id, "echo lives", "lives\n")
	if _, err = service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: "true"}); api.AsError(err).Code != api.CodeSessionLimitExceeded {
		t.Errorf("commands: %v", err)
	}
	if _, err = service.SessionSet(ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{Commands: limit(int64(10))}}); err != nil {
		t.Fatal(err)
	}
	if _, err = service.SessionSet(ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{OpenFiles: limit(int64(80))}}); api.AsError(err).Code != api.CodeInvalidParams {
		t.Errorf("more open files: %v", err)
	}
	if _, err = service.SessionSet(ctx, api.SessionSetParams{SessionID: id, Limits: &api.Limits{OpenFiles: limit(int64(36))}}); err != nil {
		t.Error(err)
	}
	says(t, service, id, "ulimit -Hn", "36\n")
	short := create(t, service, api.SessionCreateParams{Limits: &api.Limits{LifetimeS: limit(0.2)}}).SessionID
	testkit.Eventually(t, "the lifetime is over", func() bool {
		info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: short})
		return err == nil && info.State == api.SessionTerminated
	})
}

// Without cgroups, a required limit is an error that says what to do, and best effort reports what
// is missing.
func TestLimitsWithoutCgroups(t *testing.T) {
	service := trltest.Start(t, trltest.Env("TRL_TEST_SCAN=subreaper")).Client(t)
	ctx := context.Background()
	_, err := service.SessionCreate(ctx, api.SessionCreateParams{Limits: allLimits()})
	if e := api.AsError(err); err == nil || e.Code != api.CodeLimitUnavailable || !strings.Contains(e.Message, "DelegateSubgroup") || e.Details["limits"] == nil {
		t.Fatalf("require: %v", err)
	}
	made := create(t, service, api.SessionCreateParams{Shell: "bash", Limits: allLimits(), LimitsMode: api.LimitsBestEffort})
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: made.SessionID})
	if err != nil || info.Limits == nil || len(info.Limits.NotEnforced) == 0 || !slices.Contains(info.Limits.Enforced, api.EnforcedLimit{Limit: api.LimitMemory, Mechanism: limits.MechanismWeak}) {
		t.Fatalf("best effort: %+v, %v", info.Limits, err)
	}
	says(t, service, made.SessionID, "ulimit -Hd", strconv.Itoa(256<<10)+"\n")
	// A process that runs cannot raise its limits, so a weak limit only becomes smaller.
	set := func(l api.Limits) error {
		_, err := service.SessionSet(ctx, api.SessionSetParams{SessionID: made.SessionID, Limits: &l, LimitsMode: api.LimitsBestEffort})
		return err
	}
	for _, more := range []int64{0, 512 << 20} {
		testkit.WantError(t, set(api.Limits{MemoryBytes: &more}), api.CodeInvalidParams, "limits.memory_bytes")
	}
	if err = set(api.Limits{MemoryBytes: limit(int64(128 << 20)), Commands: limit(int64(1000))}); err != nil {
		t.Fatal(err)
	}
	says(t, service, made.SessionID, "ulimit -Hd", strconv.Itoa(128<<10)+"\n")
}

// Sessions work with any cgroups that a machine has, and the report of their limits is true.
func TestSessionsWithAnyCgroups(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED WITH OTHER CGROUPS: only root can mount")
	}
	each := func(kind, command string) string { // the rest of the machine does not see it
		return "awk '$0 ~ / - " + kind + " / { print $5 }' /proc/self/mountinfo | while read -r at; do " + command + ` "$at" || exit; done`
	}
	for name, setup := range map[string]string{
		"absent":    each("cgroup2?", "umount -l"),
		"read-only": each("cgroup2?", "mount -o remount,bind,ro"),
		"v2 alone":  each("cgroup", "umount -l"),
		"v1 alone":  each("cgroup2", "umount -l"),
	} {
		t.Run(name, func(t *testing.T) {
			within := filepath.Join(t.TempDir(), "trl")
			script := "#!/bin/sh\nexec unshare --mount sh -c '" + strings.ReplaceAll(setup, "'", `'\''`) + ` && exec "$0" "$@"' ` + trltest.Binary(t) + ` "$@"` + "\n"
			if err := os.WriteFile(within, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			worksWith(t, trltest.Start(t, trltest.Use(within)).Client(t), name == "absent" || name == "read-only")
		})
	}
}

// worksWith uses sessions with and without limits. If the daemon has no cgroups, it must say so.
func worksWith(t *testing.T, service *client.Client, without bool) {
	ctx := context.Background()
	id := create(t, service, api.SessionCreateParams{Shell: "bash"}).SessionID
	says(t, service, id, "kept=1; echo one | cat", "one\n")
	if res, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Argv: []string{"echo", "two"}}); err != nil || res.Stdout != "two\n" {
		t.Fatalf("argv: %+v, %v", res, err)
	}
	says(t, service, id, "echo $kept", "1\n")
	destroy(t, service, id)

	id = create(t, service, api.SessionCreateParams{Shell: "bash", Limits: allLimits(), LimitsMode: api.LimitsBestEffort}).SessionID
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: id})
	if err != nil || info.Limits == nil || len(info.Limits.Enforced)+len(info.Limits.NotEnforced) != 3 {
		t.Fatalf("limits = %+v, %v", info.Limits, err)
	}
	strong := 0
	for _, e := range info.Limits.Enforced {
		if e.Mechanism == limits.MechanismV1 || e.Mechanism == limits.MechanismV2 {
			strong++
		}
	}
	if without && strong > 0 {
		t.Errorf("limits without cgroups: %+v", info.Limits)
	}
	says(t, service, id, "echo one | cat", "one\n")
	res, err := service.ExecRun(ctx, api.ExecParams{SessionID: id, Command: `perl -e '$x = "x" x (400 << 20)'`})
	if err != nil || res.ExitCode == 0 || res.OOMKilled != (strong > 0) { // the weak limit lets perl itself fail
		t.Errorf("memory: %+v, %v", res, err)
	}
	says(t, service, id, "echo two", "two\n")
	destroy(t, service, id)
	if left := groupsOf(id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}

	_, err = service.SessionCreate(ctx, api.SessionCreateParams{Limits: allLimits()})
	if strong < 3 {
		testkit.WantError(t, err, api.CodeLimitUnavailable, "cannot be enforced")
	} else if err != nil {
		t.Errorf("require: %v", err)
	}
}

// Limits of the configuration are best effort by default; one that a call names is required.
func TestLimitsOfTheConfiguration(t *testing.T) {
	scan := trltest.Env("TRL_TEST_SCAN=subreaper")
	ctx := context.Background()
	service := trltest.Start(t, scan, trltest.Args("--limit-memory-bytes=1G", "--max-limit-pids=500")).Client(t)
	info, err := service.SessionInfo(ctx, api.SessionInfoParams{SessionID: create(t, service, api.SessionCreateParams{}).SessionID})
	if err != nil || info.Limits == nil || info.Limits.MemoryBytes != 1<<30 || info.Limits.Pids != 500 {
		t.Fatalf("%+v, %v", info.Limits, err)
	}
	_, err = service.SessionCreate(ctx, api.SessionCreateParams{Limits: &api.Limits{CPUs: limit(1.0)}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "limit cpus cannot be enforced")
	_, err = service.SessionSet(ctx, api.SessionSetParams{SessionID: info.SessionID, Limits: &api.Limits{CPUs: limit(1.0)}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "limit cpus cannot be enforced")
	_, err = service.ExecRun(ctx, api.ExecParams{SessionID: info.SessionID, Command: "true", Limits: &api.CommandLimits{CPUs: limit(1.0)}})
	testkit.WantError(t, err, api.CodeLimitUnavailable, "limit cpus cannot be enforced")
	_, err = service.SessionCreate(ctx, api.SessionCreateParams{Limits: &api.Limits{Pids: limit(int64(501))}})
	testkit.WantError(t, err, api.CodeInvalidParams, "max_limit_pids")

	// A caller cannot weaken what the configuration requires.
	service = trltest.Start(t, scan, trltest.Args("--limits-mode=require", "--limit-memory-bytes=1G")).Client(t)
	for _, mode := range []api.LimitsMode{"", api.LimitsBestEffort} {
		_, err = service.SessionCreate(ctx, api.SessionCreateParams{LimitsMode: mode, Limits: &api.Limits{MemoryBytes: limit(int64(1 << 29))}})
		testkit.WantError(t, err, api.CodeLimitUnavailable, "limit memory_bytes cannot be enforced")
	}
}

// No cgroup is left of sessions that have ended, however they ended.
func TestNoCgroupIsLeft(t *testing.T) {
	daemon := trltest.Start(t)
	service := daemon.Client(t)
	needsLimits(t, service)
	for range 100 {
		id := create(t, service, api.SessionCreateParams{Shell: "none", Limits: allLimits()}).SessionID
		if len(groupsOf(id)) == 0 && len(limits.Roots()) > 0 {
			t.Fatal("the session has no group")
		}
		destroy(t, service, id)
		if left := groupsOf(id); len(left) > 0 {
			t.Fatalf("left: %v", left)
		}
	}
	// The runner is killed.
	id := create(t, service, api.SessionCreateParams{Limits: allLimits()}).SessionID
	lasting(t, service, id)
	info, err := service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(info.RunnerPID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the groups of a killed runner are removed", func() bool { return len(groupsOf(id)) == 0 })
	// Both are killed; the next daemon removes the groups.
	id = create(t, service, api.SessionCreateParams{Limits: allLimits()}).SessionID
	lasting(t, service, id)
	if info, err = service.SessionInfo(context.Background(), api.SessionInfoParams{SessionID: id}); err != nil {
		t.Fatal(err)
	}
	daemon.Kill9()
	_ = syscall.Kill(info.RunnerPID, syscall.SIGKILL)
	daemon.Restart(t)
	testkit.Eventually(t, "the next daemon removes the groups", func() bool { return len(groupsOf(id)) == 0 })
}

// lasting starts a command that runs on.
func lasting(t *testing.T, service *client.Client, id string) string {
	t.Helper()
	x, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: id, Command: "sleep 1000"})
	if err != nil {
		t.Fatal(err)
	}
	return x.ExecID
}

// usage.subscribe measures the sessions.
func TestUsage(t *testing.T) {
	service := trltest.Start(t).Client(t)
	id := create(t, service, api.SessionCreateParams{Name: "busy"}).SessionID
	x, err := service.ExecStart(context.Background(), api.ExecParams{SessionID: id, Command: "while :; do :; done"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := service.UsageSubscribe(context.Background(), api.UsageSubscribeParams{IntervalS: limit(0.1)})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	testkit.Eventually(t, "a push has the processor time of the session", func() bool {
		push, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if len(push.Sessions) != 1 { // a session that does not answer in time is left out
			return false
		}
		u := push.Sessions[0]
		if u.SessionID != id || u.Name != "busy" || u.Processes < 1 || u.MemoryBytes <= 0 || u.Command != "while :; do :; done" {
			t.Fatalf("%+v", u)
		}
		return u.CPUPercent != nil && *u.CPUPercent > 0
	})
	if _, err := service.ExecCancel(context.Background(), api.ExecCancelParams{ExecID: x.ExecID}); err != nil {
		t.Fatal(err)
	}
}
