package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers itself
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers itself
)

// reload tells systemd about changed units, where it runs. It does not touch daemons: `trl upgrade`
// replaces a running one, and its sessions stay.
const reload = `#!/bin/sh
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi
`

// debianNames are the places that Debian's policy and its zsh want.
var debianNames = strings.NewReplacer("share/doc/trl/LICENSE", "share/doc/trl/copyright", "zsh/site-functions", "zsh/vendor-completions")

// packages makes the packages for Debian and Red Hat.
func (r *release) packages() error {
	script := filepath.Join(r.work, "reload.sh")
	if err := os.WriteFile(script, []byte(reload), 0o700); err != nil {
		return err
	}
	for _, p := range r.built() {
		if p.os != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.makePackage(p, format, script); err != nil {
				return fmt.Errorf("%s for %s: %w", format, p, err)
			}
		}
	}
	return nil
}

func (r *release) makePackage(p platform, format, script string) error {
	units, err := r.units("/usr/bin/trl", "/usr/bin/trl")
	if err != nil {
		return err
	}
	stage := filepath.Join(r.work, "package-"+format+"-"+p.String())
	var contents files.Contents
	add := func(name, source string, mode os.FileMode) {
		contents = append(contents, &files.Content{
			Source: source, Destination: "/usr/" + name,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time},
		})
	}
	add("bin/trl", r.programs[p].trl, 0o755)
	for _, f := range append(units, r.extras...) {
		name, data := f.name, f.data
		switch {
		case strings.HasPrefix(name, "user/"), strings.HasPrefix(name, "system/"):
			name = "lib/systemd/" + name
		case strings.HasPrefix(name, "share/man/"):
			name += ".gz"
			if data, err = gzipped(data); err != nil {
				return err
			}
		case format == "deb":
			name = debianNames.Replace(name)
		}
		source := filepath.Join(stage, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(source), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(source, data, 0o644); err != nil {
			return err
		}
		add(name, source, f.mode)
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "trl", Arch: p.arch, Platform: "linux", Version: r.version, Section: "utils", Priority: "optional",
		Maintainer: "The TRL authors <trl-dev@users.noreply.github.com>", Homepage: "https://github.com/trl-dev/trl", License: "MIT",
		Description: "Terminal runtime layer: runs commands for programs and AI agents\nSessions with persistent shells, terminals and dialogues with coding agents,\nand exact reports of what happened.",
		MTime:       r.time, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts:  nfpm.Scripts{PostInstall: script, PostRemove: script},
			Deb:      nfpm.Deb{Compression: "gzip"}, RPM: nfpm.RPM{Compression: fmt.Sprintf("gzip:%d", level), BuildHost: "trl"},
		},
	})
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, r.name(p)+"."+format))
	if err != nil {
		return err
	}
	defer out.Close()
	if err := packager.Package(info, out); err != nil {
		return err
	}
	return out.Close()
}
