package link

import "github.com/trl-dev/trl/api"

// The messages of trl-runner in a place to the daemon, beside the link: one JSON object on a line
// of its stdout, or an exit status.

// VerbServe is the argument of a runner whose daemon does not know the place: the runner begins
// sessions with its own environment.
const VerbServe = "serve"

// Report is what `trl-runner start` and `trl-runner init` print about a runner.
type Report struct {
	// Dir is the private directory of the session, with the socket of the runner.
	Dir   string `json:"dir"`
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // when the process started, in the units of the place
}

// Removed is what `trl-runner remove` prints.
type Removed struct {
	// Cause says how the runner ended, if its log says it.
	Cause string `json:"cause,omitempty"`
	// NoRoom says that the runner ended because the system refused it a thread.
	NoRoom bool                `json:"no_room,omitempty"`
	Killed []api.KilledProcess `json:"killed"`
}

// Surroundings is what `trl-runner check` prints.
type Surroundings struct {
	Version  string `json:"version"`
	Protocol int    `json:"protocol"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	// Enforced lists what sessions have there, such as "cgroup.kill".
	Enforced []string `json:"enforced"`
}

// The exit statuses of trl-runner in a place, beside 0, 1 and 2 for wrong arguments.
const (
	// StatusGone says that the runner has exited. The last line of stderr says how.
	StatusGone = 3
	// StatusHidden says that the runner lives, but cannot be reached.
	StatusHidden = 4
)

// Preamble returns what `trl-runner connect` prints before the first byte of the link. The login
// shell of a machine may print something before it, but cannot know the nonce.
func Preamble(nonce string) string { return "\x00trl-link " + nonce + "\n" }
