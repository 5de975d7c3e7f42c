// Package mcp offers TRL to models: a few tools over the Model Context Protocol, on stdio and on
// HTTP, on top of any api.Service.
//
// Answers are small: the beginning and the end of a command's output, the size of the omitted part,
// and the call that reads it. No call takes longer than its client waits: a longer one returns
// "still running" and the call that continues it.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/version"
)

const (
	// DefaultPatience bounds a call. Clients give up after 60 s.
	DefaultPatience = 50 * time.Second
	// idleTimeout is how long an HTTP client may be silent before its connection and its sessions
	// end.
	idleTimeout = time.Hour
	// endTimeout bounds the time to end the sessions of a client that has disconnected.
	endTimeout = 30 * time.Second
	// progressEvery is the time between two progress notifications, for clients that ask for them.
	progressEvery = time.Second
)

// Config is the configuration of the tools.
type Config struct {
	Service api.Service
	// Hold keeps the daemon from exiting until release is called, for every client that has called
	// a tool. It is nil where the tools are not part of the daemon.
	Hold   func() (release func(), err error)
	Logger *slog.Logger
	// Patience bounds each call; zero means DefaultPatience.
	Patience time.Duration
	// Groups are the groups of tools to offer; empty means all.
	Groups []string
	// Shell is the shell of new sessions. If it is empty, PreferShell is used, where it exists and
	// the daemon has no default_shell of its own.
	Shell, PreferShell string
	// Dir and Env are the directory and the environment of the client, with which sessions on this
	// machine begin; empty for those of the daemon.
	Dir string
	Env map[string]string
	// Isolate is the profile of isolation of new sessions; empty for none.
	Isolate string
	// TextShell interprets the command of a terminal if Shell is empty and the model names none.
	TextShell string
}

// The groups of tools.
const (
	GroupShell    = "shell"    // run, start, wait, output, input, cancel, list, destroy
	GroupTerminal = "terminal" // terminal_start, terminal_type, terminal_screen
	GroupDialogue = "dialogue" // dialogue_start, dialogue_send, dialogue_respond, dialogue_read, dialogue_stop
)

// Groups are all groups of tools.
var Groups = []string{GroupShell, GroupTerminal, GroupDialogue}

// sharedTools are the tools of GroupShell that terminals need too.
var sharedTools = []string{"list", "destroy"}

// CheckGroups returns an error if a group of tools does not exist.
func CheckGroups(groups []string) error {
	for _, g := range groups {
		if !slices.Contains(Groups, g) {
			return fmt.Errorf("there is no group of tools %q; the groups are %s", g, strings.Join(Groups, ", "))
		}
	}
	return nil
}

func (c Config) has(group string) bool { return len(c.Groups) == 0 || slices.Contains(c.Groups, group) }

// instructions explain to a model how the tools work together.
func (c Config) instructions() string {
	text := "Sessions and programs that live on between calls."
	if c.has(GroupShell) {
		text = shellInstructions
	}
	if c.has(GroupTerminal) {
		text += terminalInstructions
	}
	if c.has(GroupDialogue) {
		text += dialogueInstructions
	}
	return text
}

const (
	shellInstructions = `Runs commands in persistent shells. "run" works in one default shell for this connection: cd, export and functions stay between calls.
Give "session" a name for a separate shell that outlives the connection. Long commands: "run" returns "still running" with an exec_id; continue with "wait". Use "start" for servers and other background work.`
	terminalInstructions = `
Programs that want a screen or keys (vim, top, python3, ssh, gdb): "terminal_start", then "terminal_type" with text and keys, which returns the screen.`
	dialogueInstructions = `
Other coding agents as helpers: "dialogue_start" with a task, then "dialogue_send", and "dialogue_respond" when they ask.`
)

