// Package mcp offers TRL to models: a few tools over the Model Context Protocol, on
// stdio and on HTTP, on top of any api.Service.
//
// Answers are small: the beginning and the end of a command's output, the size of the
// omitted part, and the call that reads it. No call takes longer than its client waits: a
// longer one returns "still running" and the call that continues it.
package mcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	// DefaultPatience is how long a call may take: clients give up after 60 s.
	DefaultPatience = 50 * time.Second
	// idleTimeout is how long an HTTP client may be silent before its sessions go.
	idleTimeout = time.Hour
	// endTimeout bounds the end of the sessions of a client that is gone.
	endTimeout = 30 * time.Second
	// progressEvery is how often a client that asked for it hears of a running command.
	progressEvery = time.Second
)

// Config is what the tools need.
type Config struct {
	Service api.Service
	Logger  *slog.Logger
	// Patience bounds each call; DefaultPatience when zero.
	Patience time.Duration
	// Groups are the groups of tools to offer; all when empty.
	Groups []string
	// Shell is that of new sessions. When it is empty, PreferShell is taken where it exists
	// and the daemon has no default_shell of its own.
	Shell, PreferShell string
	// TextShell reads the command of a terminal when Shell is empty and the model names none.
	TextShell string
}

// The groups of tools.
const (
	GroupShell    = "shell"    // run, start, wait, output, input, cancel, list, destroy
	GroupTerminal = "terminal" // terminal_start, terminal_type, terminal_screen
	GroupDialogue = "dialogue" // dialogue_start and its like
)

// Groups are all of them.
var Groups = []string{GroupShell, GroupTerminal, GroupDialogue}

// common are the tools that terminals need as well as commands do.
var common = []string{"list", "destroy"}

// CheckGroups refuses a group of tools that does not exist.
func CheckGroups(groups []string) error {
	for _, g := range groups {
		if !slices.Contains(Groups, g) {
			return fmt.Errorf("there is no group of tools %q; the groups are %s", g, strings.Join(Groups, ", "))
		}
	}
	return nil
}

func (c Config) has(group string) bool { return len(c.Groups) == 0 || slices.Contains(c.Groups, group) }

// instructions tell a model how the tools go together.
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
Give "session" a name for a separate shell that outlives the connection. Long commands: "run" answers "still running" with an exec_id; go on with "wait". Use "start" for servers and other background work.`
	terminalInstructions = `
Programs that want a screen or keys (vim, top, python3, ssh, gdb): "terminal_start", then "terminal_type" with text and keys, which answers the screen.`
	dialogueInstructions = `
