package api

import (
	"path"
	"slices"
	"strings"
)

// The words of Isolation.Files.
const (
	FilesAll       = "all"       // every file that the user may use
	FilesWorkspace = "workspace" // the working directory is writable, the system readable, the rest hidden
	FilesReadOnly  = "read-only" // as workspace, but the working directory is only readable
)

// The words of Isolation.Network.
const (
	NetworkAll   = "all"   // the network of the place
	NetworkNone  = "none"  // no network
	NetworkAllow = "allow" // only the addresses of Isolation.Allow, through a proxy
)

// The words of Isolation.Processes.
const (
	ProcessesAll = "all" // every process of the user
	ProcessesOwn = "own" // only the processes of the session
)

// The profiles that need no configuration.
const (
	ProfileWorkspace = "workspace"
	ProfileReadOnly  = "read-only"
)

// Isolation says what the processes of a session may touch. An absent field has the value of the
// profile, or else all. The isolation cannot change while the session lives.
type Isolation struct {
	// Profile is a table [isolation.NAME] of the configuration, or one of workspace and
	// read-only, which are built in. The other fields override those of the profile; lists are joined.
	Profile string `json:"profile,omitempty"`
	// Files is all, workspace or read-only. With workspace, the working directory, the paths of
	// writable and a private /tmp are writable, the directories of the system are readable, and
	// everything else is hidden, including the rest of the home directory and the files of the daemon.
	// With read-only, only /tmp and the paths of writable are writable.
	Files string `json:"files,omitempty"`
	// Network is all, none or allow. With allow, a proxy passes on connections to the addresses
	// of allow, and nothing else leaves the session.
	Network string `json:"network,omitempty"`
	// Allow are the destinations that the session may connect to with network allow: a name, an address
	// or a block of addresses, with a port, a range of ports or * for every port, such as
	// github.com:443, 127.0.0.1:3000, [::1]:8000-8010 or 10.1.0.0/16:*. *.example.org stands for every name
	// below it, * for every public destination. An entry without a port means the ports 80 and 443. Addresses
	// that are not public must be listed themselves, even if a listed name resolves to them; 127.0.0.1
	// is the loopback of the place, outside of the session.
	Allow []string `json:"allow,omitempty"`
	// Processes is all or own. With own, the processes of the session can neither signal nor
	// trace others, nor read their memory, their environment and their open files.
	Processes string `json:"processes,omitempty"`
	// Writable, Readable, Hidden and ReadOnly are paths for files workspace or read-only: absolute, or below
	// the home directory with ~/. Paths of writable and readable that do not exist are left out.
	Writable []string `json:"writable,omitempty"`
	Readable []string `json:"readable,omitempty"`  // further paths that can be read and executed
	Hidden   []string `json:"hidden,omitempty"`    // paths inside readable or writable ones that cannot be read
	ReadOnly []string `json:"read_only,omitempty"` // paths inside writable ones that cannot be written
}

// The aspects of isolation, as session.info reports them.
const (
	AspectFiles       = "files"          // what can be read and written
	AspectPaths       = "paths"          // single paths inside those: hidden, read_only
	AspectReplaced    = "replaced_paths" // hidden and read_only paths that a program outside replaces
	AspectAttributes  = "attributes"     // names and attributes of files outside, as chmod changes them
	AspectTmp         = "tmp"            // a private /tmp
	AspectSockets     = "sockets"        // unix sockets of programs outside
	AspectNetwork     = "network"        // connections
	AspectProcesses   = "processes"      // tracing, memory, environment and files of processes outside
	AspectSignals     = "signals"        // signals to processes outside
	AspectProcessList = "process_list"   // names and arguments of processes outside
	AspectPrivileges  = "privileges"     // setuid programs, capabilities, dangerous system calls
)

// EnforcedAspect is an aspect of isolation that is in force.
type EnforcedAspect struct {
	Aspect string `json:"aspect"` // files, paths, attributes, tmp, sockets, network, processes, signals, process_list or privileges
	// Mechanisms enforce the aspect together: landlock, mount-namespace, network-namespace, proc,
	// seccomp, no-new-privs, capabilities, sandbox-exec or proxy.
	Mechanisms []string `json:"mechanisms"`
}

// UnenforcedAspect is an aspect of isolation that is not in force.
type UnenforcedAspect struct {
	Aspect string `json:"aspect"` // such as signals
	Reason string `json:"reason"` // why not, and how to get it
}

// IsolationReport says which aspects of isolation are in force.
type IsolationReport struct {
	Enforced    []EnforcedAspect   `json:"enforced"`     // aspects that are in force
	NotEnforced []UnenforcedAspect `json:"not_enforced"` // aspects that the place cannot enforce
}

// SessionIsolation is the isolation of a session, with its profile applied, and which parts
// of it are in force.
type SessionIsolation struct {
	Profile   string   `json:"profile,omitempty"`   // the profile that the creator named
	Files     string   `json:"files"`               // all, workspace or read-only
	Network   string   `json:"network"`             // all, none or allow
	Processes string   `json:"processes"`           // all or own
	Allow     []string `json:"allow,omitempty"`     // destinations that the session may connect to
	Writable  []string `json:"writable,omitempty"`  // paths that can be written, beside the working directory
	Readable  []string `json:"readable,omitempty"`  // paths that can be read, beside the system
	Hidden    []string `json:"hidden,omitempty"`    // paths inside readable or writable ones that cannot be read
	ReadOnly  []string `json:"read_only,omitempty"` // paths inside writable ones that cannot be written
	// Connections counts what the proxy decided, for network allow.
	Connections *NetworkCounts `json:"connections,omitempty"`
	IsolationReport
}

