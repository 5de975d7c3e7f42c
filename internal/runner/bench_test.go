package runner_test

import (
	"testing"

	"github.com/trl-dev/trl/api"
)

// BenchmarkRun is a command over the link, without daemon and socket.
func BenchmarkRun(b *testing.B) {
	for _, sh := range []string{"dash", "bash", "zsh", "ash", "fish"} {
		if !installed(sh) {
			continue
		}
		for _, command := range []string{"true", "/bin/true"} {
			b.Run(sh+"/"+command, func(b *testing.B) {
				d := start(b, api.SessionCreateParams{Shell: sh})
				d.run(command)
				b.ResetTimer()
				for range b.N {
					d.run(command)
				}
			})
		}
	}
}
