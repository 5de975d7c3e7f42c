// Package vm runs tests of limits and isolation in a virtual machine, with another kernel than
// that of this machine and with cgroup v2 alone: as root, as a user to whom a part of the tree is delegated, and
// as a user without one. The machine is emulated by qemu, has no network and no disk, and boots from
// memory. tests/setup.sh installs qemu and the kernel.
package vm