// Handler serves clients over streamable HTTP. A client can select groups of tools with
// ?tools=shell,terminal. The clients' sessions end with ctx.
func Handler(ctx context.Context, c Config) http.Handler {
	own := func(r *http.Request) Config {
		own := c
		if words := r.URL.Query().Get("tools"); words != "" {
			own.Groups = strings.Split(words, ",")
		}
		return own
	}
	serve := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		return newConn(ctx, own(r)).server
	}, &mcp.StreamableHTTPOptions{SessionTimeout: idleTimeout})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := CheckGroups(own(r).Groups); err != nil {
			http.Error(w, "tools: "+err.Error(), http.StatusBadRequest)
			return
		}
		serve.ServeHTTP(w, r)
	})
}

// conn is one client. Goroutines: from its first call on, one that waits for the client to
// disconnect and then ends its sessions.
type conn struct {
	Config
	server *mcp.Server
	parent context.Context
	// arguments are the names of the arguments of each tool. They do not change after newConn.
	arguments map[string][]string

	begin sync.Once
	// life ends when the client disconnects. It is set by the first call, because a client that
	// calls nothing costs nothing. Without life, held is the reason why there are no calls.
	life   context.Context
	held   error
	finish sync.Once

	// homeMu is held while the default session is looked up or created, so that two calls do not
	// create two.
	homeMu sync.Mutex
	home   string // guarded by homeMu; the id of the default session

	mu          sync.Mutex
	seen        map[position]int64 // guarded by mu; the offset up to which the model has read
	ownSessions []string           // guarded by mu; the sessions without a name, which end with the client
	// terminal is the id of the terminal that was started last; guarded by mu.
	terminal string
	dialogue string           // guarded by mu; the id of the dialogue that was started last
	reported map[string]int64 // guarded by mu; by dialogue: the number of the last event that the model knows
	// ownDialogues are the dialogues without a name, which end with the client; guarded by mu.
	ownDialogues []string
	disconnected bool // guarded by mu; new sessions and dialogues are ended at once
}

var errDisconnected = api.Errorf(api.CodeCancelled, "the client has disconnected")

// position identifies one stream of one command.
type position struct{ exec, stream string }

func newConn(ctx context.Context, c Config) *conn {
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Logger != nil {
		c.Logger = slog.New(demoteInfo{c.Logger.Handler()})
	}
	conn := &conn{Config: c, parent: ctx, seen: map[position]int64{}, reported: map[string]int64{}}
	conn.server = mcp.NewServer(&mcp.Implementation{Name: "trl", Title: "TRL", Version: version.Version}, &mcp.ServerOptions{
		Instructions: c.instructions(), Logger: c.Logger, Capabilities: &mcp.ServerCapabilities{},
	})
	conn.addTools()
	conn.server.AddReceivingMiddleware(conn.checkArguments)
	return conn
}

// demoteInfo logs the SDK's info messages at debug level, such as each client that connects: MCP
// clients show their users what a server writes to stderr.
type demoteInfo struct{ slog.Handler }

func (q demoteInfo) Enabled(ctx context.Context, level slog.Level) bool {
	if level == slog.LevelInfo {
		level = slog.LevelDebug
	}
	return q.Handler.Enabled(ctx, level)
}

func (q demoteInfo) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoteInfo{q.Handler.WithAttrs(attrs)}
}
func (q demoteInfo) WithGroup(name string) slog.Handler { return demoteInfo{q.Handler.WithGroup(name)} }

// request returns the context of one call. It ends with the call, and carries the lifetime of the
// client for the service. From the first call on, the client keeps the daemon alive.
func (c *conn) request(ctx context.Context, s *mcp.ServerSession) (context.Context, error) {
	c.begin.Do(func() {
		release := func() {}
		if c.Hold != nil {
			if release, c.held = c.Hold(); c.held != nil {
				return
			}
		}
		life, cancel := context.WithCancel(c.parent)
		c.life = life
		go func() {
			_ = s.Wait()
			cancel()
			c.end()
			release()
		}()
	})
	if c.held != nil {
		return nil, c.held
	}
	return api.WithConn(ctx, c.life), nil
}