Other coding agents as helpers: "dialogue_start" with a task, then "dialogue_send", and "dialogue_respond" when they ask.`
)

// Handler serves clients over streamable HTTP. A client may leave groups of tools out with
// ?tools=shell,terminal. Their sessions end with ctx.
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

// conn is one client. Goroutines: one that waits for the end of the client's
// session, from its first call on; it ends with the client.
type conn struct {
	Config
	server *mcp.Server
	parent context.Context
	// arguments are the names of the arguments of each tool; not written once the server serves.
	arguments map[string][]string

	begin sync.Once
	// life is done when the client is gone. Set by the first call: a client that calls
	// nothing costs nothing.
	life   context.Context
	finish sync.Once

	// turn is held while the default session is looked for or made.
	turn sync.Mutex
	home string // guarded by turn; id of the default session

	mu   sync.Mutex
	seen map[position]int64 // guarded by mu; how far the model has read
	own  []string           // guarded by mu; sessions that nobody named
	// terminal is the one that was started last; guarded by mu.
	terminal string
	dialogue string           // guarded by mu; the one that was started last
	heard    map[string]int64 // guarded by mu; by dialogue: the last event that the model has heard of
	// ownDialogues are those that nobody named; guarded by mu.
	ownDialogues []string
	gone         bool // guarded by mu; no more of them are made
}

var errGone = api.Errorf(api.CodeCancelled, "the client has disconnected")

// position names one stream of one command.
type position struct{ exec, stream string }

func newConn(ctx context.Context, c Config) *conn {
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Logger != nil {
		c.Logger = slog.New(quiet{c.Logger.Handler()})
	}
	conn := &conn{Config: c, parent: ctx, seen: map[position]int64{}, heard: map[string]int64{}}
	conn.server = mcp.NewServer(&mcp.Implementation{Name: "trl", Title: "TRL", Version: version.Version}, &mcp.ServerOptions{
		Instructions: c.instructions(), Logger: c.Logger, Capabilities: &mcp.ServerCapabilities{},
	})
	conn.addTools()
	conn.server.AddReceivingMiddleware(conn.checkArguments)
	return conn
}

// quiet logs as details what the SDK tells as news, such as each client that comes or
// goes: clients show their users what a server writes to stderr.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	if level == slog.LevelInfo {
		level = slog.LevelDebug
	}
	return q.Handler.Enabled(ctx, level)
}

func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }
func (q quiet) WithGroup(name string) slog.Handler       { return quiet{q.Handler.WithGroup(name)} }

// request is the context of one call: it ends with the call, and tells the service
// how long the client lives.
func (c *conn) request(ctx context.Context, s *mcp.ServerSession) context.Context {
	c.begin.Do(func() {
		life, cancel := context.WithCancel(c.parent)
		c.life = life
		go func() {
			_ = s.Wait()
			cancel()
			c.end()
		}()
	})
	return api.WithConn(ctx, c.life)
}

// addTools adds the tools of the groups that are asked for.
func (c *conn) addTools() {
	c.addShellTools()
	if !c.has(GroupShell) {
		for name := range c.arguments {
			if !slices.Contains(common, name) || !c.has(GroupTerminal) {
				c.server.RemoveTools(name)
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

// fresh asks for a session of the shell that was named, or else of the one to take.
func (c *conn) fresh(shell string) api.SessionCreateParams {
	return api.SessionCreateParams{Shell: cmp.Or(shell, c.Shell), PreferShell: c.PreferShell, Tags: []string{"mcp"}}
}

// session finds the session a tool is to work in, and makes it when it is not there:
// the default one for the client's own time, a named one for good. fresh says that it
// was made now.
func (c *conn) session(ctx context.Context, name, shell string) (id string, fresh bool, err error) {
	if name != "" {
		info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: name})
		if err == nil && info.State != api.SessionTerminated {
			return info.SessionID, false, hasShell(info, shell)
		}
		if err != nil && api.AsError(err).Code != api.CodeSessionNotFound {
			return "", false, err
		}
		p := c.fresh(shell)
		p.Name = name
		made, err := c.Service.SessionCreate(ctx, p)
		return made.SessionID, true, err
	}
	c.turn.Lock()
	defer c.turn.Unlock()
	if c.home != "" {
		info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: c.home})
		if err == nil && info.State != api.SessionTerminated {
			return c.home, false, hasShell(info, shell)
		}
		// Another session in its place would have lost the directory and the variables.
		if err != nil && api.AsError(err).Code != api.CodeSessionNotFound {
			return "", false, err
		}
	}
	p := c.fresh(shell)
	p.Ephemeral = true
	c.home, err = c.create(ctx, p)
	return c.home, true, err
}

// hasShell refuses a shell that a session which is there already does not have.
func hasShell(info api.SessionDetails, shell string) error {
	if shell == "" || filepath.Base(shell) == filepath.Base(info.Shell) {
		return nil
	}
	return api.Errorf(api.CodeConflict, "session %q: has the shell %s, not %s; give session another name", cmp.Or(info.Name, info.SessionID), info.Shell, shell)
}

// spare makes a session for one background command, in the directory of the default one.
func (c *conn) spare(ctx context.Context, shell string) (id string, err error) {
	p := c.fresh(shell)
	p.WorkingDir, p.Ephemeral = c.homeDir(ctx), true
	return c.create(ctx, p)
}

// discard ends a session that was made for a command which could not be started.
func (c *conn) discard(ctx context.Context, id string) {
	c.mu.Lock()
	c.own = slices.DeleteFunc(c.own, func(own string) bool { return own == id })
	c.mu.Unlock()
	_, _ = c.Service.SessionDestroy(ctx, api.SessionDestroyParams{SessionID: id})
}

// homeDir is where the default session is; "" when there is none.
func (c *conn) homeDir(ctx context.Context) string {
	c.turn.Lock()
	home := c.home
	c.turn.Unlock()
	if home == "" {
		return ""
	}
	info, err := c.Service.SessionInfo(ctx, api.SessionInfoParams{SessionID: home})
	if err != nil {
		return ""
	}
	return info.WorkingDir
}

// create makes a session. One that is ephemeral ends with the client: we end it, and if
// we are killed before, the service sees that our connection is gone.
func (c *conn) create(ctx context.Context, p api.SessionCreateParams) (id string, err error) {
	made, err := c.Service.SessionCreate(ctx, p)
	if err != nil || !p.Ephemeral {
		return made.SessionID, err
	}
	c.mu.Lock()
	c.own = append(c.own, made.SessionID)
	gone := c.gone
	c.mu.Unlock()
	if gone {
		c.destroyOwn()
		return "", errGone
	}
	return made.SessionID, nil
}

// end ends what the client did not name. It returns when that is done.
func (c *conn) end() {
	c.finish.Do(func() {
		c.mu.Lock()
		c.gone = true
		c.mu.Unlock()
		c.destroyOwn()
	})
}

func (c *conn) destroyOwn() {
	c.mu.Lock()
	own, dialogues := c.own, c.ownDialogues
	c.own, c.ownDialogues = nil, nil
	c.mu.Unlock()
	// The client is gone and with it every context.
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