// Report returns the isolation, with the parts of it that are in force.
func (i Isolation) Report(report IsolationReport) *SessionIsolation {
	all := Isolation{Files: FilesAll, Network: NetworkAll, Processes: ProcessesAll}.Over(i)
	return &SessionIsolation{
		Profile: all.Profile, Files: all.Files, Network: all.Network, Processes: all.Processes, Allow: all.Allow,
		Writable: all.Writable, Readable: all.Readable, Hidden: all.Hidden, ReadOnly: all.ReadOnly, IsolationReport: report,
	}
}

// BuiltinIsolation returns the profiles that need no configuration.
func BuiltinIsolation() map[string]Isolation {
	return map[string]Isolation{
		ProfileWorkspace: {Files: FilesWorkspace, Processes: ProcessesOwn},
		ProfileReadOnly:  {Files: FilesReadOnly, Processes: ProcessesOwn},
	}
}

// IsZero reports whether nothing is isolated.
func (i *Isolation) IsZero() bool {
	return i == nil || (i.Files == "" || i.Files == FilesAll) && (i.Network == "" || i.Network == NetworkAll) && (i.Processes == "" || i.Processes == ProcessesAll)
}

// Over returns i with the fields of changes in place of its own; lists are joined.
func (i Isolation) Over(changes Isolation) Isolation {
	for _, f := range []struct {
		to   *string
		from string
	}{{&i.Profile, changes.Profile}, {&i.Files, changes.Files}, {&i.Network, changes.Network}, {&i.Processes, changes.Processes}} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	i.Allow = joined(i.Allow, changes.Allow)
	i.Writable, i.Readable = joined(i.Writable, changes.Writable), joined(i.Readable, changes.Readable)
	i.Hidden, i.ReadOnly = joined(i.Hidden, changes.Hidden), joined(i.ReadOnly, changes.ReadOnly)
	return i
}

// joined returns both lists in one, with each entry once.
func joined(list, more []string) []string {
	list = slices.Clone(list)
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}

// Check reports the first invalid field. The error names it below the given field.
func (i *Isolation) Check(field string) error {
	if i == nil {
		return nil
	}
	for _, w := range []struct{ name, value, words string }{
		{"files", i.Files, "all, workspace, read-only"}, {"network", i.Network, "all, none, allow"}, {"processes", i.Processes, "all, own"},
	} {
		if w.value != "" && !slices.Contains(strings.Split(w.words, ", "), w.value) {
			return InvalidParam(field+"."+w.name, "%.40q is not one of %s", w.value, w.words)
		}
	}
	for _, l := range []struct {
		name  string
		paths []string
	}{{"writable", i.Writable}, {"readable", i.Readable}, {"hidden", i.Hidden}, {"read_only", i.ReadOnly}} {
		if len(l.paths) > maxIsolationEntries {
			return InvalidParam(field+"."+l.name, "at most %d entries", maxIsolationEntries)
		}
		for _, p := range l.paths {
			if !path.IsAbs(p) && p != "~" && !strings.HasPrefix(p, "~/") {
				return InvalidParam(field+"."+l.name, "%.200q: must be an absolute path, or begin with ~/", p)
			}
			if err := noNUL(field+"."+l.name, p); err != nil {
				return err
			}
		}
	}
	if len(i.Allow) > maxIsolationEntries {
		return InvalidParam(field+".allow", "at most %d entries", maxIsolationEntries)
	}
	for _, a := range i.Allow { // the runner, which has the rules, checks the rest
		if a == "" || len(a) > 300 || strings.ContainsAny(a, " \t\r\n\x00") {
			return InvalidParam(field+".allow", "%.200q: must be a host with a port, such as github.com:443, *.example.org or 127.0.0.1:3000", a)
		}
	}
	return nil
}

const maxIsolationEntries = 256

// checkComplete reports fields that have no effect together, once the profile is applied.
func (i Isolation) checkComplete() error {
	const field = "isolation"
	limited := i.Files == FilesWorkspace || i.Files == FilesReadOnly
	for _, l := range []struct {
		name  string
		paths []string
	}{{"writable", i.Writable}, {"readable", i.Readable}, {"hidden", i.Hidden}, {"read_only", i.ReadOnly}} {
		if len(l.paths) > 0 && !limited {
			return InvalidParam(field+"."+l.name, "needs files workspace or read-only")
		}
	}
	if i.Network != NetworkAllow && len(i.Allow) > 0 {
		return InvalidParam(field+".allow", "needs network allow")
	}
	return nil
}

// Apply returns the isolation with its profile applied. Profiles are those of the configuration.
func (i Isolation) Apply(profiles map[string]Isolation) (Isolation, error) {
	all := i
	if i.Profile != "" {
		p, ok := profiles[i.Profile]
		if !ok {
			p, ok = BuiltinIsolation()[i.Profile]
		}
		if !ok {
			return i, InvalidParam("isolation.profile", "there is no profile %.64q; workspace and read-only are built in; define others as [isolation.NAME] in the configuration", i.Profile)
		}
		all = p.Over(i)
	}
	return all, all.checkComplete()
}

// NetworkDecision is what the proxy of a session decided about a destination that a program named.
type NetworkDecision struct {
	Host   string `json:"host"`             // the name or the address; empty if the event stands for several destinations
	Port   int    `json:"port"`             // the port; 0 if the event stands for several destinations
	Rule   string `json:"rule,omitempty"`   // the entry of isolation.allow that lists the destination
	Reason string `json:"reason,omitempty"` // why the destination was refused, or could not be reached
	Count  int64  `json:"count"`            // how many such decisions the event stands for
}

// NetworkCounts counts the decisions of the proxy of a session.
type NetworkCounts struct {
	Allowed int64 `json:"allowed"` // connections to listed destinations
	Refused int64 `json:"refused"` // connections that were refused
}
