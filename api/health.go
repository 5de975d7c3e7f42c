package api

// SystemSettingsParams has no fields.
type SystemSettingsParams struct{}

// SystemSettingsResult has the settings that the daemon runs with.
type SystemSettingsResult struct {
	// File is the path from which the daemon reads its settings, even if no file is there.
	File     string    `json:"file"`
	Settings []Setting `json:"settings"` // in the order of the documentation
	// Notes are probable mistakes, such as a variable whose name is nearly that of a setting.
	Notes []string `json:"notes"`
}

// Setting is one setting of the daemon. A value that may hold a secret is cut: of on_request_url and
// trace_endpoint the host stays, of on_request_command the program, and of ssh_options nothing.
type Setting struct {
	Key     string `json:"key"`     // such as max_sessions
	Value   string `json:"value"`   // as text
	Origin  string `json:"origin"`  // default, file PATH, env NAME or flag --name
	Default string `json:"default"` // as text; empty for an option of a place
	Doc     string `json:"doc"`     // meaning of the setting
}

// SystemDoctorParams has no fields.
type SystemDoctorParams struct{}

// SystemDoctorResult has what the daemon found when it checked itself and its machine.
type SystemDoctorResult struct {
	Findings []DoctorFinding `json:"findings"` // those of a section follow each other
}

// The verdicts of the doctor.
const (
	VerdictOK   = "ok"
	VerdictNote = "note" // works, but not as well as possible
	VerdictBad  = "bad"  // does not work
)

// DoctorFinding is the result of one check.
type DoctorFinding struct {
	Section string `json:"section"` // such as Shells
	Name    string `json:"name"`    // what was checked
	Verdict string `json:"verdict"` // ok, note or bad
	Detail  string `json:"detail"`  // for people
}

// EventLog is the type of a push of system.log.
const EventLog = "log"

// DefaultLogLimit and MaxLogRecords bound the earlier records of system.log. The daemon keeps the last
// MaxLogRecords.
const (
	DefaultLogLimit = 200
	MaxLogRecords   = 1000
)

// LogLevels are the levels of the daemon's log, from the least to the most important.
var LogLevels = []string{"debug", "info", "warn", "error"}

// SystemLogParams asks for the daemon's log. The daemon keeps its last 1000 records in memory, so a
// restart and an upgrade begin anew.
type SystemLogParams struct {
	// Level omits the records below this level: debug, info, warn or error. Absent: none are omitted.
	// The setting log_level decides which records there are.
	Level string `json:"level,omitempty"`
	// Limit is the most earlier records to begin with, if there is no AfterSeq. Absent: 200; at most 1000.
	Limit *int `json:"limit,omitempty"`
	// AfterSeq is the number of the last record that the reader has. The stream then begins with all
	// kept records after it.
	AfterSeq int64 `json:"after_seq,omitempty"`
	// NoFollow ends the stream after the earlier records.
	NoFollow bool `json:"no_follow,omitempty"`
}

// Check reports the first invalid parameter.
func (p SystemLogParams) Check() error {
	switch {
	case p.Level != "" && !contains(LogLevels, p.Level):
		return InvalidParam("level", "%.40q is not one of debug, info, warn, error", p.Level)
	case p.Limit != nil && (*p.Limit < 0 || *p.Limit > MaxLogRecords):
		return InvalidParam("limit", "must be 0 to 1000")
	case p.AfterSeq < 0:
		return InvalidParam("after_seq", "must not be negative")
	}
	return nil
}

// LogRecord is a record of the daemon's log. Long texts are cut, and values of fields that may hold a
// secret are omitted.
type LogRecord struct {
	Level  string     `json:"level"`  // debug, info, warn or error
	Text   string     `json:"text"`   // what happened
	Fields []LogField `json:"fields"` // in the order of the log
}

// LogField is a detail of a record.
type LogField struct {
	Name  string `json:"name"`  // such as session_id
	Value string `json:"value"` // as text
}
