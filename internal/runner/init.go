package runner

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/trl-dev/trl/internal/process"
)

// emptyTimeout is how long the first process of a container stays without any runner. A daemon that
// returns earlier learns how the last runner ended.
const emptyTimeout = 10 * time.Minute

// initProcess is the first process of a container. It reaps every orphan and starts the runner of
// the first session. At SIGTERM or SIGINT it tells the runners to end their sessions, and exits when
// they have.
func initProcess(args []string) int {
	process.BecomeSubreaper() // where the container shares the process ids of others
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	reaper := process.NewReaper()
	// A child that has ended counts as dead, even if it is not reaped yet.
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	if len(args) == 1 {
		r, err := startRunner(args[0], reaper)
		if err != nil {
			return complain(1, err.Error())
		}
		if status := answer(r); status != 0 {
			return status
		}
	}
	empty := time.NewTimer(emptyTimeout)
	for {
		if len(runnersHere()) > 0 {
			empty.Stop()
		} else {
			empty.Reset(emptyTimeout)
		}
		select {
		case <-ended:
		case <-empty.C:
			if len(runnersHere()) == 0 {
				return 0
			}
		case s := <-signals:
			endRunners(s.(syscall.Signal))
			return 0
		}
	}
}

// endRunners passes a signal on to all runners and waits for their end.
func endRunners(s syscall.Signal) {
	var list []*process.Handle
	for _, i := range runnersHere() {
		if h, ok := process.Open(i); ok {
			_ = h.Signal(s)
			list = append(list, h)
		}
	}
	process.WaitGone(list, time.Now().Add(time.Hour))
}

// runnersHere returns the runners that live in this place.
func runnersHere() []process.Info {
	var list []process.Info
	for _, base := range bases() {
		reports, _ := filepath.Glob(filepath.Join(base, "s-*", reportFile))
		for _, path := range reports {
			if _, p := findRunner(filepath.Dir(path)); alive(p.info()) {
				list = append(list, p.info())
			}
		}
	}
	return list
}
