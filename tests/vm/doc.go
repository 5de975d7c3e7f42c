// Package vm runs tests of limits and isolation in a virtual machine, with another kernel than
// that of this machine and with cgroup v2 alone: as root, as a user to whom a part of the tree is delegated, and
// as a user without one. Another machine boots systemd, with the units of the packages: a user types the commands
// of the pages about them there. The machines are emulated by qemu, have no network and no disk, and boot from
// memory. tests/setup.sh installs qemu, the kernel and systemd.
package vm
