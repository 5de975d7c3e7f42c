package daemon

import (
	"path/filepath"
	"strings"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/audit"
	"github.com/trl-dev/trl/internal/server"
)

// openAudit opens the audit log, unless it is off.
func (d *daemon) openAudit() (err error) {
	if d.config.Audit == "off" {
		return nil
	}
	d.audit, err = audit.Open(audit.Config{
		Dir: filepath.Join(d.state.Path(), "audit"), MaxBytes: d.config.AuditBytes, Content: d.config.AuditContent,
		Require: d.config.Audit == "require", Logger: d.log, Resolve: d.resolve,
	})
	return err
}

// closeAudit writes the last records.
func (d *daemon) closeAudit() {
	if d.audit == nil {
		return
	}
	if err := d.audit.Close(); err != nil {
		d.log.Warn("audit log not closed", "error", err)
	}
}

// audited returns a service whose calls are recorded. A call whose context has no caller is recorded
// with the given one.
func (d *daemon) audited(s api.Service, caller *api.Caller) api.Service {
	if d.audit == nil {
		return s
	}
	return d.audit.Wrap(s, caller)
}

// resolve returns the ids of a session and a dialogue that callers named.
func (d *daemon) resolve(sessionRef, dialogueRef string) (string, string) {
	if sessionRef != "" && !strings.HasPrefix(sessionRef, "s-") {
		if s, err := d.registry.Get(sessionRef); err == nil {
			sessionRef = s.ID()
		}
	}
	if dialogueRef != "" && !strings.HasPrefix(dialogueRef, "d-") {
		if t, err := d.talks.Get(dialogueRef); err == nil {
			dialogueRef = t.ID()
		}
	}
	return sessionRef, dialogueRef
}

// recordRefusals makes a server record logins, wrong tokens and refused calls.
func (d *daemon) recordRefusals(c server.Config) server.Config {
	if d.audit != nil {
		c.Audit = d.audit.Record
	}
	return c
}
