package main

import (
	"bytes"
	"debug/buildinfo"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// boms writes for each platform what trl is made of, in the format of CycloneDX, from what the Go
// linker wrote into the programs.
func (r *release) boms() error {
	for _, p := range r.built() {
		text, err := r.bom(p)
		if err != nil {
			return err
		}
		if err := r.write(r.name(p)+".cdx.json", text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) bom(p platform) ([]byte, error) {
	modules := map[string]cdx.Component{}
	add := func(m *debug.Module) {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(cdx.ComponentTypeLibrary, m.Path, m.Version)
		modules[c.BOMRef] = c
	}
	for _, path := range []string{r.programs[p].trl, r.programs[p].runner, r.programs[p].kube} {
		if path == "" {
			continue
		}
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, err
		}
		for _, m := range info.Deps {
			add(m)
		}
		add(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})
	}
	self := component(cdx.ComponentTypeApplication, "github.com/trl-dev/trl", r.version)
	refs := slices.Sorted(maps.Keys(modules))
	var components []cdx.Component
	for _, ref := range refs {
		components = append(components, modules[ref])
	}
	bom := cdx.NewBOM()
	// A random number would make every build different.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(self.BOMRef+p.String()+strings.Join(refs, " "))).URN()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &self}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var text bytes.Buffer
	err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_5)
	return text.Bytes(), err
}

func component(kind cdx.ComponentType, path, version string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	return cdx.Component{Type: kind, BOMRef: purl, Name: path, Version: version, PackageURL: purl}
}
