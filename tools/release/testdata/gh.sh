#!/bin/sh
# Stands for gh in a test: publishes files as links in $PUBLISHED, and finds what was attested for a repository
# in $ATTESTED/OWNER/NAME, a list of checksums.
set -eu
fail() { echo "gh: $1" >&2 && exit 1; }
case "$1 $2" in
'release create')
	[ "$3" = "$GITHUB_REF_NAME" ] || fail "$3 is not the tag"
	[ "$4 $5" = "--verify-tag --notes-file" ] || fail "$4 $5 is not known"
	[ -s "$6" ] || fail "$6 is empty"
	shift 6
	ln "$@" "$PUBLISHED"
	;;
'attestation verify')
	[ $# -eq 5 ] && [ "$4" = --repo ] || fail "the options are not known"
	sum=$(sha256sum <"$3")
	grep -q "^${sum%% *} " "$ATTESTED/$5" || fail "$3 was not attested for $5"
	;;
*) exit 64 ;;
esac
