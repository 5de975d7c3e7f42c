package main

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
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

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
}

func (r *release) bom(p platform) ([]byte, error) {
	modules := map[string]component{}
	add := func(m *debug.Module) {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		modules[purl] = component{"library", purl, m.Path, m.Version, purl}
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
	self := "pkg:golang/github.com/trl-dev/trl@" + r.version
	components, refs := []component{}, []string{}
	for _, c := range modules {
		components = append(components, c)
		refs = append(refs, c.Ref)
	}
	slices.SortFunc(components, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	slices.Sort(refs)
	// A random number would make every build different.
	id := sha256.Sum256([]byte(self + p.String() + strings.Join(refs, " ")))
	id[6], id[8] = id[6]&0x0f|0x80, id[8]&0x3f|0x80
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"serialNumber": fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:16]),
		"metadata": map[string]any{
			"timestamp": r.time.Format("2006-01-02T15:04:05Z"),
			"component": component{"application", self, "trl", r.version, self},
		},
		"components":   components,
		"dependencies": []map[string]any{{"ref": self, "dependsOn": refs}},
	}, "", "  ")
}
