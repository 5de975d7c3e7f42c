// Package config holds the settings of the daemon: one struct, filled from flags,
// environment, file and defaults, in this order of precedence. Every value knows
// where it came from.
package config

import (
	"log/slog"
	"time"

	"github.com/trl-dev/trl/api"
)

// Config holds all settings. The tags are the one description of a setting: key is its name
// in the file, env overrides the name of its variable (TRL_ and the key in capitals), kind
// is its syntax, min and max are its limits, and doc explains it.
//
// A Config is a value: it is not changed after Load.
type Config struct {
	// Where things are.
	Socket     string `key:"socket" env:"TRL_SOCKET_PATH" kind:"path" doc:"unix socket that clients connect to"`
	StateDir   string `key:"state_dir" kind:"path" doc:"directory for data that must survive a restart of the daemon"`
	RuntimeDir string `key:"runtime_dir" kind:"path" doc:"directory for the sessions' private directories; best in memory"`

	// Logging.
	LogLevel string `key:"log_level" kind:"level" doc:"lowest level that the daemon logs: debug, info, warn or error"`

	// The audit log.
	Audit        string `key:"audit" kind:"audit" doc:"record the calls that change something: on; off; or require, which also refuses such calls while the log cannot be written"`
	AuditContent bool   `key:"audit_content" kind:"bool" doc:"record the parameters too: command text, input and answers; never values of variables"`
	AuditBytes   int64  `key:"audit_bytes" kind:"bytes" min:"524288" doc:"maximum size of the audit log in bytes; beyond it, TRL deletes the oldest records"`

	// Sessions.
	MaxSessions        int64   `key:"max_sessions" kind:"count" min:"1" max:"100000" doc:"maximum number of live sessions"`
	DefaultShell       string  `key:"default_shell" kind:"text" doc:"shell of sessions that do not name one; unless it is set, trl and MCP use bash where it exists"`
	ShellStartTimeoutS float64 `key:"shell_start_timeout_s" kind:"seconds" min:"0.1" doc:"seconds to wait for the first answer of a new shell"`
	IdleTimeoutS       float64 `key:"idle_timeout_s" kind:"seconds" doc:"seconds after which TRL ends a shell session in which nothing but the shell runs; 0 = never. Terminals, programs and dialogues end with their program"`
	LifetimeS          float64 `key:"lifetime_s" kind:"seconds" doc:"seconds after which TRL ends any session, even one in use; 0 = never"`
	RetentionS         float64 `key:"retention_s" kind:"seconds" doc:"seconds that a session stays readable after its end"`
	MaxCommands        int64   `key:"max_commands" kind:"count" doc:"maximum number of commands that one session runs; 0 = no limit"`
	MaxParallel        int64   `key:"max_parallel" kind:"count" max:"10000" doc:"maximum number of argv commands that run at once in one session; 0 = no limit"`
	MaxQueued          int64   `key:"max_queued" kind:"count" max:"100000" doc:"maximum number of commands that wait in the queue of one session"`
	KeepSessions       bool    `key:"keep_sessions" kind:"bool" doc:"keep the sessions alive when the daemon stops; the next daemon finds them"`

	// Limits of sessions: the defaults, and the most that a caller may choose.
	LimitsMode          string  `key:"limits_mode" kind:"mode" doc:"for the limits below: require refuses sessions whose limits cannot be enforced; best-effort only reports it"`
	LimitCPUs           float64 `key:"limit_cpus" kind:"number" max:"10000" doc:"processors that one session may use; 0 = no limit"`
	LimitMemoryBytes    int64   `key:"limit_memory_bytes" kind:"bytes" doc:"bytes of memory that one session may use; 0 = no limit"`
	LimitPids           int64   `key:"limit_pids" kind:"count" doc:"processes and threads that one session may have; 0 = no limit"`
	LimitOpenFiles      int64   `key:"limit_open_files" kind:"count" doc:"files that each process of a session may have open; 0 = no limit"`
	LimitFileBytes      int64   `key:"limit_file_bytes" kind:"bytes" doc:"size of the largest file that a process of a session may write; 0 = no limit"`
	LimitOutputBytes    int64   `key:"limit_output_bytes" kind:"bytes" doc:"bytes of output after which TRL cancels a command; 0 = no limit"`
	MaxLimitCPUs        float64 `key:"max_limit_cpus" kind:"number" max:"10000" doc:"highest limit_cpus that a caller may choose; 0 = any"`
	MaxLimitMemoryBytes int64   `key:"max_limit_memory_bytes" kind:"bytes" doc:"highest limit of memory that a caller may choose; 0 = any"`
	MaxLimitPids        int64   `key:"max_limit_pids" kind:"count" doc:"highest limit of processes that a caller may choose; 0 = any"`
	MaxLimitOpenFiles   int64   `key:"max_limit_open_files" kind:"count" doc:"highest limit of open files that a caller may choose; 0 = any"`
	MaxLimitFileBytes   int64   `key:"max_limit_file_bytes" kind:"bytes" doc:"highest limit of file sizes that a caller may choose; 0 = any"`
	MaxLimitOutputBytes int64   `key:"max_limit_output_bytes" kind:"bytes" doc:"highest limit of output that a caller may choose; 0 = any"`
	MaxLimitLifetimeS   float64 `key:"max_limit_lifetime_s" kind:"seconds" doc:"longest lifetime of a session that a caller may choose; 0 = any"`
	MaxLimitCommands    int64   `key:"max_limit_commands" kind:"count" doc:"highest number of commands of a session that a caller may choose; 0 = any"`

	// Pressure: what the machine must have left for a new session.
	MinFreeMemoryBytes int64 `key:"min_free_memory_bytes" kind:"bytes" doc:"bytes of memory that must be available for a new session; 0 = do not check"`
	MinFreeProcesses   int64 `key:"min_free_processes" kind:"count" doc:"processes that the system must still allow for a new session; 0 = do not check"`
	MinFreeDiskBytes   int64 `key:"min_free_disk_bytes" kind:"bytes" doc:"bytes that must be free in state_dir for a new session; 0 = do not check"`

	// Places.
	DefaultRuntime string  `key:"default_runtime" kind:"text" doc:"place of sessions that do not name one: a name from [runtimes], a kind, or KIND:ARGUMENT"`
	AdhocPlaces    bool    `key:"adhoc_places" kind:"bool" doc:"callers may use places that [runtimes] does not name, as KIND:ARGUMENT"`
	RuntimeKinds   string  `key:"runtime_kinds" kind:"list" doc:"kinds of places that may be used: host, docker, container, ssh, kubernetes, pod, trl; empty = all"`
	CreateTimeoutS float64 `key:"create_timeout_s" kind:"seconds" doc:"seconds that the creation of a session may take in a place other than the host; 0 = no limit"`

	OwnerLostS float64 `key:"owner_lost_s" kind:"seconds" doc:"seconds after which TRL ends a session of another daemon here if that daemon does not connect to it; the other daemon may set less; 0 = never"`

	// Runtimes are the places that the file names, in tables [runtimes.NAME].
	Runtimes map[string]Runtime

	// Isolation are the profiles that the file names, in tables [isolation.NAME].
	Isolation map[string]api.Isolation

	// Commands.
	DefaultTimeoutS float64 `key:"default_timeout_s" kind:"seconds" doc:"default timeout of a command in seconds; 0 = no limit"`
	KillGraceS      float64 `key:"kill_grace_s" kind:"seconds" max:"3600" doc:"seconds between SIGTERM and SIGKILL"`
	MaxStdinBytes   int64   `key:"max_stdin_bytes" kind:"bytes" doc:"maximum size of the stdin of one command in bytes"`

	// Output.
	OutputBytes        int64  `key:"output_bytes" kind:"bytes" min:"4096" doc:"bytes of each stream of a command that TRL keeps; of longer output it keeps head and tail"`
	SessionOutputBytes int64  `key:"session_output_bytes" kind:"bytes" doc:"bytes of output that TRL keeps for all ended commands of one session together"`
	TotalOutputBytes   int64  `key:"total_output_bytes" kind:"bytes" doc:"bytes of output that TRL keeps for all sessions together; 0 = no limit"`
	OutputMemoryBytes  int64  `key:"output_memory_bytes" kind:"bytes" doc:"bytes of a session's output to keep in memory; the rest goes to an unnamed file; 0 = all in memory"`
	SpillDir           string `key:"spill_dir" kind:"path" doc:"directory for the unnamed files that hold output; by default state_dir"`
	ExecsKept          int64  `key:"execs_kept" kind:"count" max:"1000000" doc:"number of ended commands of a session that TRL remembers"`

	// Recordings.
	RecordingBytes       int64 `key:"recording_bytes" kind:"bytes" doc:"maximum size of one terminal recording in bytes; the recording then stops; 0 = no limit"`
	RecordingsTotalBytes int64 `key:"recordings_total_bytes" kind:"bytes" doc:"maximum size of all recordings in bytes; beyond it, TRL deletes those of ended sessions, oldest first; 0 = no limit"`

	// Dialogues.
	DialogueStartTimeoutS float64 `key:"dialogue_start_timeout_s" kind:"seconds" min:"0.1" doc:"seconds to wait for the first answer of a new agent"`
	DialogueStallS        float64 `key:"dialogue_stall_s" kind:"seconds" doc:"seconds that a working agent may stay silent before TRL reports it as stalled; 0 = never report"`
	DialogueReconnectS    float64 `key:"dialogue_reconnect_s" kind:"seconds" min:"0.1" doc:"seconds that the place of an agent may be unreachable before the state of the dialogue is error"`
	DialogueLineBytes     int64   `key:"dialogue_line_bytes" kind:"bytes" min:"4096" max:"1073741824" doc:"maximum size of one line of an agent in bytes; TRL keeps a longer line but does not parse it"`
	DialogueOutputBytes   int64   `key:"dialogue_output_bytes" kind:"bytes" min:"4096" doc:"bytes of an agent's output to buffer while no daemon reads it"`
	DialoguesTotalBytes   int64   `key:"dialogues_total_bytes" kind:"bytes" doc:"maximum size of the records of all dialogues in bytes; beyond it, TRL deletes those of ended dialogues, oldest first; 0 = no limit"`

	// Requests of agents that no client sees.
	OnRequestCommand string  `key:"on_request_command" kind:"text" doc:"shell command to run when an agent waits for an answer and no client looks; it reads the report from its stdin, as JSON"`
	OnRequestURL     string  `key:"on_request_url" kind:"url" doc:"URL to which to post the same report, signed; https, or http on this machine"`
	OnRequestKeyFile string  `key:"on_request_key_file" kind:"path" doc:"file of the key that signs the posted reports; by default on_request_key in state_dir, created if it is missing"`
	OnRequestAfterS  float64 `key:"on_request_after_s" kind:"seconds" doc:"seconds that a request waits, with no client looking, before it is reported"`

	// Connections.
	MaxRequestBytes int64 `key:"max_request_bytes" kind:"bytes" min:"1024" max:"268435456" doc:"maximum size of one request in bytes"`
	MaxConnections  int64 `key:"max_connections" kind:"count" min:"1" max:"1000000" doc:"maximum number of connections"`

	ReaderStallS float64 `key:"reader_stall_s" kind:"seconds" min:"1" doc:"seconds that a client may read nothing of its data; then TRL closes its connection, which cancels its commands unless they were detached"`

	// HTTP.
	HTTP               string `key:"http" kind:"address" doc:"host and port to serve HTTP on, such as 127.0.0.1:7330; empty = no HTTP"`
	HTTPInsecure       bool   `key:"http_insecure" kind:"bool" doc:"serve HTTP beyond this machine without TLS; anyone on the network path can then read the token"`
	HTTPHosts          string `key:"http_hosts" kind:"list" doc:"host names that requests may use for the daemon, besides localhost and its own address"`
	HTTPOrigins        string `key:"http_origins" kind:"list" doc:"origins of web pages that may use the daemon, such as https://app.example.com"`
	TokenFile          string `key:"token_file" kind:"path" doc:"file of the tokens for HTTP and gRPC; by default token in state_dir, created if it is missing"`
	TLSCert            string `key:"tls_cert" kind:"path" doc:"file of the certificate for HTTP and gRPC, in PEM; with tls_key"`
	TLSKey             string `key:"tls_key" kind:"path" doc:"file of the certificate's private key"`
	MaxHTTPConnections int64  `key:"max_http_connections" kind:"count" min:"1" max:"1000000" doc:"maximum number of HTTP connections, and of gRPC connections"`

	// gRPC.
	GRPC         string `key:"grpc" kind:"address" doc:"host and port to serve gRPC on, such as 127.0.0.1:7331; empty = no gRPC"`
	GRPCClientCA string `key:"grpc_client_ca" kind:"path" doc:"file of CA certificates, in PEM; every gRPC client must then present a certificate signed by one of them, and needs no token"`

	// Traces.
	TraceEndpoint string `key:"trace_endpoint" kind:"endpoint" doc:"URL of an OpenTelemetry collector to export traces to over OTLP/HTTP, such as http://127.0.0.1:4318; empty = the variables OTEL_EXPORTER_OTLP_… decide, and without them there are no traces"`
	TraceCommands bool   `key:"trace_commands" kind:"bool" doc:"pass TRACEPARENT to commands, if traces are exported"`

	// The command line.
	DetachKey string `key:"detach_key" kind:"text" doc:"key that detaches from trl attach: ctrl- and a letter or one of @ \\ ] ^ _; none = no key"`

	// The daemon itself.
	AutoExitS float64 `key:"auto_exit_s" kind:"seconds" doc:"seconds without a session or a connection after which the daemon exits; 0 = never"`

	file     string            // see File
	origins  map[string]string // by key; absent: default
	defaults map[string]any    // by key
	notes    []string
}

