#!/bin/sh
# Installs trl for one user, without root:
#
#   curl -fsSL https://github.com/trl-dev/trl/releases/latest/download/install.sh | sh
#
# TRL_INSTALL_DIR   where the program goes; ~/.local/bin by default
# TRL_VERSION       a version such as 0.1.0; the latest by default
# TRL_BASE_URL      where the files of the release are; GitHub by default
#
# It downloads the archive for this machine, compares its SHA-256 checksum with the list of the
# release, and replaces the program only if they agree.
set -eu

fail() { echo "install.sh: $*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

releases=https://github.com/trl-dev/trl/releases
if [ -n "${TRL_BASE_URL:-}" ]; then
	base=$TRL_BASE_URL
elif [ -n "${TRL_VERSION:-}" ]; then
	base=$releases/download/v${TRL_VERSION#v}
else
	base=$releases/latest/download
fi

# get URL FILE
get() {
	if have curl; then
		curl -fsSL --retry 3 -o "$2" "$1"
	elif have wget; then
		wget -q -O "$2" "$1"
	else
		fail "neither curl nor wget is installed"
	fi || fail "$1: cannot be downloaded"
}

# sum FILE prints its SHA-256 checksum.
sum() {
	if have sha256sum; then
		sha256sum "$1"
	elif have shasum; then
		shasum -a 256 "$1"
	else
		fail "neither sha256sum nor shasum is installed"
	fi | cut -d ' ' -f 1
}

# Everything is in a function, so that a script that was cut off while it was downloaded does nothing.
main() {
	case $(uname -s) in
	Linux) os=linux ;;
	Darwin) os=darwin ;;
	*) fail "there is no trl for $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) arch=amd64 ;;
	aarch64 | arm64) arch=arm64 ;;
	*) fail "there is no trl for $(uname -m)" ;;
	esac
	dir=${TRL_INSTALL_DIR:-${HOME:?is not set}/.local/bin}

	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	get "$base/SHA256SUMS" "$work/SHA256SUMS"
	line=$(grep "_${os}_${arch}\.tar\.gz\$" "$work/SHA256SUMS") || fail "$base: has no archive for $os/$arch"
	want=${line%% *} name=${line##* }
	get "$base/$name" "$work/$name"
	got=$(sum "$work/$name")
	[ "$got" = "$want" ] || fail "$name: has the checksum $got, the release says $want; nothing was installed"
	tar -xzf "$work/$name" -C "$work"

	mkdir -p "$dir"
	# A running trl keeps its old file.
	cp "$work/${name%.tar.gz}/bin/trl" "$dir/.trl.new.$$"
	chmod 755 "$dir/.trl.new.$$"
	mv -f "$dir/.trl.new.$$" "$dir/trl"
	echo "$("$dir/trl" --version) is in $dir"
	case :$PATH: in
	*":$dir:"*) ;;
	*) echo "Add it to your PATH:  export PATH=\"$dir:\$PATH\"" ;;
	esac
	echo "Try:  trl run 'echo hello'"
}

main
