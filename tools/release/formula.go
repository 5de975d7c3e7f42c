package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// formula writes the Homebrew formula, which installs the archives.
func (r *release) formula() error {
	template, err := os.ReadFile(filepath.Join(r.root, "dist", "homebrew", "trl.rb"))
	if err != nil {
		return err
	}
	replace := []string{"@VERSION@", r.version}
	for _, p := range platforms {
		sum := strings.Repeat("0", 64)
		if r.programs[p].trl != "" {
			data, err := os.ReadFile(filepath.Join(r.out, r.name(p)+".tar.gz"))
			if err != nil {
				return err
			}
			sum = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		replace = append(replace, "@SHA256_"+p.os+"_"+p.arch+"@", sum)
	}
	return r.write("trl.rb", []byte(strings.NewReplacer(replace...).Replace(string(template))), 0o644)
}