// addTools adds the tools of the configured groups.
func (c *conn) addTools() {
	c.addShellTools()
	if !c.has(GroupShell) {
		for name := range c.arguments {
			if !slices.Contains(sharedTools, name) || !c.has(GroupTerminal) {
				c.server.RemoveTools(name)
				delete(c.arguments, name)
			}
		}
	}
	if c.has(GroupTerminal) {
		c.addTerminalTools()
	}
	if c.has(GroupDialogue) {
		c.addDialogueTools()
	}
}

// newSession returns the parameters of a new session, with the given shell, or else the configured
// one.
func (c *conn) newSession(in sessionInput) (api.SessionCreateParams, error) {
	p := api.SessionCreateParams{Runtime: in.Runtime, Shell: cmp.Or(in.Shell, c.Shell), PreferShell: c.PreferShell, Tags: []string{"mcp"}}
	if onHost(in.Runtime) {
		p.WorkingDir, p.Env = c.Dir, c.Env
	}
	if !onHost(in.Runtime) && in.Shell == "" {
		p.Shell = "" // the configured shell is one of this machine
	}
	var err error
	p.Isolation, err = c.isolation(in.Isolate)
	return p, err
}

// onHost reports whether a new session is on the machine of the daemon.
func onHost(runtime string) bool { return runtime == "" || runtime == string(api.PlaceHost) }

// envWith returns the environment of a new session, with the variables that the model gives; nil for
// none.
func (c *conn) envWith(runtime string, given map[string]string) map[string]string {
	if !onHost(runtime) || len(c.Env) == 0 {
		return given
	}
	env := maps.Clone(c.Env)
	maps.Copy(env, given)
	return env
}

// session finds the session for a tool, or creates it: the default session for the lifetime of the
// client, a named one for good. fresh says that it was created now.
func (c *conn) session(ctx context.Context, name string, in sessionInput) (id string, fresh bool, err error) {
	p, err := c.newSession(in)
	if err != nil {
		return "", false, err
	}
	if name != "" {
		info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: name})
		if err == nil && info.State != api.SessionTerminated {
			return info.SessionID, false, checkExisting(info, in.Shell, p)
		}
		if err != nil && api.AsError(err).Code != api.CodeSessionNotFound {
			return "", false, err
		}
		p.Name = name
		made, err := c.Service.SessionCreate(ctx, p)
		return made.SessionID, true, err
	}
	c.homeMu.Lock()
	defer c.homeMu.Unlock()
	if c.home != "" {
		info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: c.home})
		if err == nil && info.State != api.SessionTerminated {
			return c.home, false, checkExisting(info, in.Shell, p)
		}
		// Do not replace a session that may exist: its directory and variables would be lost.
		if err != nil && api.AsError(err).Code != api.CodeSessionNotFound {
			return "", false, err
		}
	}
	p.Ephemeral = true
	c.home, err = c.create(ctx, p)
	return c.home, true, err
}

// checkExisting returns an error if an existing session is in another place than a new one would be,
// has another shell than the model asks for, or other isolation.
func checkExisting(info api.SessionDetails, shell string, p api.SessionCreateParams) error {
	other := ""
	switch {
	case p.Runtime != "" && p.Runtime != info.Runtime:
		other = fmt.Sprintf("is in %s, not in %s", info.Runtime, p.Runtime)
	case shell != "" && filepath.Base(shell) != filepath.Base(info.Shell):
		other = fmt.Sprintf("has the shell %s, not %s", info.Shell, shell)
	case p.Isolation != nil && (info.Isolation == nil || info.Isolation.Profile != p.Isolation.Profile):
		other = fmt.Sprintf("does not have the isolation %q", p.Isolation.Profile)
	default:
		return nil
	}
	return api.Errorf(api.CodeConflict, "session %q: %s; give session another name", cmp.Or(info.Name, info.SessionID), other)
}

