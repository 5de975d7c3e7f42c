package main

import (
	"archive/tar"
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// archives makes a tar.gz for each platform: a directory bin with the program and a directory share,
// as they go below a prefix such as /usr/local.
func (r *release) archives() error {
	for _, p := range r.built() {
		program, err := os.ReadFile(r.programs[p].trl)
		if err != nil {
			return err
		}
		files := append([]file{{"bin/trl", program, 0o755}}, r.extras...)
		if p.os == "linux" {
			units, err := r.units("%h/.local/bin/trl", "/usr/local/bin/trl")
			if err != nil {
				return err
			}
			for _, u := range units {
				files = append(files, file{"share/trl/systemd/" + u.name, u.data, u.mode})
			}
		}
		top := r.name(p)
		for i := range files {
			files[i].name = top + "/" + files[i].name
		}
		packed, err := r.tarball(files)
		if err != nil {
			return err
		}
		if packed, err = gzipped(packed); err != nil {
			return err
		}
		if err := r.write(top+".tar.gz", packed, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// name is what the files for a platform are called, without their ending.
func (r *release) name(p platform) string {
	return "trl_" + r.version + "_" + p.os + "_" + p.arch
}

// units returns the systemd units, in the directories user and system, with the paths of the
// program for each.
func (r *release) units(user, system string) ([]file, error) {
	paths, err := filepath.Glob(filepath.Join(r.root, "dist", "systemd", "*", "*"))
	if err != nil {
		return nil, err
	}
	var list []file
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		text := strings.NewReplacer("%h/.local/bin/trl", user, "/usr/local/bin/trl", system).Replace(string(data))
		list = append(list, file{filepath.Base(filepath.Dir(p)) + "/" + filepath.Base(p), []byte(text), 0o644})
	}
	return list, nil
}

// tarball makes an archive in which everything belongs to root and has the time of the commit. It
// adds the directories of the files.
func (r *release) tarball(files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	seen := map[string]bool{".": true, "/": true}
	header := func(name string, kind byte, mode os.FileMode, size int) error {
		return w.WriteHeader(&tar.Header{
			Typeflag: kind, Name: name, Mode: int64(mode.Perm()) | sticky(mode), Size: int64(size),
			ModTime: r.time.Truncate(time.Second), Uname: "root", Gname: "root", Format: tar.FormatPAX,
		})
	}
	var parents func(dir string) error
	parents = func(dir string) error {
		if seen[dir] {
			return nil
		}
		seen[dir] = true
		if err := parents(path.Dir(dir)); err != nil {
			return err
		}
		return header(dir+"/", tar.TypeDir, 0o755, 0)
	}
	for _, f := range files {
		if err := parents(path.Dir(f.name)); err != nil {
			return nil, err
		}
		if f.mode.IsDir() {
			if err := header(f.name+"/", tar.TypeDir, f.mode, 0); err != nil {
				return nil, err
			}
			continue
		}
		if err := header(f.name, tar.TypeReg, f.mode, len(f.data)); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func sticky(mode os.FileMode) int64 {
	if mode&os.ModeSticky != 0 {
		return 0o1000
	}
	return 0
}
