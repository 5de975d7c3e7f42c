package api

import "time"

// RequestReport is what the daemon reports of a request that waits for an answer while no client
// looks: to the command on_request_command on its stdin, and to on_request_url.
type RequestReport struct {
	// Type is dialogue.request_opened.
	Type string `json:"type"`
	// ID is the same for every report of this request, also after a restart of the daemon.
	ID         string    `json:"id"`
	DialogueID string    `json:"dialogue_id"`       // the dialogue
	Name       string    `json:"name,omitempty"`    // its name
	Agent      string    `json:"agent"`             // the agent
	RequestID  string    `json:"request_id"`        // for dialogue.respond
	Kind       string    `json:"kind"`              // as in DialogueRequest
	Tool       string    `json:"tool,omitempty"`    // the tool that the agent wants to use
	Subject    string    `json:"subject,omitempty"` // its command, path or address; cut after 1024 bytes
	Title      string    `json:"title,omitempty"`   // for people; cut after 1024 bytes
	OpenedAt   time.Time `json:"opened_at"`         // when the agent asked
}