// checkIsolation returns an error if the client is isolated and a session is not in the same way.
func (c *conn) checkIsolation(ctx context.Context, session string) error {
	if c.Isolate == "" {
		return nil
	}
	info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: session})
	if err != nil {
		return err
	}
	if info.Isolation == nil || info.Isolation.Profile != c.Isolate {
		return api.Errorf(api.CodeConflict, "session %q: does not have the isolation %q, which is required here; start a new one", cmp.Or(info.Name, info.SessionID), c.Isolate)
	}
	return nil
}

// createSpare creates a session for one background command, in the directory of the default
// session.
func (c *conn) createSpare(ctx context.Context, in sessionInput) (id string, err error) {
	p, err := c.newSession(in)
	if err != nil {
		return "", err
	}
	p.WorkingDir, p.Ephemeral = c.dirFor(ctx, in.Runtime), true
	return c.create(ctx, p)
}

// discard ends a session whose only command could not be started.
func (c *conn) discard(ctx context.Context, id string) {
	c.mu.Lock()
	c.ownSessions = slices.DeleteFunc(c.ownSessions, func(own string) bool { return own == id })
	c.mu.Unlock()
	_, _ = c.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
}

// discardUnused ends a named session that the tool has just created, if the request for its first
// command was wrong. It keeps a session in which a command runs or has run: another caller may have
// found it by its name. A caller that has found it and begins its command only now loses the session.
func (c *conn) discardUnused(ctx context.Context, id string, err error) {
	if api.AsError(err).Code != api.CodeInvalidParams {
		return
	}
	list, err := c.Service.ExecList(ctx, api.ExecListParams{SessionID: id})
	started := func(e api.ExecInfo) bool { return e.Error == nil }
	if err != nil || slices.ContainsFunc(list.Execs, started) {
		return
	}
	_, _ = c.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
}

// dirFor returns the directory of a new session: that of the default session, or none in another
// place.
func (c *conn) dirFor(ctx context.Context, place string) string {
	if !onHost(place) {
		return ""
	}
	return c.homeDir(ctx)
}

// homeDir returns the directory of the default session; if there is none, that of the client.
func (c *conn) homeDir(ctx context.Context) string {
	c.homeMu.Lock()
	home := c.home
	c.homeMu.Unlock()
	if home == "" {
		return c.Dir
	}
	info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: home})
	if err != nil {
		return ""
	}
	return info.WorkingDir
}

// create creates a session. An ephemeral one ends with the client: conn.end destroys it and, if
// this process is killed first, the service notices that its connection has closed.
func (c *conn) create(ctx context.Context, p api.SessionCreateParams) (id string, err error) {
	made, err := c.Service.SessionCreate(ctx, p)
	if err != nil || !p.Ephemeral {
		return made.SessionID, err
	}
	c.mu.Lock()
	c.ownSessions = append(c.ownSessions, made.SessionID)
	gone := c.disconnected
	c.mu.Unlock()
	if gone {
		c.destroyOwn()
		return "", errDisconnected
	}
	return made.SessionID, nil
}

// end ends the sessions and dialogues without a name, and waits for that.
func (c *conn) end() {
	c.finish.Do(func() {
		c.mu.Lock()
		c.disconnected = true
		c.mu.Unlock()
		c.destroyOwn()
	})
}

func (c *conn) destroyOwn() {
	c.mu.Lock()
	own, dialogues := c.ownSessions, c.ownDialogues
	c.ownSessions, c.ownDialogues = nil, nil
	c.mu.Unlock()
	// Every context of the client has ended.
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	var all sync.WaitGroup
	for _, id := range own {
		all.Go(func() { _, _ = c.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id}) })
	}
	for _, id := range dialogues {
		all.Go(func() { _, _ = c.Service.DialogueTerminate(ctx, api.DialogueTerminateParams{DialogueID: id}) })
	}
	all.Wait()
}
