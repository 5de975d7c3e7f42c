package api

import "time"

// DialogueInfo is a snapshot of one dialogue.
type DialogueInfo struct {
	DialogueID string         `json:"dialogue_id"`     // d-…; never reused
	Name       string         `json:"name"`            // empty if the dialogue has no name
	Agent      string         `json:"agent"`           // the agent's protocol: claude, codex or acp
	Version    string         `json:"version"`         // version of the agent's program, once known
	State      DialogueState  `json:"state"`           // current state
	Error      *DialogueFault `json:"error,omitempty"` // why the dialogue is in state error
	SessionID  string         `json:"session_id"`      // the session that the dialogue owns, or owned last
	// NativeSession is the agent's own id of the conversation. It may change.
	NativeSession  string   `json:"native_session"`
	Model          string   `json:"model"`              // as last reported by the agent
	PermissionMode string   `json:"permission_mode"`    // as last reported by the agent
	WorkingDir     string   `json:"working_dir"`        // the directory the agent works in
	Runtime        string   `json:"runtime"`            // the place, as in session.create, or remote
	Commands       []string `json:"commands,omitempty"` // commands that the agent accepts as messages, such as /compact, once reported
	Models         []string `json:"models,omitempty"`   // models that dialogue.set accepts, once the agent has reported them
	Modes          []string `json:"modes,omitempty"`    // permission modes that dialogue.set accepts, as far as known
	// Capabilities are the features that the agent supports: editable (an answer may replace the input
	// of a tool), remember (an answer may hold from now on), images, set_model, set_mode, unsend
	// (dialogue.unsend may take back a message that is queued).
	Capabilities []string `json:"capabilities"`
	// Title is the agent's title of the conversation, or the beginning of the first message.
	Title   string `json:"title,omitempty"`
	Preview string `json:"preview,omitempty"` // the beginning of the agent's last text
	// Policy answers requests without a client. Absent: there is none.
	Policy    *DialoguePolicyInfo `json:"policy,omitempty"`
	Remote    string              `json:"remote,omitempty"` // address of the daemon that runs the agent, for runtime remote
	Followers int                 `json:"followers"`        // number of clients that follow the events, without passive ones
	// Context is how full the model's context window is. Absent if the agent does not report it.
	Context  *DialogueContext `json:"context,omitempty"`
	Tags     []string         `json:"tags"`     // as set by dialogue.create
	Epoch    int              `json:"epoch"`    // number of processes that the agent has had, including the current one
	Seq      int64            `json:"seq"`      // number of the last event
	Turns    int              `json:"turns"`    // number of turns begun so far
	Requests int              `json:"requests"` // number of requests that wait for an answer
	Tasks    int              `json:"tasks"`    // number of tasks that are running
	// BackgroundTasks is the number of running tasks that go on while the agent is idle, such
	// as a command that it started. They end with the dialogue.
	BackgroundTasks int           `json:"background_tasks"`
	Usage           DialogueUsage `json:"usage"`         // over all turns, as the agent reported it
	CreatedAt       time.Time     `json:"created_at"`    // UTC
	LastActivity    time.Time     `json:"last_activity"` // time of the last event
	// StalledAt is when a working agent fell silent. Absent unless it has stalled.
	StalledAt *time.Time `json:"stalled_at,omitempty"`
	// LostAt is when the connection to the agent's daemon was lost, while TRL tries to
	// reconnect.
	LostAt *time.Time `json:"lost_at,omitempty"`
	// Ended reports how the agent's process ended. Absent while it runs.
	Ended *DialogueEnd `json:"ended,omitempty"`
}

// DialogueContext is how full the context window of the agent's model is.
type DialogueContext struct {
	Used   int64 `json:"used"`   // tokens of the conversation
	Window int64 `json:"window"` // tokens that fit; 0 if the agent does not report it
}

// DialogueFault says why a dialogue cannot continue.
type DialogueFault struct {
	Code   string `json:"code"`   // reconnect_failed or record_failed
	Reason string `json:"reason"` // session_gone, auth_rejected, unreachable, refused or disk
	// Retry reports whether dialogue.retry may succeed without other changes. After
	// auth_rejected it needs other credentials; after session_gone only dialogue.resume
	// helps. TRL repeats failed disk writes every second on its own.
	Retry   bool   `json:"retry"`
	Message string `json:"message"` // for people
}

// DialoguePolicyInfo is the policy of a dialogue, as dialogue.create or dialogue.set set it.
type DialoguePolicyInfo struct {
	Rules []DialogueRuleInfo `json:"rules"` // tried in this order
	// DenyAfterS denies a request that no rule matches when no client has followed the
	// dialogue for this many seconds. Absent: the request waits.
	DenyAfterS *float64 `json:"deny_after_s,omitempty"`
}

// DialogueRuleInfo is a rule of a policy.
type DialogueRuleInfo struct {
	Tool    string `json:"tool"`              // name of the tool; * matches any text
	Pattern string `json:"pattern,omitempty"` // must match the subject; empty: any subject
	Action  string `json:"action"`            // allow, deny or ask
	Message string `json:"message,omitempty"` // sent to the agent with a denial
}

// Info returns the policy as DialogueInfo has it.
func (p *DialoguePolicy) Info() *DialoguePolicyInfo {
	if p == nil {
		return nil
	}
	info := &DialoguePolicyInfo{Rules: []DialogueRuleInfo{}, DenyAfterS: p.DenyAfterS}
	for _, r := range p.Rules {
		info.Rules = append(info.Rules, DialogueRuleInfo(r))
	}
	return info
}
