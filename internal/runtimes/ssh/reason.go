package ssh

import (
	"strconv"
	"strings"

	"github.com/trl-dev/trl/api"
)

// reasons are the ways in which ssh refuses or loses a connection: a part of the message of ssh, in
// the order in which they are looked for; the reason in the details of the error; and the next step.
// %s is the destination.
var reasons = []struct{ says, reason, advice string }{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", "host_key_changed",
		"the machine's host key differs from the one in known_hosts; if the machine was reinstalled, remove the old key with ssh-keygen -R and connect once with: ssh %s"},
	{"Host key verification failed", "host_key_unknown",
		"the host key is not in known_hosts and TRL does not accept it for you; compare and accept it once with: ssh %s"},
	{"Too many authentication failures", "auth",
		"name the key with the option identity, so that ssh does not try every key of the agent"},
	{"Permission denied (", "auth",
		"TRL asks for no password; make sure that this works: ssh -o BatchMode=yes %s true"},
	{"Bad configuration option", "config", "correct ssh_options or ssh_config"},
	{"Bad owner or permissions", "config", "ssh does not read a configuration that others can change; correct the permissions of the file"},
	{"keyword", "config", "correct ssh_options or ssh_config"},
	{"command-line", "config", "correct ssh_options"},
	{"Could not resolve hostname", "resolve", "check the name, or add it to ssh_config"},
	{"Name or service not known", "resolve", "check the name, or add it to ssh_config"},
	{"Connection refused", "refused", "check the port, and that sshd runs there"},
	{"No route to host", "network", "check the network and that the machine is on"},
	{"Network is unreachable", "network", "check the network"},
	{"timed out", "timeout", "check the network, the address, and that the machine is on"},
	{"not responding", "timeout", "check the network and that the machine is on"},
	{"Connection closed by", "closed", "the server ended the connection; its log says why"},
	{"Connection reset by", "closed", "the server or a machine on the way ended the connection; the log of the server may say why"},
	{"UNKNOWN port", "closed", "the connection through the jump host or ProxyCommand failed; make sure that this works: ssh -o BatchMode=yes %s true"},
}

// unavailable makes the error of a connection that ssh could not open or has lost; said is the stderr of ssh.
func unavailable(destination, what, said string) *api.Error {
	e := api.Errorf(api.CodeRuntimeUnavailable, "ssh %s: %s", destination, what)
	e.Details = map[string]any{"destination": destination}
	quote := lastLines(said)
	if quote != "" {
		e.Message += ": " + quote
	}
	for _, r := range reasons {
		if strings.Contains(said, r.says) {
			_ = e.Because(r.reason)
			advice := r.advice
			if r.reason == "resolve" && endsWithPort(destination) {
				advice = "write the port as in ssh://USER@HOST:PORT"
			}
			e.Message += "; " + strings.ReplaceAll(advice, "%s", destination)
			return e
		}
	}
	if quote == "" {
		e.Message += "; make sure that this works: ssh -o BatchMode=yes " + destination + " true"
	}
	return e
}

// endsWithPort reports whether a destination is HOST:PORT, which ssh takes for the name of a host.
func endsWithPort(destination string) bool {
	host, port, found := strings.Cut(destination, ":")
	_, err := strconv.ParseUint(port, 10, 16)
	return found && host != "" && err == nil
}

// lastLines returns the last lines of what ssh wrote that say something, in one line: without the
// frames of warnings, and at most three of them.
func lastLines(said string) string {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(strings.ToValidUTF8(strings.Map(printable, line), "?"))
		if strings.Trim(line, "@ ") != "" && line != "" {
			lines = append(lines, strings.Trim(line, "@ "))
		}
	}
	for i, line := range lines {
		if strings.Contains(line, "REMOTE HOST IDENTIFICATION HAS CHANGED") {
			lines = append(lines[i:i+1], lines[len(lines)-1]) // the lines between are advice for a person
			break
		}
	}
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	text := strings.Join(lines, "; ")
	if len(text) > 500 {
		text = "..." + strings.ToValidUTF8(text[len(text)-500:], "")
	}
	return strings.TrimRight(text, ".")
}

// printable keeps escape sequences of the other machine away from the terminals of readers.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
		return ' '
	}
	return r
}
