package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
)

//go:embed dist
var files embed.FS

// Files returns the built files by their names, which have no directories.
func Files() map[string][]byte {
	list, err := fs.ReadDir(files, "dist")
	if err != nil {
		panic(err) // the directory is embedded
	}
	all := make(map[string][]byte, len(list))
	for _, f := range list {
		text, err := files.ReadFile("dist/" + f.Name())
		if err != nil {
			panic(err)
		}
		all[f.Name()] = text
	}
	return all
}

// Digest identifies a set of files. Every name and every byte counts.
func Digest(all map[string][]byte) string {
	h := sha256.New()
	list, _ := fs.ReadDir(files, "dist") // sorted
	for _, f := range list {
		sum := sha256.Sum256(all[f.Name()])
		h.Write([]byte(f.Name() + "\x00"))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}
