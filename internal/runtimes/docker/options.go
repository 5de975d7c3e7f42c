package docker

import (
	"path"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/trl-dev/trl/api"
)

// The labels of everything that TRL makes. The volume of a runner belongs to no daemon and no
// session: all daemons of one version share it.
const (
	labelDaemon  = "dev.trl.daemon"
	labelSession = "dev.trl.session"
	labelRunner  = "dev.trl.runner" // of volumes: the hash of the runner in it
	labelPrefix  = "dev.trl."
)

// runnerDir is where the runner is in a container. A new container has a volume there.
const runnerDir = "/.trl"

// invalid is the error about one option of a place.
func invalid(option, format string, args ...any) *api.Error {
	return api.InvalidParam("place."+option, format, args...)
}

// when to pull an image
const (
	pullMissing = "missing"
	pullAlways  = "always"
	pullNever   = "never"
)

// wish is what the options of a place ask for, checked and in the words of the engine.
type wish struct {
	image    string
	pull     string
	platform *ocispec.Platform // nil for that of the engine
	config   container.Config
	host     container.HostConfig
	limits   *api.Limits // of the session; nil for none
}

// wishes checks the options for a new container.
func wishes(o api.PlaceOptions) (wish, error) {
	w := wish{image: o.Image, pull: o.Pull}
	if o.Image == "" {
		return w, invalid("image", "a new container needs an image, as in docker:alpine")
	}
	switch o.Pull {
	case "":
		w.pull = pullMissing
	case pullMissing, pullAlways, pullNever:
	default:
		return w, invalid("pull", "%q: must be missing, always or never", o.Pull)
	}
	var err error
	if w.platform, err = parsePlatform(o.Platform); err != nil {
		return w, err
	}
	labels := map[string]string{}
	for name, value := range o.Labels {
		if strings.HasPrefix(name, labelPrefix) {
			return w, invalid("labels", "%s: the labels that begin with %s are TRL's own", name, labelPrefix)
		}
		labels[name] = value
	}
	w.config = container.Config{
		Image: o.Image, User: o.User, Labels: labels,
		// The private files of sessions stay in memory, not in the container's layer on the disk.
		// Sessions do not see the variable.
		Env:        []string{"TRL_RUNNER_DIR=/dev/shm/trl"},
		StopSignal: "SIGTERM", // for the runner; that of the image is for its entry point
	}
	no := false
	w.host = container.HostConfig{
		NetworkMode: container.NetworkMode(o.Network),
		CapDrop:     []string{"ALL"},
		CapAdd:      o.Capabilities,
		SecurityOpt: []string{"no-new-privileges"},
		Runtime:     o.OCIRuntime,
		Init:        &no, // the runner is the first process and reaps
		// Nothing writes there: the output of sessions stays with the runner.
		LogConfig: container.LogConfig{Type: "none"},
	}
	for _, text := range o.Mounts {
		m, err := parseMount(text)
		if err != nil {
			return w, err
		}
		w.host.Mounts = append(w.host.Mounts, m)
	}
	if o.ReadOnly != nil && *o.ReadOnly {
		w.host.ReadonlyRootfs = true
		if !mounted(w.host.Mounts, "/tmp") {
			// Shells and most programs need a place for temporary files.
			w.host.Tmpfs = map[string]string{"/tmp": "rw,exec,nosuid,nodev,mode=1777"}
		}
	}
	return w, nil
}

func mounted(list []mount.Mount, target string) bool {
	for _, m := range list {
		if m.Target == target {
			return true
		}
	}
	return false
}

// parseMount parses SOURCE:TARGET, SOURCE:TARGET:ro and SOURCE:TARGET:rw.
func parseMount(text string) (mount.Mount, error) {
	parts := strings.Split(text, ":")
	m := mount.Mount{Type: mount.TypeVolume}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			m.ReadOnly = true
		case "rw":
		default:
			return m, invalid("mounts", "%q: %q must be ro or rw", text, parts[2])
		}
		parts = parts[:2]
	}
	if len(parts) != 2 {
		return m, invalid("mounts", "%q is not SOURCE:TARGET or SOURCE:TARGET:ro", text)
	}
	m.Source, m.Target = parts[0], parts[1]
	switch {
	case m.Source == "":
		return m, invalid("mounts", "%q: the source is empty", text)
	case strings.HasPrefix(m.Source, "/"):
		m.Type = mount.TypeBind
	case strings.ContainsAny(m.Source, "/~") || strings.HasPrefix(m.Source, "."):
		return m, invalid("mounts", "%q: the source is neither an absolute path nor the name of a volume", text)
	}
	switch {
	case !strings.HasPrefix(m.Target, "/"):
		return m, invalid("mounts", "%q: the target is not an absolute path", text)
	case path.Clean(m.Target) == "/", path.Clean(m.Target) == runnerDir, strings.HasPrefix(path.Clean(m.Target), runnerDir+"/"):
		return m, invalid("mounts", "%q: nothing can be mounted on %s", text, path.Clean(m.Target))
	}
	m.Target = path.Clean(m.Target)
	return m, nil
}

// parsePlatform parses OS/ARCH and OS/ARCH/VARIANT.
func parsePlatform(text string) (*ocispec.Platform, error) {
	if text == "" {
		return nil, nil
	}
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return nil, invalid("platform", "%q is not OS/ARCH, such as linux/arm64", text)
	}
	p := &ocispec.Platform{OS: parts[0], Architecture: goArch(parts[1])}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// goArch is the name that Go and images have for an architecture, which kernels call otherwise.
func goArch(name string) string {
	switch name {
	case "x86_64", "x86-64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return name
}

// runnerTasks is how many threads the runner and the programs that join it to the daemon have in the
// container, which counts them too.
const runnerTasks = 32

// limit sets one limit of a container.
func limit(to *container.Resources, name string, v float64) {
	switch name {
	case api.LimitCPUs:
		to.NanoCPUs = int64(v * 1e9)
	case api.LimitMemory:
		to.Memory, to.MemorySwap = int64(v), int64(v)
	case api.LimitPids:
		most := int64(v) + runnerTasks
		to.PidsLimit = &most
	}
}

// creation is the request for a new container with the runner of a volume as its first process.
func (w wish) creation(name, volume, hash string, labels map[string]string, argv []string) client.ContainerCreateOptions {
	config, host := w.config, w.host
	if w.limits != nil {
		w.limits.Each(func(name string, v float64) {
			if v > 0 {
				limit(&host.Resources, name, v)
			}
		})
	}
	config.Labels = map[string]string{}
	for k, v := range w.config.Labels {
		config.Labels[k] = v
	}
	for k, v := range labels {
		config.Labels[k] = v
	}
	config.Entrypoint, config.Cmd = argv, nil
	host.Mounts = append([]mount.Mount{runnerMount(volume, hash, true)}, w.host.Mounts...)
	return client.ContainerCreateOptions{Config: &config, HostConfig: &host, Platform: w.platform, Name: name}
}

// runnerMount mounts the volume of a runner, which the engine makes if it does not exist.
func runnerMount(volume, hash string, readOnly bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: volume, Target: runnerDir, ReadOnly: readOnly,
		VolumeOptions: &mount.VolumeOptions{NoCopy: true, Labels: map[string]string{labelRunner: hash}}}
}