// base returns the defaults that do not depend on the user and the machine.
func base() Config {
	return Config{
		LogLevel:           "info",
		Audit:              "on",
		AuditBytes:         64 << 20,
		MaxSessions:        64,
		DefaultShell:       api.DefaultShell,
		ShellStartTimeoutS: 10,
		IdleTimeoutS:       3600,
		LifetimeS:          0,
		RetentionS:         600,
		MaxCommands:        0,
		MaxParallel:        64,
		MaxQueued:          64,
		LimitsMode:         string(api.LimitsBestEffort),
		MinFreeMemoryBytes: 64 << 20,
		MinFreeProcesses:   64,
		MinFreeDiskBytes:   16 << 20,
		DefaultRuntime:     string(api.PlaceHost),
		AdhocPlaces:        true,
		CreateTimeoutS:     300,
		OwnerLostS:         86400,
		DefaultTimeoutS:    0,
		KillGraceS:         5,
		MaxStdinBytes:      16 << 20,
		OutputBytes:        16 << 20,
		SessionOutputBytes: 64 << 20,
		TotalOutputBytes:   4 << 30,
		OutputMemoryBytes:  1 << 20,
		ExecsKept:          256,

		RecordingBytes:       256 << 20,
		RecordingsTotalBytes: 2 << 30,

		DialogueStartTimeoutS: 60,
		DialogueStallS:        120,
		DialogueReconnectS:    120,
		DialogueLineBytes:     64 << 20,
		DialogueOutputBytes:   256 << 20,
		DialoguesTotalBytes:   4 << 30,

		OnRequestAfterS: 10,

		MaxRequestBytes:    32 << 20,
		MaxConnections:     2048,
		ReaderStallS:       600,
		MaxHTTPConnections: 1024,
		DetachKey:          `ctrl-\`,
	}
}

// Entry is one setting as `trl config` shows it.
type Entry struct {
	Key     string `json:"key"`
	Value   any    `json:"value"` // string, int64, float64 or bool; also a list or an object for an option of a place
	Origin  string `json:"origin"`
	Default any    `json:"default"`
	Env     string `json:"env"`  // empty for an option of a place, which only the file sets
	Flag    string `json:"flag"` // with its dashes; empty for an option of a place
	Doc     string `json:"doc"`
}

// Entries lists all settings in the order of the struct.
func (c Config) Entries() []Entry {
	list := make([]Entry, 0, len(settings))
	for _, s := range settings {
		list = append(list, Entry{
			Key: s.key, Value: s.get(&c), Origin: c.Origin(s.key), Default: c.defaults[s.key],
			Env: s.env, Flag: "--" + s.flag, Doc: s.doc,
		})
	}
	return append(append(list, c.runtimeEntries()...), c.isolationEntries()...)
}

// OriginDefault is the origin of a value that was not set.
const OriginDefault = "default"

// Origin says where the value of key came from: "default", "file PATH", "env NAME" or "flag --name".
func (c Config) Origin(key string) string {
	if o := c.origins[key]; o != "" {
		return o
	}
	return OriginDefault
}

// Notes are probable mistakes that are not errors, such as a variable whose name is nearly
// that of a setting.
func (c Config) Notes() []string { return c.notes }

// Limits returns every number of the configuration by its key, for system.info.
func (c Config) Limits() map[string]float64 {
	limits := map[string]float64{}
	for _, s := range settings {
		switch v := s.get(&c).(type) {
		case int64:
			limits[s.key] = float64(v)
		case float64:
			limits[s.key] = v
		}
	}
	return limits
}

// Level returns LogLevel as slog knows it.
func (c Config) Level() slog.Level {
	var l slog.Level
	_ = l.UnmarshalText([]byte(c.LogLevel)) // checked by Load
	return l
}

// Seconds turns a setting of kind seconds into a duration.
func Seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
