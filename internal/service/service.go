// Package service implements api.Service. It is thin: a method checks its parameters, finds the
// session or the dialogue, makes sure that the call is allowed there, and passes the call on.
package service

import (
	"context"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/dialogue"
	"github.com/trl-dev/trl/internal/process"
	"github.com/trl-dev/trl/internal/runtimes"
	"github.com/trl-dev/trl/internal/session"
	"github.com/trl-dev/trl/internal/version"
)

// Config is what a Service needs.
type Config struct {
	Registry *session.Registry
	// Places are the places that callers can name; nil for the host alone.
	Places *runtimes.Table
	// Dialogues are the conversations with agents.
	Dialogues *dialogue.Registry
	// DaemonID identifies this daemon to others, also after its restart.
	DaemonID string
	// Connections counts the clients by transport; nil for none.
	Connections func() map[string]int
	// Disk measures the daemon's files; nil if it has none.
	Disk func(context.Context) (api.DiskUsage, error)
	// Settings are those that system.settings reports.
	Settings api.SystemSettingsResult
	// Doctor checks the daemon and its machine; nil if it cannot.
	Doctor func(ctx context.Context) ([]api.DoctorFinding, error)
	// Log makes a stream of system.log; nil if there is no log.
	Log func(ctx context.Context, streamID string, p api.SystemLogParams) api.Stream
	// Limits are those that system.info reports.
	Limits map[string]float64
	// Capabilities are those that system.info reports.
	Capabilities []string
	// Fronts returns the base of the daemon's URLs for HTTP, and its address for gRPC, for
	// system.info; empty for what is off. Nil: both are off.
	Fronts func() (http, grpc string)
	// ConfigFile is the file of the daemon's settings, for system.info.
	ConfigFile string
	// Upgrade replaces the program of the daemon, soon after the answer.
	Upgrade func(ctx context.Context, binary string) (api.SystemUpgradeResult, error)
	// HTTP turns HTTP on or off, or reports whether it is on. Nil: there is no HTTP.
	HTTP func(ctx context.Context, p api.SystemHTTPParams) (api.SystemHTTPResult, error)
	// Console is the page for browsers. Nil: there is none.
	Console Console
}

// Console opens the page for browsers and knows their logins.
type Console interface {
	Open(ctx context.Context, p api.WebOpenParams) (api.WebOpenResult, error)
	// Share makes an address for viewers of one session or dialogue, which p names by id.
	Share(ctx context.Context, p api.WebShareParams) (api.WebShareResult, error)
	Logins() []api.WebLogin
	Shares() []api.WebShare
	// Revoke ends one login or share, or all if the id is empty, and returns the ids of those that it ended.
	Revoke(id string) ([]string, error)
}

// Service answers every method of the API. It is safe for concurrent use.
type Service struct {
	registry *session.Registry
	config   Config
	began    time.Time
	streams  atomic.Int64 // the number of the last stream
	guests   sync.Map     // the connections of owners to their guests: stream id → *session.GuestConnection

	disk      shared[api.DiskUsage]
	examining chan struct{}    // has a value while the doctor works
	enforcing chan struct{}    // has a value while a session tries what can be enforced
	enforced  *api.Enforcement // only for the one that fills enforcing; nil until a session has tried it
}

var _ api.Service = (*Service)(nil)

// New makes a Service.
func New(c Config) *Service {
	if c.Places == nil {
		c.Places = noPlaces
	}
	return &Service{registry: c.Registry, config: c, began: time.Now(), examining: make(chan struct{}, 1), enforcing: make(chan struct{}, 1)}
}

// SystemPing answers with uptime and version.
func (s *Service) SystemPing(_ context.Context, _ api.SystemPingParams) (api.SystemPingResult, error) {
	return api.SystemPingResult{UptimeS: s.uptime(), Version: version.Version}, nil
}

// SystemStats counts sessions, commands and the daemon's own resources.
func (s *Service) SystemStats(ctx context.Context, p api.SystemStatsParams) (api.SystemStatsResult, error) {
	r := api.SystemStatsResult{UptimeS: s.uptime(), Goroutines: runtime.NumGoroutine(), Transports: map[string]int{}, EventSeq: s.registry.Journal().Last()}
	r.ActiveSessions, r.TotalCommandsRun = s.registry.Stats()
	r.MemoryRSSBytes, r.OpenFDs = process.SelfUsage()
	if s.config.Connections != nil {
		r.Transports = s.config.Connections()
		for _, n := range r.Transports {
			r.Connections += n
		}
	}
	if p.Disk && s.config.Disk != nil {
		disk, err := s.disk.get(ctx, s.config.Disk)
		if err != nil {
			return r, err
		}
		r.Disk = &disk
	}
	return r, nil
}

// SystemInfo reports version, platform, limits, capabilities and methods.
func (s *Service) SystemInfo(ctx context.Context, p api.SystemInfoParams) (api.SystemInfoResult, error) {
	r := api.SystemInfoResult{
		Version: version.Version, APIVersion: api.Version, OS: runtime.GOOS, Arch: runtime.GOARCH, PID: os.Getpid(), StartedAt: s.began.UTC(),
		ConfigFile: s.config.ConfigFile, Limits: s.config.Limits, Capabilities: s.config.Capabilities, Runtimes: s.usableKinds(), Methods: make([]string, 0, len(api.Methods())),
	}
	if s.config.Fronts != nil {
		r.HTTP, r.GRPC = s.config.Fronts()
	}
	if r.Limits == nil {
		r.Limits = map[string]float64{}
	}
	if r.Capabilities == nil {
		r.Capabilities = []string{}
	}
	for _, m := range api.Methods() {
		r.Methods = append(r.Methods, m.Name)
	}
	var err error
	if p.Enforcement {
		r.Enforcement, err = s.enforcement(ctx)
	}
	if p.Agents {
		r.Agents = dialogue.Installed()
	}
	return r, err
}

// SystemHello gives the caller's connection a label.
func (s *Service) SystemHello(ctx context.Context, p api.SystemHelloParams) (api.SystemHelloResult, error) {
	if err := p.Check(); err != nil {
		return api.SystemHelloResult{}, err
	}
	caller, err := api.Hello(ctx, p.Label)
	return api.SystemHelloResult{Caller: caller}, err
}

// SystemUpgrade replaces the daemon by a new program.
func (s *Service) SystemUpgrade(ctx context.Context, p api.SystemUpgradeParams) (api.SystemUpgradeResult, error) {
	if s.config.Upgrade == nil {
		return api.SystemUpgradeResult{}, api.Errorf(api.CodeConflict, "daemon: cannot be replaced here; stop it and start the new one")
	}
	return s.config.Upgrade(ctx, p.Binary)
}

// SystemHTTP turns HTTP on or off, or reports whether it is on.
func (s *Service) SystemHTTP(ctx context.Context, p api.SystemHTTPParams) (api.SystemHTTPResult, error) {
	if err := p.Check(); err != nil {
		return api.SystemHTTPResult{}, err
	}
	if s.config.HTTP == nil {
		return api.SystemHTTPResult{}, api.Errorf(api.CodeConflict, "daemon: cannot serve HTTP")
	}
	return s.config.HTTP(ctx, p)
}

func (s *Service) uptime() int64 { return int64(time.Since(s.began).Seconds()) }
