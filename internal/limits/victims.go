package limits

// Scores are values of oom_score_adj, by which the kernel chooses its victim when memory is short. One
// point counts like a thousandth of the limit that was reached, or of the machine's memory.
type Scores struct {
	Shell   int // of the shell, terminals and programs
	Command int // of the processes of commands
}

const (
	// commandPoints make the kernel prefer the processes of commands to the shell, unless the shell has
	// a third of the memory more.
	commandPoints = 300
	// shellPoints are the most points of a shell above the runner.
	shellPoints = 300
	// runnerBytes is more memory than the runner of a shell has. In a shared limit, the points of the
	// shell are worth that much. More points would make shells victims where the whole machine is short
	// of memory.
	runnerBytes = 32 << 20
)

// ScoresFor returns the scores of a session whose runner has the score own. Shared is the memory
// limit that counts the runner too; 0 for none. There the shell is preferred to the runner, which is
// usually larger. The scores are above that of the runner, because its place or its service manager may
// have chosen that one, and lowering it needs a privilege. The highest score is 1000; a runner near it,
// as in a pod of the class Burstable, leaves the others only the scores above its own.
func ScoresFor(own int, shared int64) Scores {
	shell := 0
	if shared > 0 {
		shell = int(min(shellPoints, 1+runnerBytes*1000/shared))
	}
	command := shell + commandPoints
	if room := 1000 - own; command > room {
		shell, command = shell*room/command, room
	}
	return Scores{Shell: own + shell, Command: own + command}
}
