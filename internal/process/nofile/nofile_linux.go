// Package nofile remembers the limit of open files with which this process was started.
//
// The Go runtime raises the limit for itself when package syscall begins, and lowers it again only in
// children that package syscall starts. This package imports nothing, so it begins before.
package nofile

import "unsafe"

// Original is the soft and the hard limit; zero if they are not known.
var Original [2]uint64

func init() {
	const limitNofile = 7
	_, _, errno := rawSyscall6(prlimit64, 0, limitNofile, 0, uintptr(unsafe.Pointer(&Original)), 0, 0)
	if errno != 0 {
		Original = [2]uint64{}
	}
}

// rawSyscall6 is that of package syscall, which must not be imported here.
//
//go:linkname rawSyscall6 syscall.RawSyscall6
func rawSyscall6(trap, a1, a2, a3, a4, a5, a6 uintptr) (r1, r2, errno uintptr)
