//go:build linux

package places

import (
	"slices"
	"strings"
	"testing"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/testkit"
)

// attempts prints the words of what a session could do. PPID is the runner of a shell.
const attempts = `runner=$PPID
echo x 2>/dev/null >inside && echo write-inside
(echo x >/etc/trl-test) 2>/dev/null && echo write-outside
(echo x >>/root/trl-test) 2>/dev/null && echo write-home
cat /etc/passwd >/dev/null 2>&1 && echo read-system
(cat /proc/$runner/environ) >/dev/null 2>&1 && echo trace
(echo 1 >/proc/$runner/oom_score_adj) 2>/dev/null && echo values
kill -0 $runner 2>/dev/null && echo signal
perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0) or exit 1; connect(S, sockaddr_in(1, inet_aton("127.0.0.1"))); exit($!{ECONNREFUSED} ? 0 : 1)' && echo tcp
perl -MSocket -e 'socket(S, PF_INET, SOCK_DGRAM, 0) or exit 1; send(S, "x", 0, sockaddr_in(1, inet_aton("127.0.0.1"))) or exit 1' && echo udp
perl -MSocket -e 'socket(S, PF_UNIX, SOCK_STREAM, 0) or exit 1' && echo unix
unshare -U true 2>/dev/null && echo user-namespace
true`

// TestIsolation tests what isolation refuses in a place and says about it. A container and a pod have no
// namespaces to give, so that Landlock and seccomp are left.
func TestIsolation(t *testing.T) {
	each(t, nil, func(p *place) {
		if p.name != "docker" && p.name != "kubernetes" {
			p.Skip("the runner is on a machine, as on the host")
		}
		for _, c := range []struct {
			name   string
			wanted *api.Isolation
			missed []string // aspects without which the session is not made
			can    []string
		}{
			{"nothing", nil, nil, []string{"write-inside", "write-outside", "write-home", "read-system", "trace", "values", "signal", "tcp", "udp", "unix"}},
			{"workspace", &api.Isolation{Profile: api.ProfileWorkspace}, nil, []string{"write-inside", "read-system", "tcp", "udp"}},
			{"read-only", &api.Isolation{Profile: api.ProfileReadOnly}, nil, []string{"read-system", "tcp", "udp"}},
			{"no network", &api.Isolation{Files: api.FilesWorkspace, Network: api.NetworkNone}, nil, []string{"write-inside", "read-system"}},
			{"listed network", &api.Isolation{Files: api.FilesWorkspace, Network: api.NetworkAllow, Allow: []string{"127.0.0.1:1"}}, []string{api.AspectNetwork}, []string{"write-inside", "read-system"}},
			{"own processes", &api.Isolation{Processes: api.ProcessesOwn}, []string{api.AspectSockets}, []string{"write-inside", "write-outside", "write-home", "read-system", "values", "tcp", "udp", "unix"}},
		} {
			p.Run(c.name, func(t *testing.T) { p.isolated(t, c.wanted, c.missed, c.can) })
		}
	})
}

func (p *place) isolated(t *testing.T, wanted *api.Isolation, missed, can []string) {
	params := api.SessionCreateParams{Runtime: p.at.Runtime, Place: p.at.Place, WorkingDir: "/tmp", Isolation: wanted}
	if len(missed) > 0 {
		_, err := p.SessionCreate(p.ctx, params)
		testkit.WantError(t, err, api.CodeIsolationUnavailable, "isolation of "+missed[0]+" cannot be enforced")
		params.IsolationMode = api.LimitsBestEffort
	}
	id := p.create(params).SessionID
	defer p.destroy(id)
	// What needs the home: a pod may have none but the root directory.
	r := testkit.Must(p.ExecRun(p.ctx, api.ExecParams{SessionID: id, Command: "[ -d /root ] || echo no-root; " + attempts}))(t)
	did := strings.Fields(r.Stdout)
	if len(did) > 0 && did[0] == "no-root" {
		did, can = did[1:], slices.DeleteFunc(slices.Clone(can), func(w string) bool { return w == "write-home" })
	}
	if !slices.Equal(did, can) {
		t.Errorf("a session can %v, want %v; %s", did, can, r.Stderr)
	}
	info := testkit.Must(p.SessionInfo(p.ctx, api.SessionInfoParams{SessionID: id}))(t).Isolation
	if wanted == nil {
		if info != nil {
			t.Errorf("isolation: %+v", info)
		}
		return
	}
	if info == nil {
		t.Fatal("session.info has no isolation")
	}
	// An aspect that is reported as enforced refuses what it is about, and the others say why not.
	refuses := map[string][]string{
		api.AspectFiles: {"write-outside", "write-home"}, api.AspectNetwork: {"tcp", "udp"}, api.AspectSockets: {"unix"},
		api.AspectProcesses: {"trace"}, api.AspectSignals: {"signal"}, api.AspectPrivileges: {"user-namespace"},
	}
	for _, e := range info.Enforced {
		for _, word := range refuses[e.Aspect] {
			if slices.Contains(did, word) {
				t.Errorf("%s is said to be enforced, but %s was possible", e.Aspect, word)
			}
		}
		if slices.Contains(e.Mechanisms, "mount-namespace") || len(e.Mechanisms) == 0 {
			t.Errorf("%+v", e)
		}
	}
	for _, aspect := range missed {
		i := slices.IndexFunc(info.NotEnforced, func(u api.UnenforcedAspect) bool { return u.Aspect == aspect })
		if i < 0 || !strings.Contains(info.NotEnforced[i].Reason, "namespaces, which the system does not allow here") {
			t.Errorf("not enforced: %+v", info.NotEnforced)
		}
	}
}
