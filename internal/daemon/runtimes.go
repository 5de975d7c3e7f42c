package daemon

import (
	"os"
	"path/filepath"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/config"
	"github.com/trl-dev/trl/internal/runtimes"
	"github.com/trl-dev/trl/internal/runtimes/docker"
	"github.com/trl-dev/trl/internal/runtimes/kubernetes"
	"github.com/trl-dev/trl/internal/runtimes/remote"
	"github.com/trl-dev/trl/internal/runtimes/runners"
	"github.com/trl-dev/trl/internal/runtimes/ssh"
	"github.com/trl-dev/trl/internal/runtimes/trl"
	"github.com/trl-dev/trl/internal/session"
)

// openRuntimes makes the runtimes and the table of places. It contacts no engine and no machine.
func (d *daemon) openRuntimes() error {
	d.places = newPlaces(d.config)
	d.runtimes = []session.Runtime{d.runtime}
	id, err := d.state.ID()
	if err != nil {
		return err
	}
	d.id = id
	// Several daemons may share the runtime directory, but not their state.
	private := func(name string) string { return filepath.Join(d.config.RuntimeDir, name+"-"+id[:9]) }
	for _, driver := range []remote.Driver{
		docker.New(docker.Config{Spawn: d.runtime.Spawn, Forget: d.runtime.Forget}),
		ssh.New(ssh.Config{Dir: private("ssh"), Spawn: d.runtime.Spawn, Forget: d.runtime.Forget, Environ: os.Environ(), Logger: d.log}),
		kubernetes.New(kubernetes.Config{
			Program: func() (string, error) {
				if err := config.MakePrivate(private("kube")); err != nil {
					return "", err
				}
				return runners.UnpackKube(filepath.Join(d.state.Path(), "runners"))
			},
			Spawn: d.runtime.Spawn, Forget: d.runtime.Forget, Dir: private("kube"), Environ: os.Environ(),
		}),
		trl.New(trl.Config{DaemonID: id}),
	} {
		rt, err := remote.New(remote.Config{Driver: driver, State: d.state, Logger: d.log})
		if err != nil {
			driver.Close()
			return err
		}
		d.remotes = append(d.remotes, rt)
		d.runtimes = append(d.runtimes, rt)
	}
	return nil
}

// closeRuntimes closes the connections of the runtimes for other places. The sessions there stay.
func (d *daemon) closeRuntimes() {
	for _, rt := range d.remotes {
		rt.Close()
	}
	d.remotes = nil
}

func newPlaces(c config.Config) *runtimes.Table {
	table := runtimes.Config{Named: map[string]runtimes.Named{}, Default: c.DefaultRuntime, Adhoc: c.AdhocPlaces}
	for name, r := range c.Runtimes {
		table.Named[name] = runtimes.Named(r)
	}
	for _, kind := range config.Words(c.RuntimeKinds) {
		table.Kinds = append(table.Kinds, api.PlaceKind(kind))
	}
	return runtimes.New(table)
}
