package daemon

import (
	"cmp"
	"path/filepath"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/dialogue"
	"github.com/trl-dev/trl/internal/hook"
)

func (d *daemon) newDialogues() *dialogue.Registry {
	c := d.config
	return dialogue.New(dialogue.Config{
		Sessions:       d.registry,
		Journal:        d.registry.Journal(),
		Logger:         d.log,
		Dir:            filepath.Join(d.state.Path(), "dialogues"),
		DefaultRuntime: c.DefaultRuntime,
		StartTimeout:   config.Seconds(c.DialogueStartTimeoutS),
		Grace:          config.Seconds(c.KillGraceS),
		Stall:          config.Seconds(c.DialogueStallS),
		Reconnect:      config.Seconds(c.DialogueReconnectS),
		LineBytes:      c.DialogueLineBytes,
		TotalBytes:     c.DialoguesTotalBytes,
		OnRequest:      d.reportTo(),
		OnRequestAfter: config.Seconds(c.OnRequestAfterS),
	})
}

// openHook starts the reports of requests that no client sees, if the configuration asks for them.
func (d *daemon) openHook() (err error) {
	c := hook.Config{
		Command: d.config.OnRequestCommand, URL: d.config.OnRequestURL, Start: d.reaper.Start, Logger: d.log,
		Waits: func(r api.RequestReport) bool { return d.talks.Waits(r) },
	}
	if c.Command == "" && c.URL == "" {
		return nil
	}
	if c.URL != "" {
		if c.Key, err = hook.LoadKey(cmp.Or(d.config.OnRequestKeyFile, filepath.Join(d.state.Path(), "on_request_key"))); err != nil {
			return err
		}
	}
	d.hook = hook.New(c)
	return nil
}

// closeHook ends the reports.
func (d *daemon) closeHook() {
	if d.hook != nil {
		d.hook.Close()
	}
}

// reportTo returns what dialogues report requests to; nil if nothing is configured.
func (d *daemon) reportTo() func(api.RequestReport) {
	if d.hook == nil {
		return nil
	}
	return d.hook.Report
}
