package confine

import "golang.org/x/sys/unix"

const (
	auditArch  = unix.AUDIT_ARCH_AARCH64
	foreignBit = 0 // there are none
)

var refusedHere = []uint32{unix.SYS_LOOKUP_DCOOKIE}
