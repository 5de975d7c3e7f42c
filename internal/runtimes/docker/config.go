package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"

	"github.com/trl-dev/trl/api"
	"github.com/trl-dev/trl/internal/process"
)

// configuration is the part of docker's config.json that matters here.
type configuration struct {
	CurrentContext string            `json:"currentContext"`
	Auths          map[string]login  `json:"auths"`
	CredsStore     string            `json:"credsStore"`
	CredHelpers    map[string]string `json:"credHelpers"`
}

// login is how docker login stores credentials without a helper.
type login struct {
	Auth          string `json:"auth"` // USER:PASSWORD in base64
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func (s surroundings) configDir() string {
	if dir := s.env("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	return filepath.Join(s.home, ".docker")
}

func (s surroundings) config() (configuration, error) {
	var c configuration
	path := filepath.Join(s.configDir(), "config.json")
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &c)
	}
	if err != nil {
		// The text of a syntax error has no part of the file, which contains passwords.
		return c, api.Errorf(api.CodeRuntimeUnavailable, "the docker configuration %s cannot be read: %s", path, err)
	}
	return c, nil
}

// hub is the name under which docker login stores the credentials for Docker Hub.
const hub = "https://index.docker.io/v1/"

// credentials returns the header with which an image is pulled; empty if there are no credentials
// for its registry.
func (d *Driver) credentials(ctx context.Context, s surroundings, image string) (string, error) {
	ref, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", api.Errorf(api.CodeInvalidParams, "image %q: %s", image, err)
	}
	c, err := s.config()
	if err != nil {
		return "", err
	}
	server := reference.Domain(ref)
	if server == "docker.io" {
		server = hub
	}
	auth, err := d.login(ctx, c, server)
	if err != nil || auth == (registry.AuthConfig{}) {
		return "", err
	}
	auth.ServerAddress = server
	return authconfig.Encode(auth)
}

// login returns the credentials for a registry: from the helper for that registry, else from the
// helper for all, else from the file.
func (d *Driver) login(ctx context.Context, c configuration, server string) (registry.AuthConfig, error) {
	helper := c.CredHelpers[server]
	if helper == "" {
		helper = c.CredsStore
	}
	if helper != "" {
		auth, err := d.askHelper(ctx, helper, server)
		if err != nil || auth != (registry.AuthConfig{}) {
			return auth, err
		}
	}
	for name, l := range c.Auths {
		if bareServer(name) != bareServer(server) {
			continue
		}
		auth := registry.AuthConfig{IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken}
		if l.Auth != "" {
			text, err := base64.StdEncoding.DecodeString(l.Auth)
			name, password, ok := strings.Cut(strings.TrimRight(string(text), "\x00"), ":")
			if err != nil || !ok {
				return registry.AuthConfig{}, api.Errorf(api.CodeRuntimeUnavailable, "the docker configuration has no readable credentials for %s: docker login writes them again", server)
			}
			auth.Username, auth.Password = name, password
		}
		return auth, nil
	}
	return registry.AuthConfig{}, nil
}

// bareServer is the host of a registry, which old versions of docker login stored as a URL.
func bareServer(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "https://"), "http://")
	name, _, _ = strings.Cut(name, "/")
	return name
}

// askHelper runs docker-credential-HELPER, which answers with the credentials for a server.
func (d *Driver) askHelper(ctx context.Context, helper, server string) (registry.AuthConfig, error) {
	program := "docker-credential-" + helper
	stdout, stderr, status, err := d.run(ctx, program, []string{program, "get"}, server)
	said := strings.TrimSpace(stdout + stderr) // helpers print their errors to stdout
	switch {
	case err != nil:
		return registry.AuthConfig{}, api.Errorf(api.CodeRuntimeUnavailable, "credentials for %s: %s", server, err)
	case status != 0 && strings.Contains(said, "credentials not found"):
		return registry.AuthConfig{}, nil
	case status != 0:
		return registry.AuthConfig{}, api.Errorf(api.CodeRuntimeUnavailable, "credentials for %s: %s get: exit status %d: %s", server, program, status, said)
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil {
		return registry.AuthConfig{}, api.Errorf(api.CodeRuntimeUnavailable, "credentials for %s: %s get: the answer is not JSON", server, program)
	}
	if answer.Username == "<token>" {
		return registry.AuthConfig{IdentityToken: answer.Secret}, nil
	}
	return registry.AuthConfig{Username: answer.Username, Password: answer.Secret}, nil
}

// run runs a program of this machine to its end, or until the context ends.
func (d *Driver) run(ctx context.Context, name string, args []string, stdin string) (stdout, stderr string, status int, err error) {
	path, err := lookPath(name)
	if err != nil {
		return "", "", 0, err
	}
	var theirs, ours []*os.File // stdin, stdout, stderr
	defer func() {
		for _, f := range append(theirs, ours...) {
			_ = f.Close()
		}
	}()
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return "", "", 0, err
		}
		if i == 0 {
			theirs, ours = append(theirs, r), append(ours, w)
		} else {
			theirs, ours = append(theirs, w), append(ours, r)
		}
	}
	p, err := d.spawn(process.Spec{Path: path, Args: args, Env: helperEnv(os.Environ()), Files: theirs, Setsid: true})
	if err != nil {
		return "", "", 0, err
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	stop := context.AfterFunc(ctx, func() {
		_ = syscall.Kill(-p.PID, syscall.SIGKILL) // with its children: the program leads its group
		for _, f := range ours {
			_ = f.SetDeadline(past)
		}
	})
	defer stop()
	var texts [2]string
	var reading sync.WaitGroup
	for i := range texts {
		reading.Go(func() {
			data, _ := io.ReadAll(io.LimitReader(ours[i+1], 1<<20))
			texts[i] = string(data)
		})
	}
	_, _ = io.WriteString(ours[0], stdin)
	_ = ours[0].Close()
	reading.Wait()
	<-p.Done()
	d.forget(p.PID)
	if ctx.Err() != nil {
		return "", "", 0, fmt.Errorf("%s: %w", name, context.Cause(ctx))
	}
	return texts[0], texts[1], p.Exit().Code(), nil
}

// helperEnv is the environment of a program that the daemon runs: without the daemon's own variables,
// among which its token may be.
func helperEnv(environ []string) []string {
	env := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, "TRL_") })
	return append(env, process.HelperMark)
}

// lookPath finds a program in the directories of PATH.
func lookPath(name string) (string, error) {
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s, which the docker configuration names, is not in a directory of PATH", name)
}
